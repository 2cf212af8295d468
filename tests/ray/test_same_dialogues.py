"""A run on Ray holds the dialogues that one process plays, and no more than they cost there."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import heartloop as heartloop_package
from heartloop.core.dialogue import Transcript
from heartloop.evaluation.store import RunDirectory, read_log, stored_transcripts
from heartloop.integrations.ray import _Driver, _Worker
from tests.commands import heartloop, over_http, refused
from tests.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("cluster")
LAB = ("eval", "sage", "--yes", "-m", "lab/policy", "--user", "lab/person", "-E", "max_turns=3", "--max-connections", "8")


def timeless(run: Path) -> list[dict[str, Any]]:
    """The dialogues of a run by key, without times."""

    def without_times(transcript: Transcript) -> dict[str, Any]:
        calls = tuple(call.model_copy(update={"seconds": 0.0}) for call in transcript.calls)
        return transcript.model_copy(update={"seconds": 0.0, "calls": calls}).model_dump()

    return [without_times(one) for one in sorted(stored_transcripts(run), key=lambda one: one.key)]


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers see no marker in the run, as if it was on a disk of the command's machine."""
    monkeypatch.setattr("heartloop.integrations.ray.is_copy", lambda path: True)


@pytest.mark.parametrize("environment", ["sage", "eibench", "empa", "perm", "daily", "stances"])
def test_embedded_dialogues_are_those_of_one_process(environment: str, tmp_path: Path) -> None:
    words = ("eval", environment, "-m", "heartloop/reflector", "-m", "heartloop/lecturer", "--user", "embedded", "--limit", "3")
    alone = heartloop(*words, "--out", "alone", cwd=tmp_path, code=0)
    on_ray = heartloop(*words, "--out", "ray", "--ray", cwd=tmp_path, code=0)
    assert len(timeless(tmp_path / "ray")) >= 6
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "alone")
    assert on_ray.out.split(" in ")[0] == alone.out.split(" in ")[0], "the same leaderboard"


async def test_dialogues_with_endpoints_and_their_numbers_are_those_of_one_process(tmp_path: Path) -> None:
    served: dict[str, int] = {}
    for name, further in (("alone", ()), ("ray", ("--ray",))):
        async with FaultyServer("error_503:0.1") as server:  # one of its own, as faults depend on what it saw
            await over_http(server, *LAB, "--limit", "12", "--out", name, *further, cwd=tmp_path, code=0)
            served[name] = len(server.served)
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "alone")
    assert served["ray"] == served["alone"]
    retried = {name: _noted(tmp_path / name, "retried") for name in served}
    assert retried["ray"] == retried["alone"], "calls sent again are counted over all workers"
    assert retried["ray"]["lab/policy"]


async def test_settings_that_an_endpoint_refuses_are_counted_over_all_workers(tmp_path: Path) -> None:
    async with FaultyServer("no_seed") as server:
        done = await over_http(server, *LAB, "--limit", "6", "--out", "run", "--ray", cwd=tmp_path, code=0)
    policy_calls = sum(call.role == "policy" for one in stored_transcripts(tmp_path / "run") for call in one.calls)
    assert _noted(tmp_path / "run", "dropped")["lab/policy"] == {"seed": policy_calls}
    assert "lab/policy does not accept seed" in done.err


def _noted(run: Path, what: str) -> dict[str, Any]:
    return {name: habits[what] for name, habits in read_log(run)[-1]["endpoints"].items()}


def test_every_worker_writes_a_file_of_its_own_and_a_finished_run_is_not_played_again(tmp_path: Path) -> None:
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "40", "--out", "run")
    heartloop(*words, "--ray", cwd=tmp_path, code=0)
    files = sorted(path.name for path in (tmp_path / "run" / "transcripts").iterdir())
    assert files == ["0001-001.jsonl", "0001-002.jsonl"]
    assert not (tmp_path / "run" / "transcripts.jsonl").exists()
    assert "0 dialogues played" in heartloop(*words, "--ray", cwd=tmp_path, code=0).out
    assert "0 dialogues played" in heartloop(*words, cwd=tmp_path, code=0).out
    assert "0 dialogues played" in heartloop(*words, "--ray", "127.0.0.1:9", cwd=tmp_path, code=0).out, "needs no cluster"


