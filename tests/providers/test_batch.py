"""`heartloop rejudge --batch`: judged by batches as directly, and what was submitted once is not submitted again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from heartloop.core.dialogue import Message, read_transcripts
from heartloop.core.errors import EndpointStopped, UseError
from heartloop.models.batch import BatchChat
from heartloop.models.client import Connections
from tests.commands import KEY, Done, environment, files_with, heartloop, over_http, refused
from tests.providers.batches import BatchServer

JUDGE = ("rejudge", "run", "--judge", "lab/judge", "--yes", "--out", "judged")
BATCH = (*JUDGE, "--batch")
FAST = {"_QUIET": 0.05, "_FIRST_PAUSE": 0.01, "_LONGEST_PAUSE": 0.02}
TURNS = 3


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in FAST.items():
        monkeypatch.setattr(f"heartloop.models.batch.{name}", seconds)


def played(folder: Path, name: str = "sage", *more: str) -> None:
    words = ("eval", name, "--user", "embedded", "--model", "heartloop/reflector", "--limit", "4", "--out", "run")
    assert heartloop(*words, *more, cwd=folder).code == 0


@pytest.fixture(scope="module")
def sage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of four dialogues, whose replies are judged one after another: as many rounds as turns."""
    folder = tmp_path_factory.mktemp("sage")
    played(folder, "sage", "-E", f"max_turns={TURNS}")
    return folder


@pytest.fixture
def place(sage: Path, tmp_path: Path) -> Path:
    (tmp_path / "run").symlink_to(sage / "run")
    return tmp_path


def judged(run: Path) -> list[dict[str, Any]]:
    """The dialogues of a run with everything but seconds."""
    rows = [t.model_dump(mode="json", exclude={"seconds"}) for t in read_transcripts(run / "transcripts.jsonl")]
    for row in rows:
        for call in row["calls"]:
            call.pop("seconds", None)
    return sorted(rows, key=lambda row: (row["model"], row["scenario"], row["repeat"]))


def chat(base_url: str, folder: Path, **how: Any) -> BatchChat:
    judge = BatchChat("lab/judge", model="judge", base_url=base_url, **{"retries": 0, **how})
    judge.folder = folder
    return judge


async def directly(folder: Path) -> list[dict[str, Any]]:
    async with BatchServer() as server:
        await over_http(server, *JUDGE, "--out", "direct", cwd=folder, code=0)
    return judged(folder / "direct")


def scores(run: Path) -> list[float | None]:
    return [row["score"] for row in judged(run)]


async def test_each_turn_is_a_batch_and_every_dialogue_is_as_judged_directly(place: Path) -> None:
    async with BatchServer() as server:
        done = await over_http(server, *BATCH, cwd=place, code=0)
        assert (len(server.batches), server.direct) == (TURNS, 0)
        assert set(server.billed.values()) == {1}
        submitted = server.steps["create"]
        assert "pass it again" in (await over_http(server, *JUDGE, cwd=place, code=2)).err
        again = await over_http(server, *BATCH, cwd=place, code=0)
        assert server.steps["create"] == submitted
    assert "4 dialogues judged" in done.out
    assert "4 finished before" in again.out
    assert judged(place / "judged") == await directly(place)
    assert files_with(KEY, place) == []


@pytest.mark.parametrize("environment", ["perm", "daily"])
async def test_judges_of_whole_dialogues_need_one_batch(environment: str, tmp_path: Path) -> None:
    played(tmp_path, environment)
    async with BatchServer() as server:
        await over_http(server, *BATCH, cwd=tmp_path, code=0)
        assert (len(server.batches), server.direct) == (1, 0)
        assert server.billed.total() == sum(c["role"] != "policy" for row in judged(tmp_path / "judged") for c in row["calls"])
    assert judged(tmp_path / "judged") == await directly(tmp_path)


async def test_more_dialogues_than_wait_at_a_time_follow_those_that_are_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heartloop.cli.running.DIALOGUES", 2)
    async with BatchServer() as server:
        await over_http(server, *BATCH, cwd=place, code=0)
        assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [2] * 2 * TURNS
    assert judged(place / "judged") == await directly(place)


async def test_equal_requests_of_two_dialogues_are_two_lines(tmp_path: Path) -> None:
    (tmp_path / "bots.py").write_text("def one(messages):\n    return 'Go on.'\n\n\ntwo = one\n")
    words = ("eval", "sage", "--user", "embedded", "--model", "python:bots:one", "--model", "python:bots:two", "--out", "run")
    assert heartloop(*words, "--limit", "2", "-E", "max_turns=1", cwd=tmp_path).code == 0
    async with BatchServer() as server:
        await over_http(server, *BATCH, cwd=tmp_path, code=0)
        assert set(server.billed.values()) == {2}
    assert judged(tmp_path / "judged") == await directly(tmp_path)


