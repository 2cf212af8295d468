"""`heartloop scenarios write` as a user meets it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heartloop.authoring.store import steps_path
from heartloop.environments.eibench.scenario import load_scenarios
from tests.authoring.scribe import Scribe
from tests.commands import KEY, files_with, heartloop, killed, over_http, process
from tests.faulty_server import FaultyServer
from tests.write_docs import ROOT

PLAYED = "python:tests.authoring.scribe:answer"
EIBENCH = ("scenarios", "write", "eibench", "--writer", PLAYED, "--auditor", PLAYED)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scenarios", "write", "chess", "--writer", PLAYED, "--auditor", PLAYED), "unknown environment 'chess'"),
        (
            ("scenarios", "write", "sage", "--writer", "heartloop/assistant", "--auditor", PLAYED),
            "--writer is heartloop/assistant",
        ),
        (("scenarios", "write", "empa", "--writer", PLAYED, "--auditor", PLAYED), "not available for empa; expected"),
        (("scenarios", "write", "sage", "--writer", PLAYED, "--auditor", "gpt"), "expected service/model"),
        (("scenarios", "write", "sage", "--writer", "nowhere/a", "--auditor", PLAYED), "NOWHERE_BASE_URL"),
        ((*EIBENCH, "--embedder", PLAYED), "gives no embeddings"),
        ((*EIBENCH, "--only", "praise"), "--only is 'praise'; expected a scene"),
        ((*EIBENCH, "--request", "policy.temperature=1"), "with role writer or auditor"),
        ((*EIBENCH, "--n", "20000"), "--n is 20000; expected 1 to 9999"),
        ((*EIBENCH, "--n", "9000", "--only", "charm"), "--n is 9000; there are"),
        ((*EIBENCH, "--seed", "9999"), "--seed is 9999; expected 0 to 9998"),
        ((*EIBENCH, "--max-tokens", "0"), "--max-tokens is 0"),
    ],
    ids=[
        "environment",
        "no part",
        "scripted",
        "name",
        "service",
        "embedder",
        "only",
        "sampling",
        "n",
        "too many",
        "seed",
        "limit",
    ],
)
def test_wrong_use_gets_one_sentence_and_writes_nothing(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = heartloop(*words, "--out", "new.jsonl", cwd=tmp_path)
    assert done.code == 2, done
    assert said in done.err.replace("\n", " ")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("jsonl") and path.stat().st_size]


async def test_over_http_a_file_is_written_that_can_be_checked_and_played(tmp_path: Path) -> None:
    async with FaultyServer("nan_vector:1", "rate_limit@policy:1", retry_after="0.01", answer=Scribe().body) as server:
        done = await over_http(server, "scenarios", "write", "eibench", "--n", "2", "--writer", "lab/w", "--auditor", "lab/a",
            "--embedder", "lab/e", "--out", "new.jsonl", "--request", "writer.temperature=0.9", cwd=tmp_path)  # fmt: skip
    assert done.code == 0, done
    assert "2 of 2 scenarios in new.jsonl; " in done.out
    assert "tokens" in done.out
    people = load_scenarios(tmp_path / "new.jsonl")
    assert [person.scene for person in people] == ["charm", "defense"]
    models = Counter(request.body["model"] for request in server.requests)
    assert models["w"] >= 6
    assert models["a"] >= 4
    assert models["e"] >= 9
    asked = [body for body in server.bodies if body["model"] == "w"]
    assert all(body["temperature"] == 0.9 and "seed" in body for body in asked)
    near = [json.loads(line) for line in steps_path(tmp_path / "new.jsonl").read_text().splitlines() if '"neighbours"' in line]
    assert {line["by"] for line in near} == {"lab/e"}
    assert not files_with(KEY, tmp_path)
    assert KEY not in done.out + done.err
    checked = heartloop("scenarios", "check", "new.jsonl", cwd=tmp_path)
    assert (checked.code, checked.out.strip()) == (0, "2 scenarios (charm 1, defense 1): no problem found")


async def test_refused_seeds_and_limits_are_told_with_exit_code_1_and_the_same_command_goes_on(
    tmp_path: Path,
) -> None:
    def instead(stage: str, text: str, nth: int) -> str | None:
        return "no" if stage == "profile" and "## The scene: defense" in text else None

    command: tuple[Any, ...] = (
        "scenarios", "write", "eibench", "--n", "2", "--writer", "lab/w", "--auditor", "lab/a", "--out", "new.jsonl",
    )  # fmt: skip
    async with FaultyServer(answer=Scribe(instead).body) as server:
        done = await over_http(server, *command, "--max-tokens", "5000", cwd=tmp_path)
        assert done.code == 1, done
        assert "Stopped early: --max-tokens 5000" in done.err
        assert "2 scenarios were not finished" in done.err
        before = len(server.requests)
        done = await over_http(server, *command, cwd=tmp_path)
        assert done.code == 1, done
        assert "1 of 2 scenarios in new.jsonl; 1 refused" in done.out
        assert "refused: defense-" in done.err
        assert "More than 5%" in done.err
        assert before > 0
        assert len(server.requests) == 5 + 4  # both runs together: what the first one heard is kept
        done = await over_http(server, *command, cwd=tmp_path)
        assert (done.code, "1 of them from an earlier run" in done.out) == (1, True)


@pytest.mark.slow
def test_killed_half_way_it_comes_to_the_same_file(tmp_path: Path) -> None:
    words = (*EIBENCH, "--n", "3", "--only", "support", "--max-connections", "2")
    assert heartloop(*words, "--out", "whole.jsonl", cwd=tmp_path).code == 0
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    log, out = tmp_path / "asked.txt", tmp_path / "killed.jsonl"
    slow = {"PYTHONPATH": paths, "SCRIBE_DELAY": "0.15", "SCRIBE_LOG": str(log)}
    steps = steps_path(out)
    assert killed(
        *words, "--out", out.name, cwd=tmp_path, **slow,
        when=lambda: steps.exists() and steps.read_bytes().count(b"\n") >= 10,
    )  # fmt: skip
    with out.open("a") as file:
        file.write('{"id": "support-')
    done = process(*words, "--out", out.name, cwd=tmp_path, **slow)
    assert done.code == 0, done
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    asked = Counter(log.read_text().splitlines())
    assert len(asked) == 3 * 5
    assert sum(asked.values()) - len(asked) <= 2  # only what was in flight when it was killed
