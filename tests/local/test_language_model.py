"""A real language model in every role: `make test-local`, some minutes on two cores."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="the extra local is not installed")

from tests.eqbench_checkout import write_checkout
from tests.test_local_models import until_ended

MODEL = "local/smollm2"
DIALOGUES: Mapping[str, int] = {"sage": 10, "eibench": 12, "empa": 4, "perm": 6, "daily": 4, "eqbench": 4, "stances": 4}
TURNS = {"sage": 3, "eqbench": 3}
"""Most turns; two elsewhere, where an environment has several."""
SCORED = 0.9


def heartloop(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "heartloop.cli", *arguments], capture_output=True, text=True, check=False)


def evaluate(environment: str, out: Path, cache: Path, *more: str, limit: int | None = None) -> list[str]:
    """The arguments of an evaluation with the model in every role."""
    command = [
        "eval", environment, "--model", MODEL, "--user", MODEL, "--limit", str(limit or DIALOGUES[environment]),
        "--out", str(out), "--cache", str(cache), "--request", "policy.max_tokens=60", "--request", "policy.seed=0", "--yes",
        *more,
    ]  # fmt: skip
    several = environment in ("sage", "eibench", "empa", "eqbench")
    return [*command, "-E", f"max_turns={TURNS.get(environment, 2)}"] if several else command


def transcripts(run: Path) -> list[dict[str, Any]]:
    path = run / "transcripts.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of every environment and their cache."""
    folder = tmp_path_factory.mktemp("local")
    checkout = write_checkout(folder / "checkout")
    for environment in DIALOGUES:
        more = ["--scenarios", str(checkout)] if environment == "eqbench" else []
        started = time.monotonic()
        ended = heartloop(*evaluate(environment, folder / environment, folder / "cache.sqlite", *more))
        print(f"{environment}: {time.monotonic() - started:.0f} s\n{ended.stdout[-1500:]}{ended.stderr[-1500:]}")
        assert ended.returncode in (0, 1), ended.stderr
    return folder


def test_nine_in_ten_dialogues_are_scored_and_the_others_name_their_failure(played: Path) -> None:
    rows = [row for environment in DIALOGUES for row in transcripts(played / environment)]
    failures = [row for row in rows if row["failure"] is not None]
    for row in failures:
        print(row["environment"], row["scenario"], row["failure"])
        assert row["failure"]["role"] in ("policy", *row["models"])
        assert row["failure"]["detail"]
    assert len(rows) == sum(DIALOGUES.values())
    assert all(len(row["turns"]) <= (5 if row["environment"] == "stances" else 3) for row in rows)
    assert sum(row["score"] is not None for row in rows) >= SCORED * len(rows)


def test_the_model_says_something_in_every_role(played: Path) -> None:
    for environment in DIALOGUES:
        rows = [row for row in transcripts(played / environment) if row["score"] is not None]
        assert any(turn["reply"].strip() for row in rows for turn in row["turns"]), environment
        assert all(call["text"].strip() for row in rows for call in row["calls"]), environment


def test_the_cache_answers_a_second_run(played: Path) -> None:
    again = heartloop(*evaluate("sage", played / "again", played / "cache.sqlite"))
    assert again.returncode in (0, 1), again.stderr
    before, after = ({row["scenario"]: row for row in transcripts(played / name)} for name in ("sage", "again"))
    scored = [name for name, row in before.items() if row["score"] is not None]
    assert [after[name]["turns"] for name in scored] == [before[name]["turns"] for name in scored]


def test_stored_dialogues_are_judged_again(played: Path) -> None:
    out = played / "rejudged"
    done = heartloop("rejudge", str(played / "perm"), "--judge", MODEL, "--out", str(out), "--yes")
    assert done.returncode in (0, 1), done.stderr
    rows = transcripts(out)
    assert len(rows) == len([row for row in transcripts(played / "perm") if row["score"] is not None])
    assert any(row["score"] is not None for row in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
def test_a_killed_run_ends_its_server_and_goes_on(tmp_path: Path) -> None:
    arguments = evaluate("sage", tmp_path / "run", tmp_path / "cache.sqlite", "--max-connections", "2", limit=4)
    with subprocess.Popen([sys.executable, "-m", "heartloop.cli", *arguments], stderr=subprocess.DEVNULL) as run:
        while not transcripts(tmp_path / "run") and run.poll() is None:
            time.sleep(0.2)
        servers = [int(pid) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="ascii").split()]
        run.send_signal(signal.SIGKILL)
        run.wait()
    before = transcripts(tmp_path / "run")
    assert servers
    assert all(until_ended(pid) for pid in servers)
    ended = heartloop(*arguments)
    assert ended.returncode in (0, 1), ended.stderr
    after = transcripts(tmp_path / "run")
    assert after[: len(before)] == before
    assert len({row["scenario"] for row in after}) == len(after) == 4


def test_the_inspect_task_plays_with_it(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    command = [
        sys.executable, "-m", "inspect_ai", "eval", "heartloop/sage", "--model", "heartloop/reflector", "-T", f"user={MODEL}",
        "-T", "max_turns=2", "--limit", "2", "--log-dir", str(tmp_path), "--log-format", "json", "--display", "none",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    log = json.loads(next(tmp_path.glob("*.json")).read_text(encoding="utf-8"))
    assert log["status"] == "success"
    assert [sample["scores"] for sample in log["samples"] if sample.get("scores")]