@pytest.mark.parametrize("silent", [False, True])
async def test_what_a_batch_did_not_answer_in_time_goes_into_the_next(silent: bool, place: Path) -> None:
    async with BatchServer(expire={1: 0.5}, silent=silent) as server:
        done = await over_http(server, *BATCH, cwd=place, code=0)
        assert set(server.billed.values()) == {1}
        assert server.billed.total() == 4 * TURNS
    assert "lab/judge: 2 calls sent again" in done.err
    assert ("batch_expired" in done.err) is not silent
    assert scores(place / "judged") == [row["score"] for row in await directly(place)]


async def test_a_failed_line_is_repeated_at_most_as_often_as_a_direct_call(place: Path) -> None:
    async with BatchServer("error_500@feel:2") as server:
        done = await over_http(server, *BATCH, cwd=place, code=0)
        assert server.billed.total() == 4 * TURNS
        assert "2 calls sent again (2 x status 500)" in done.err
    async with BatchServer("error_500@feel") as server:
        done = await over_http(server, *BATCH, "--retries", "2", "--out", "dead", cwd=place, code=1)
        assert len(server.batches) == 3
        assert "4 x judge" in done.err
    assert scores(place / "dead") == [None] * 4


async def test_a_refused_line_leaves_its_dialogue_unscored_as_a_refused_call_does(place: Path) -> None:
    failures = []
    for flag in ("--batch", "--no-report"):
        async with BatchServer("bad_request@feel:1") as server:
            await over_http(server, *JUDGE, flag, "--out", f"out{flag}", cwd=place, code=1)
        (failed,) = [row for row in judged(place / f"out{flag}") if row["score"] is None]
        failures.append({**failed["failure"], "detail": failed["failure"]["detail"].replace(server.base_url, "")})
    assert failures[0] == failures[1]
    assert failures[0]["kind"] == "RefusedByServer"
    async with BatchServer() as server:
        await over_http(server, *JUDGE, "--batch", "--out", "out--batch", "--retry-failed", cwd=place, code=0)
        assert server.billed.total() == TURNS


async def test_an_empty_account_and_a_wrong_key_stop_the_run(place: Path) -> None:
    async with BatchServer("no_quota@feel:1") as server:
        done = await over_http(server, *BATCH, "--out", "empty", cwd=place, code=1)
    assert "Stopped early" in done.err
    assert "LAB_API_KEY" in done.err
    async with BatchServer("unauthorized@feel") as server:  # its message repeats the key
        await over_http(server, *BATCH, "--out", "wrong-key", cwd=place, code=1)
    assert files_with(KEY, place) == []


async def test_a_setting_that_the_endpoint_refuses_is_left_out_of_the_next_batch(place: Path) -> None:
    async with BatchServer("no_temperature@feel") as server:
        done = await over_http(server, *BATCH, "--request", "judge.temperature=0.5", cwd=place, code=0)
        assert len(server.batches) == TURNS + 1
    assert "lab/judge does not accept temperature" in done.err
    assert all(row["score"] is not None for row in judged(place / "judged"))


async def test_a_batch_that_fails_validation_stops_the_run_with_the_message_of_the_provider(place: Path) -> None:
    async with BatchServer(invalid={"code": "model_not_found", "message": f"No batches for this model; key {KEY}."}) as server:
        done = await over_http(server, *BATCH, cwd=place, code=1)
    assert "model_not_found: No batches for this model" in done.err
    assert "4 dialogues were not judged" in " ".join(done.err.split())
    assert KEY not in done.err
    async with BatchServer() as server:
        await over_http(server, *BATCH, cwd=place, code=0)
        assert server.billed.total() == 4 * TURNS
    assert files_with(KEY, place) == []


@pytest.mark.slow
async def test_batches_are_made_smaller_until_the_provider_queues_them(place: Path) -> None:
    async with BatchServer(most_queued=1) as server:
        await over_http(server, *BATCH, cwd=place, code=0)
        assert set(server.billed.values()) == {1}
        assert server.billed.total() == 4 * TURNS
    assert scores(place / "judged") == [row["score"] for row in await directly(place)]
    async with BatchServer(most_queued=0) as server:
        done = await over_http(server, *BATCH, "--out", "none", cwd=place, code=1)
    assert "Enqueued token limit reached" in done.err