def test_workers_that_do_not_see_the_run_have_the_command_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "10")
    heartloop(*words, "--out", "alone", cwd=tmp_path, code=0)
    elsewhere(monkeypatch)
    heartloop(*words, "--out", "ray", "--ray", cwd=tmp_path, code=0)
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "alone")
    assert [path.name for path in (tmp_path / "ray").rglob("*.jsonl") if path.name != "log.jsonl"] == ["transcripts.jsonl"]


def test_bots_whose_file_the_workers_do_not_see_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch)
    (tmp_path / "travelling_bot.py").write_text(
        "import os\n\nos.remove(__file__)\nHELLO = 'I hear you.'\n\n"
        "def reply(messages):\n    return f'{HELLO} {os.getpid()}'\n\nother = reply\n"
    )
    words = ("eval", "sage", "-m", "python:travelling_bot:reply", "-m", "python:travelling_bot:other")
    heartloop(*words, "--user", "embedded", "--limit", "2", "-E", "max_turns=2", "--out", "run", "--ray", cwd=tmp_path, code=0)
    replies = {turn.reply for one in stored_transcripts(tmp_path / "run") for turn in one.turns}
    assert replies
    assert all(reply.startswith("I hear you.") and not reply.endswith(f" {os.getpid()}") for reply in replies)


@pytest.mark.parametrize("writable", [True, False])
def test_a_worker_writes_where_it_may_and_needs_no_folder(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    marker.write_text("token")
    monkeypatch.setattr(os, "access", lambda path, mode: writable)
    worker = _Worker()
    unreadable, file = "/" + 300 * "x", tmp_path / "transcripts" / "0001-001.jsonl"
    worker.begin(pickle.dumps((None, {})), unreadable, str(marker), str(file), "token", heartloop_package.__version__)
    assert worker._file == (file if writable else None)


def test_what_cannot_travel_is_named(tmp_path: Path) -> None:
    (tmp_path / "locked_bot.py").write_text(
        "import threading\n\nclass Bot:\n    def __init__(self):\n        self.lock = threading.Lock()\n\n"
        "    def __call__(self, messages):\n        return 'Yes.'\n\nreply = Bot()\n"
    )
    words = ("eval", "sage", "-m", "python:locked_bot:reply", "--user", "embedded", "--limit", "2", "--out", "run", "--ray")
    done = heartloop(*words, cwd=tmp_path, code=2)
    assert "python:locked_bot:reply" in done.err
    assert "lock" in done.err


def test_a_dialogue_that_ends_its_worker_again_and_again_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "deadly_bot.py").write_text("import os\n\ndef reply(messages):\n    os._exit(1)\n")
    words = ("eval", "sage", "-m", "python:deadly_bot:reply", "--user", "embedded", "--limit", "1", "--out", "run", "--ray")
    done = heartloop(*words, cwd=tmp_path, code=1)
    assert "3 workers" in done.err
    (scenario,) = json.loads((tmp_path / "run" / "settings.json").read_text())["scenarios"]
    assert f"{scenario} with python:deadly_bot:reply" in done.err


def test_a_bot_that_raises_what_is_no_exception_does_not_hang_the_run(tmp_path: Path) -> None:
    for raised in ("SystemExit", "CancelledError"):
        code = f"from asyncio import CancelledError\n\nasync def reply(messages):\n    raise {raised}\n"
        (tmp_path / f"{raised.lower()}_bot.py").write_text(code)
    words = ("eval", "sage", "--user", "embedded", "--limit", "1", "--ray")
    done = heartloop(*words, "-m", "python:systemexit_bot:reply", "--out", "silent", cwd=tmp_path, code=1)
    assert "systemexit_bot:reply raised SystemExit" in done.err
    with pytest.raises(RuntimeError, match="CancelledError"):
        heartloop(*words, "-m", "python:cancellederror_bot:reply", "--out", "none", cwd=tmp_path)


def test_another_version_on_a_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "1", "--out", "run", "--ray")
    on_nodes = heartloop_package.__version__
    monkeypatch.setattr(heartloop_package, "__version__", "0.0.1")
    done = heartloop(*words, cwd=tmp_path, code=2)
    assert f"it has heartloop {on_nodes}, the command 0.0.1" in " ".join(done.err.split())


def test_the_cause_that_ends_workers_at_their_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(_Worker):
        def __init__(self) -> None:
            raise ModuleNotFoundError("No module named 'of_a_node'")

    monkeypatch.setattr("heartloop.integrations.ray._Worker", Broken)
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "1", "--out", "run", "--ray")
    done = heartloop(*words, cwd=tmp_path, code=2)
    assert "No module named 'of_a_node'" in done.err
    assert "same packages" in done.err


