"""What is finished stays finished, whatever ends: the command, a worker, a node, all nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heartloop.evaluation.store import read_log, stored_transcripts, transcript_files
from heartloop.integrations.ray import _Driver
from tests.commands import KEY, Done, environment, heartloop, killed, over_http, process
from tests.faulty_server import FaultyServer

TURNS = 3
EVAL = (
    "eval", "sage", "--yes", "--no-report", "-m", "lab/policy", "--user", "lab/person", "-E", f"max_turns={TURNS}",
    "--max-connections", "4", "--limit", "30", "--out", "run",
)  # fmt: skip
CALLS = 3 * TURNS + 1
"""Most calls of a dialogue."""


def lines(run: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in transcript_files(run))


def times_played(run: Path) -> Counter[tuple[str, str, int]]:
    return Counter(transcript.key for transcript in stored_transcripts(run))


def calls_kept(run: Path) -> int:
    return sum(len(transcript.calls) for transcript in stored_transcripts(run))


def lab(server: FaultyServer) -> dict[str, str]:
    return {"LAB_BASE_URL": server.base_url, "LAB_API_KEY": KEY}


@contextlib.contextmanager
def started(*words: str, cwd: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "heartloop.cli", *words]
    with subprocess.Popen(
        command, cwd=cwd, env=environment(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


async def until(holds: Callable[[], bool], running: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert running()
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def ended(running: subprocess.Popen[str]) -> Done:
    out, err = await asyncio.to_thread(running.communicate, timeout=120)
    return Done(running.returncode, out, err)


async def test_killed_half_way_a_run_is_resumed_with_every_dialogue_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    async with FaultyServer(delay=0.03) as server:
        assert await asyncio.to_thread(killed, *EVAL, "--ray", cwd=tmp_path, when=lambda: lines(run) >= 10, **lab(server))
        await asyncio.sleep(1)  # the workers end too
        before, sent = lines(run), len(server.served)
        assert 10 <= before < 30
        await asyncio.sleep(1)
        assert (lines(run), len(server.served)) == (before, sent)
        done = await asyncio.to_thread(process, *EVAL, "--ray", cwd=tmp_path, **lab(server))
        assert f"{30 - before} dialogues played" in done.out, done
    assert set(times_played(run).values()) == {1}
    assert len(times_played(run)) == 30
    assert calls_kept(run) <= len(server.served) <= calls_kept(run) + 4 * CALLS
    alone = await asyncio.to_thread(process, *EVAL, cwd=tmp_path, **lab(server))
    assert "0 dialogues played" in alone.out, alone


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_ctrl_c_keeps_what_is_finished_counts_what_was_in_the_air_and_ends_the_cluster(
    end: signal.Signals, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    async with FaultyServer(delay=0.1) as server:
        with started(*EVAL, "--ray", cwd=tmp_path, **lab(server)) as running:
            await until(lambda: lines(run) >= 5, lambda: running.poll() is None)
            running.send_signal(end)
            done = await ended(running)
    assert done.code == 130, done
    assert "Traceback" not in done.err
    assert "finished dialogues are saved" in done.err
    assert set(times_played(run).values()) == {1}
    noted = read_log(run)
    assert noted[-1]["stopped"] == "interrupted"
    lost = sum(prompt + completion for entry in noted for _, _, prompt, completion, *_ in entry.get("lost", ()))
    assert lost > 0
    assert not of_session(running.pid), "no process of the cluster is left"


def test_what_a_worker_wrote_and_did_not_report_before_ctrl_c_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    unreported: list[Any] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    def until_some_are_written(*finished: Any) -> None:
        if lines(run) >= 6 and not unreported:
            asyncio.get_running_loop().call_soon(interrupt)
            unreported.append(finished)

    monkeypatch.setattr(_Driver, "on_finished", until_some_are_written)
    words = ("eval", "sage", "-m", "heartloop/reflector", "--user", "embedded", "--limit", "40", "--out", "run")
    with cluster(2) as nodes:
        assert "interrupted" in heartloop(*words, "--ray", nodes.address, cwd=tmp_path, code=130).err
        import ray

        ray.shutdown()
    assert 6 <= lines(run) < 40
    assert not any(line.get("lost") for line in read_log(run))


def of_session(leader: int) -> dict[int, str]:
    """The command lines of the processes of a session by their number."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == leader:
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


@contextlib.contextmanager
def cluster(*cpus: int) -> Iterator[Any]:
    """A cluster with a node for each number of CPUs, the first of which is its head; it misses a lost node within a second."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_timeout_ms": 500}
    system = {**quick, "health_check_failure_threshold": 3}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0], "_system_config": system})
    try:
        for number in cpus[1:]:
            made.add_node(num_cpus=number)
        yield made
    finally:
        made.shutdown()


def lose(nodes: Any) -> None:
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)


@pytest.mark.parametrize("cache", [(), ("--cache", "answers.sqlite")], ids=["uncached", "cached"])
async def test_of_three_nodes_one_is_lost_and_only_what_was_in_the_air_is_charged_twice(
    cache: tuple[str, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with cluster(1, 1, 1) as nodes:
        async with FaultyServer(delay=0.05) as server:
            with started(*EVAL, "--ray", nodes.address, *cache, cwd=tmp_path, **lab(server)) as running:
                await until(lambda: len(transcript_files(run)) == 3 and lines(run) >= 8, lambda: running.poll() is None)
                await asyncio.to_thread(lose, nodes)
                done = await ended(running)
    assert done.code == 0, done
    assert "30 dialogues played" in done.out
    assert set(times_played(run).values()) == {1}
    assert len(times_played(run)) == 30
    dialogues = -(-4 // 3)  # of one worker at once, each with one call in the air
    again = len(server.served) - calls_kept(run)
    assert 0 <= again <= (dialogues if cache else dialogues * CALLS)
    lost = [entry for line in read_log(run) for entry in line.get("lost", ())]
    assert again == 0 or lost, "and it is counted"


async def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    async with FaultyServer(delay=0.05) as server:
        with started(*EVAL, "--ray", cwd=tmp_path, **lab(server)) as running:
            await until(lambda: lines(run) >= 5, lambda: running.poll() is None)
            (first, *_) = [number for number, name in of_session(running.pid).items() if name.startswith("ray::_Worker")]
            os.kill(first, signal.SIGKILL)
            done = await ended(running)
    assert done.code == 0, done
    assert set(times_played(run).values()) == {1}
    assert len(times_played(run)) == 30
    assert len(transcript_files(run)) >= 3, "with that of the replacement"


async def test_without_any_worker_left_the_run_stops_with_a_sentence_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heartloop.integrations.ray.PLACING", 4.0)
    run = tmp_path / "run"
    with cluster(0, 1) as nodes:
        import ray

        async with FaultyServer(delay=0.05) as server:
            playing = asyncio.create_task(over_http(server, *EVAL, "--ray", nodes.address, cwd=tmp_path))
            await until(lambda: lines(run) >= 5, lambda: not playing.done())
            await asyncio.to_thread(lose, nodes)
            done = await playing
            assert done.code == 1, done
            assert "Stopped early: the cluster gave no worker" in done.err
            before = lines(run)
            assert before >= 5
            assert f"{30 - before} dialogues played" in (await over_http(server, *EVAL, cwd=tmp_path, code=0)).out
        ray.shutdown()
    assert set(times_played(run).values()) == {1}