async def test_a_cancelled_batch_stops_the_run_and_a_rerun_submits_the_rest(place: Path) -> None:
    async with BatchServer(cancel={1: 0.5}) as server:
        done = await over_http(server, *BATCH, cwd=place, code=1)
        assert "was cancelled" in done.err
        await over_http(server, *BATCH, cwd=place, code=0)
        assert set(server.billed.values()) == {1}
        assert server.billed.total() == 4 * TURNS


def spent(done: Done) -> int:
    return int(re.findall(r"([\d,]+) tokens", done.out)[0].replace(",", ""))


def used(run: Path) -> int:
    """The tokens of finished dialogues."""
    return sum(row["usage"]["judge"][kind] for row in judged(run) for kind in ("prompt_tokens", "completion_tokens"))


async def test_what_unfinished_dialogues_took_from_batches_is_counted_once(place: Path) -> None:
    async with BatchServer() as server:
        whole = spent(await over_http(server, *BATCH, "--out", "whole", cwd=place, code=0))
    check = whole - used(place / "whole")  # of the endpoint, once in each process
    async with BatchServer(cancel={2: 0.5}) as server:
        await over_http(server, *BATCH, cwd=place, code=1)
        assert spent(await over_http(server, *BATCH, cwd=place, code=0)) == whole + check


async def test_a_submission_whose_answer_was_lost_is_found_by_its_metadata(place: Path) -> None:
    async with BatchServer(lose="create:1", pages=1) as server:
        await over_http(server, *BATCH, cwd=place, code=0)
        assert len(server.batches) == TURNS
        assert set(server.billed.values()) == {1}


async def test_a_file_that_the_provider_reads_first_is_submitted_after_that(place: Path) -> None:
    async with BatchServer(reads_first=True) as server:
        azure = {"AZURE_BASE_URL": server.base_url, "AZURE_API_KEY": KEY}
        await over_http(server, *BATCH, "--judge", "azure/my-deployment", cwd=place, code=0, **azure)
        assert server.billed.total() == 4 * TURNS
        assert {json.loads(line)["body"]["model"] for line in server.files["file-1"].splitlines()} == {"my-deployment"}


async def test_a_server_without_batches_and_judges_without_are_refused(place: Path) -> None:
    async with BatchServer(without=True) as server:
        done = await over_http(server, *BATCH, cwd=place, code=2)
    assert "no batch interface" in done.err
    words = ("rejudge", "run", "--batch", "--judge")
    refused(*words, "anthropic/claude-sonnet-5-5", cwd=place, said=["anthropic", "openai, groq, azure"])
    refused(*words, "embedded", cwd=place, said="service/model")
    nowhere = {"LAB_BASE_URL": "http://127.0.0.1:9/v1", "LAB_API_KEY": KEY}
    refused(*words, "lab/judge", "--ray", "auto", cwd=place, said="--ray", **nowhere)


async def test_the_pilot_is_judged_directly_and_a_limit_holds_in_batches(place: Path) -> None:
    (place / "prices.toml").write_text('["lab/judge"]\ninput = 1.0\noutput = 1.0\n')
    priced = (*BATCH, "--prices", "prices.toml")
    async with BatchServer() as server:
        done = await over_http(server, *priced, "--pilot", cwd=place, code=0)
        assert (server.direct, len(server.batches)) == (2 * TURNS, 0)
        assert "a day for each call" in done.err
        await over_http(server, *priced, cwd=place, code=0)
        assert (server.direct, server.billed.total()) == (2 * TURNS, 2 * TURNS)
    spent = sum(
        row["usage"]["judge"]["prompt_tokens"] + row["usage"]["judge"]["completion_tokens"] for row in judged(place / "judged")
    )
    limit = round(0.8 * spent)
    async with BatchServer() as server:
        done = await over_http(server, *priced, "--max-tokens", str(limit), "--out", "short", cwd=place, code=1)
        assert server.direct == 2 * TURNS
        assert 0 < server.billed.total() < 2 * TURNS
    assert "--max-tokens" in done.err
    assert len(judged(place / "short")) == 3


async def test_answers_of_batches_enter_the_cache(place: Path) -> None:
    cached = (*BATCH, "--cache", "answers.sqlite")
    async with BatchServer() as server:
        await over_http(server, *cached, cwd=place, code=0)
        await over_http(server, *cached, "--out", "again", cwd=place, code=0)
        await over_http(server, *JUDGE, "--out", "third", "--cache", "answers.sqlite", cwd=place, code=0)
        assert (server.billed.total(), server.direct) == (4 * TURNS, 0)
    assert judged(place / "again") == judged(place / "judged")


