"""The integration with TRL, as a specification."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

import heartloop
from heartloop.core.errors import UseError
from heartloop.environments.perm.scoring import BROKEN_FORMAT
from heartloop.environments.registry import load_environment
from heartloop.integrations.trl import dataset_rows, reward_function
from tests.faulty_server import FaultyServer
from tests.one_turn_scenarios import SAMPLE

ROOT = Path(__file__).parents[2]
ANSWER = "# Analysis\nHe is jealous, and ashamed of it.\n\n# Response\nYou carried the monitor to the window yourself."


@pytest.fixture
def samples(tmp_path: Path) -> str:
    file = tmp_path / "samples.jsonl"
    file.write_text(SAMPLE.model_dump_json() + "\n")
    return str(file)


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_a_row_is_what_the_policy_reads(samples: str) -> None:
    (row,) = dataset_rows("perm", samples)
    spec = load_environment("perm")
    environment = spec.make([SAMPLE], spec.players())
    assert row["scenario"] == SAMPLE.id
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert [message["content"] for message in row["prompt"]] == [environment.begin(SAMPLE.id).policy_prompt, SAMPLE.query]
    json.dumps(row)
    assert len(dataset_rows("perm")) == 640


async def test_the_reward_is_the_environments_and_its_parts_are_logged(samples: str) -> None:
    logged: dict[str, float] = {}
    reward = reward_function("perm", samples, user="embedded", allow_embedded=True)
    assert reward.__name__ == "perm"
    conversational = [said(ANSWER), said("I am sorry."), said(f"<think>jealous?</think>{ANSWER}")]
    found = await reward(
        prompts=[[]] * 3, completions=conversational, completion_ids=[[1]] * 3, scenario=[SAMPLE.id] * 3,
        trainer_state=SimpleNamespace(global_step=3), log_metric=logged.__setitem__, log_extra=print,
    )  # fmt: skip
    first, broken, thought = found
    assert first is not None
    assert (broken, thought) == (BROKEN_FORMAT, first), "a thought is gone before the answer is read"
    assert found == await reward(completions=[ANSWER, "I am sorry.", ANSWER], scenario=[SAMPLE.id] * 3,
                                 trainer_state=SimpleNamespace(global_step=3))  # fmt: skip
    assert logged["perm/form"] == pytest.approx(2 / 3)
    assert logged["perm/unscored"] == 0
    terms = sum(logged[f"perm/{name}_term"] for name in ("empathy", "bystander", "length"))
    assert terms == pytest.approx(first)
    ablation = reward_function("perm", samples, user="embedded", allow_embedded=True, options={"without": ["bystander"]})
    (without,) = await ablation(completions=[ANSWER], scenario=[SAMPLE.id])
    assert without is not None
    assert without > first


async def test_any_environment_of_one_answer() -> None:
    row = dataset_rows("sage", "support", options={"max_turns": 1})[0]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    options = {"max_turns": 1, "start": 30}
    reward = reward_function("sage", "support", user="embedded", allow_embedded=True, options=options)
    (found,) = await reward(completions=["I hear you."], scenario=[row["scenario"]])
    assert found is not None
    assert 0.2 <= found <= 0.4, "the final emotion over 100, after one change of at most 10"
    with pytest.raises(UseError, match="max_turns"):
        dataset_rows("sage")
    with pytest.raises(UseError, match="no rewards"):
        reward_function("daily", user="heartloop/reflector")


def test_the_embedded_user_is_no_reward_unless_it_is_allowed(samples: str) -> None:
    with pytest.raises(UseError, match="allow_embedded=True"):
        reward_function("perm", samples, user="embedded")


async def test_what_no_judge_graded_is_none(samples: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyServer("bad_request:1") as server:
        monkeypatch.setenv("FAULTY_BASE_URL", server.base_url)
        logged: dict[str, float] = {}
        reward = reward_function("perm", samples, user="faulty/judge")
        found = await reward(completions=[ANSWER, "I am sorry."], scenario=[SAMPLE.id] * 2, log_metric=logged.__setitem__)
    assert found == [None, BROKEN_FORMAT]
    assert logged["perm/unscored"] == 1


@pytest.mark.skipif(not find_spec("trl") or not find_spec("peft"), reason="the extra trl is not installed")
def test_trl_trains_with_it(tmp_path: Path) -> None:
    """The example as it stands, with a policy of a few thousand weights, for two steps."""
    from tests.training import tiny_policy

    model = tiny_policy.save(tmp_path / "policy")
    source = str(Path(heartloop.__file__).parents[1])
    command = [sys.executable, str(ROOT / "examples" / "perm_trl.py"), str(model), "--steps", "2", "--tokens", "8", "--cpu"]
    command += ["--judge", "embedded", "--allow-embedded"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "'rewards/perm/mean': '-0.5'" in done.stdout, "eight tokens of noise keep no form"
    assert "'perm/unscored': '0'" in done.stdout
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()
