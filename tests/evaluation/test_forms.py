"""A policy is measured under the prompt form that it was trained with; replies that break the form are counted."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import replayed
from heartloop.training.plan import evaluation_command
from heartloop.training.recipe import read_recipe
from tests.commands import over_http
from tests.faulty_server import FaultyServer


@pytest.mark.parametrize(
    ("environment", "options", "asks"),
    [
        ("sage", {}, False),
        ("sage", {"form": "think"}, True),
        ("eibench", {}, True),
        ("eibench", {"variant": "direct"}, False),
    ],
)
def test_options_say_whether_the_prompt_asks_for_a_think_block(environment: str, options: dict[str, Any], asks: bool) -> None:
    assert load_environment(environment).read_options(options).asks_to_think == asks


EVAL = ("eval", "sage", "--user", "embedded", "--limit", "2", "-E", "max_turns=2")


async def test_broken_formats_are_counted_in_transcripts_scores_table_and_report(tmp_path: Path) -> None:
    replies = iter(["<think>hm</think>I hear you.", "I hear you.", "<think>I hear", "I see.</think>I hear you."])
    async with FaultyServer(answer=lambda body: next(replies)) as server:
        words = ("--model", "lab/policy", "--model", "heartloop/reflector", "--yes", "-E", "form=think", "--max-connections", "1")
        done = await over_http(server, *EVAL, *words, "--out", "run", cwd=tmp_path, code=0)
    played = [t for t in read_transcripts(tmp_path / "run/transcripts.jsonl") if t.model == "lab/policy"]
    assert sum(t.counts["broken formats"] for t in played) == 2
    assert sum(t.counts["silences"] for t in played) == 1
    rows = {row["model"]: row for row in json.loads((tmp_path / "run/scores.json").read_text())["models"]}
    assert rows["lab/policy"]["broken_formats"] == 2
    assert rows["heartloop/reflector"]["broken_formats"] is None  # a baseline reads no prompt
    assert "broken format: lab/policy 2" in done.out
    assert any("policy_think" in name for name in played[0].prompts)


async def test_a_replayed_dialogue_keeps_the_count(tmp_path: Path) -> None:
    async with FaultyServer(answer=lambda body: "I hear you.") as server:
        await over_http(server, *EVAL, "--model", "lab/p", "--yes", "-E", "form=think", "--out", "run", cwd=tmp_path, code=0)
    [first, _] = read_transcripts(tmp_path / "run/transcripts.jsonl")
    spec = load_environment("sage")
    options = spec.read_options({"form": "think", "max_turns": 2})
    environment = spec.make([s for s in spec.load("support") if s.id == first.scenario], spec.players(), options)
    assert (await replayed(first, environment)).counts == first.counts


@pytest.mark.parametrize(
    ("recipe", "variants", "flags"),
    [
        ("rlver_grpo_qwen2.5_7b", [], "-E max_turns=8 -E start=30.0 -E leaves_at=0.0 -E form=think"),
        ("rlver_grpo_qwen2.5_7b", ["direct"], "-E max_turns=8 -E start=30.0 -E leaves_at=0.0 -E form=direct"),
        ("ctc_grpo_tiny", [], "-E variant=direct -E max_turns=6"),
    ],
)
def test_the_command_for_a_trained_policy_has_the_options_it_was_trained_under(
    recipe: str, variants: list[str], flags: str
) -> None:
    assert flags in evaluation_command(read_recipe(recipe, variants=variants), "DIR")


def test_it_has_the_sampling_and_the_options_of_the_chat_template() -> None:
    words = shlex.split(evaluation_command(read_recipe("ctc_grpo_qwen3_8b"), "DIR"))
    given = {after for word, after in pairwise(words) if word == "--request"}
    assert {"policy.temperature=0.6", "policy.top_p=0.95", "policy.top_k=20", "policy.max_tokens=1536"} <= given
    assert 'policy.chat_template_kwargs={"enable_thinking": true}' in given
    assert not any(text.startswith("user.") for text in given)