def process(server: BatchServer, words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    faster = "; ".join(f"batch.{name} = {seconds}" for name, seconds in FAST.items())
    code = f"from heartloop.models import batch; {faster}; from heartloop.cli.main import main; main()"
    env = environment(LAB_BASE_URL=server.base_url, LAB_API_KEY=KEY)
    command = [sys.executable, "-c", code, *words, "--no-report"]
    return subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)


async def stopped(server: BatchServer, words: Sequence[str], folder: Path, by: signal.Signals) -> Done:
    """Runs a command in a process of its own until the server holds a response, and ends it by a signal."""
    with process(server, words, folder) as running:
        await asyncio.wait_for(server.held.wait(), 60)
        os.kill(running.pid, by)
        out, err = await asyncio.to_thread(running.communicate)
    return Done(running.returncode, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["upload:1", "create:1", "look:1", "look:4", "content:1", "content:2", "create:2", "content:4"])
async def test_a_process_killed_at_any_step_continues_without_paying_twice(step: str, place: Path) -> None:
    async with BatchServer("error_500@feel:1", hold=step, pages=1) as server:
        assert (await stopped(server, BATCH, place, signal.SIGKILL)).code == -signal.SIGKILL
        done = await over_http(server, *BATCH, cwd=place, code=0)
        assert "dialogues judged" in done.out
        assert set(server.billed.values()) == {1}
        assert server.billed.total() == 4 * TURNS
        assert server.direct == 0
    assert scores(place / "judged") == [row["score"] for row in await directly(place)]


@pytest.mark.slow
async def test_a_process_killed_with_a_cache_finds_its_answers_in_either(place: Path) -> None:
    words = (*BATCH, "--cache", "answers.sqlite")
    async with BatchServer(hold="create:3") as server:
        await stopped(server, words, place, signal.SIGKILL)
        await over_http(server, *words, cwd=place, code=0)
        assert set(server.billed.values()) == {1}
        assert server.billed.total() == 4 * TURNS


@pytest.mark.slow
async def test_a_batch_that_never_reached_the_provider_is_submitted_again(place: Path) -> None:
    async with BatchServer(hold="create:1") as server:
        await stopped(server, BATCH, place, signal.SIGKILL)
        server.batches.clear()
        await over_http(server, *BATCH, cwd=place, code=0)
        assert server.billed.total() == 4 * TURNS


@pytest.mark.slow
async def test_ctrl_c_leaves_the_batch_running_and_says_so(place: Path) -> None:
    async with BatchServer(hold="look:6") as server:
        done = await stopped(server, BATCH, place, signal.SIGINT)
        assert done.code == 130
        assert "1 batch" in done.err
        assert "rerun the same command" in done.err
        spending = spent(await over_http(server, *BATCH, cwd=place, code=0))
        assert server.billed.total() == 4 * TURNS
        assert spending == spent(await over_http(server, *BATCH, cwd=place, code=0))
    async with BatchServer() as server:
        whole = spent(await over_http(server, *BATCH, "--out", "whole", cwd=place, code=0))
    assert spending - whole == whole - used(place / "whole")  # one check of the endpoint more


async def test_a_file_of_more_than_a_mebibyte_is_uploaded_without_a_warning(tmp_path: Path) -> None:
    async with BatchServer() as server, chat(server.base_url, tmp_path) as judge:  # warnings are errors
        await asyncio.gather(*(judge.complete([Message(role="user", content=f"{n} " * 2**18)]) for n in range(4)))
        assert len(server.files["file-1"]) > 2**20


async def test_a_judge_without_a_key_submits_nothing(tmp_path: Path) -> None:
    async with chat("http://judge.invalid/v1", tmp_path, needs_key=True) as judge:
        with pytest.raises(UseError, match="no API key"):
            await judge.complete([Message(role="user", content="Hello.")])


@pytest.mark.parametrize("step", ["_upload", "_file", "_create", "_listing", "_look"])
async def test_a_response_without_what_it_is_asked_for_stops_the_run(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def empty(self: BatchServer, request: web.Request) -> web.Response:
        return web.json_response({"id": None, "status": None})

    monkeypatch.setattr(BatchServer, step, empty)
    how: dict[str, Any] = {"retries": int(step == "_listing"), "connections": Connections(factor=0.01)}
    lose = "create:1" if step == "_listing" else ""
    async with BatchServer(reads_first=step == "_file", lose=lose) as server, chat(server.base_url, tmp_path, **how) as judge:
        with pytest.raises(EndpointStopped, match="without"):
            await asyncio.wait_for(judge.complete([Message(role="user", content="Hello.")]), 5)