@pytest.mark.parametrize("method", ["_send", "worker_file", "answer_acquire"])
async def test_an_error_of_the_command_ends_the_run(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = RunDirectory if method == "worker_file" else _Driver

    def broken(*_: Any) -> Any:
        raise LookupError("of a test")

    monkeypatch.setattr(of, method, broken)
    with pytest.raises(LookupError, match="of a test"):
        async with FaultyServer() as server:
            await asyncio.wait_for(over_http(server, *LAB, "--limit", "2", "--out", "run", "--ray", cwd=tmp_path), 60)


def test_rejudging_and_its_suites_give_the_same_on_ray(tmp_path: Path) -> None:
    words = ("eval", "empa", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "6", "--out", "run")
    heartloop(*words, "-E", "max_turns=4", cwd=tmp_path, code=0)
    for name, further in (("alone", ()), ("ray", ("--ray",))):
        heartloop("rejudge", "run", "--judge", "embedded", "--out", f"judged-{name}", *further, cwd=tmp_path, code=0)
        suite = ("validate", "run", "--suite", "perturbation", "--judge", "embedded", "--out", f"valid-{name}")
        heartloop(*suite, *further, cwd=tmp_path, code=0)
    assert len(timeless(tmp_path / "judged-ray")) == 6
    assert timeless(tmp_path / "judged-ray") == timeless(tmp_path / "judged-alone")
    variants = [path.parent for path in (tmp_path / "valid-ray").rglob("settings.json")]
    assert len(variants) > 1
    for variant in variants:
        assert timeless(variant) == timeless(tmp_path / "valid-alone" / variant.relative_to(tmp_path / "valid-ray"))


async def test_a_judge_behind_an_endpoint_scores_the_same_on_ray(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        await over_http(server, *LAB, "--limit", "6", "--out", "run", cwd=tmp_path, code=0)
        for name, further in (("alone", ()), ("ray", ("--ray",))):
            words = ("rejudge", "run", "--judge", "lab/judge", "--yes", "--out", name, *further)
            await over_http(server, *words, cwd=tmp_path, code=0)
    assert timeless(tmp_path / "ray") == timeless(tmp_path / "alone")


async def test_settings_left_out_are_counted_once_in_a_command_with_several_runs(tmp_path: Path) -> None:
    words = (
        "eval",
        "empa",
        "-m",
        "heartloop/reflector",
        "--user",
        "embedded",
        "--limit",
        "2",
        "-E",
        "max_turns=2",
        "--out",
        "run",
    )
    heartloop(*words, cwd=tmp_path, code=0)
    dropped: dict[str, dict[Path, Any]] = {}
    for name, further in (("alone", ()), ("ray", ("--ray",))):
        async with FaultyServer("no_schema@any") as server:
            words = ("validate", "run", "--suite", "perturbation", "--judge", "lab/judge", "--yes", "--out", name, *further)
            await over_http(server, *words, cwd=tmp_path)
        runs = [path.parent for path in (tmp_path / name).rglob("settings.json")]
        dropped[name] = {run.relative_to(tmp_path / name): _noted(run, "dropped")["lab/judge"] for run in runs}
    assert len(dropped["alone"]) > 1
    assert all(dropped["alone"].values())
    assert dropped["ray"] == dropped["alone"]


def test_questions_about_a_run_are_asked_without_workers(tmp_path: Path) -> None:
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "2", "--out", "run")
    heartloop(*words, cwd=tmp_path, code=0)
    refused("validate", "run", "--suite", "strategies", "--ray", cwd=tmp_path, said="--ray applies only to suites that rejudge")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere", "127.0.0.1:what"])
def test_a_wrong_address_is_refused_in_a_sentence(address: str, tmp_path: Path) -> None:
    import ray

    assert ray.is_initialized()
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "1", "--out", "run")
    refused(*words, "--ray", address, cwd=tmp_path, said=[f"--ray {address}", "HOST:PORT"])


def test_usage_statistics_are_off(tmp_path: Path) -> None:
    import ray
    from ray._common.usage import usage_lib

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not usage_lib.usage_stats_enabled()

    def of_a_worker() -> tuple[str | None, bool]:
        from ray._common.usage import usage_lib

        return os.environ.get("RAY_USAGE_STATS_ENABLED"), usage_lib.usage_stats_enabled()

    assert ray.get(ray.remote(of_a_worker).remote()) == ("0", False)
