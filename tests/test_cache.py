"""The answer cache: the same request is paid for once."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Usage, read_transcripts, write_line
from heartloop.core.errors import InputError, TransportError, UseError
from heartloop.models.budget import Meter
from heartloop.models.cache import FLUSH_SECONDS, AnswerCache, Cached, attempt_number, cache_at, dialogue_scope
from heartloop.models.names import counted, resolve
from tests.commands import KEY, LAB, Done, files_with, heartloop, killed, over_http
from tests.faulty_server import FaultyServer

HELLO = [Message(role="system", content="Be kind."), Message(role="user", content="Hi")]
EVAL = (*LAB[:-2], "--cache", "answers.sqlite")
"""Four dialogues of four turns over HTTP: seven calls each, and a farewell where one is taken."""


def asked_more_than(server: FaultyServer, requests: int) -> bool:
    return len(server.requests) > requests


def transcripts(run: Path) -> list[str]:
    found = {t.key: t for t in read_transcripts(run / "transcripts.jsonl")}
    return [re.sub(r',"(seconds|retries)":[\d.]+', "", write_line(found[key])) for key in sorted(found)]


def calls(run: Path) -> int:
    return sum(len(t.calls) for t in read_transcripts(run / "transcripts.jsonl"))


def rows(cache: Path, what: str = "count(*)") -> Any:
    with sqlite3.connect(cache) as file:
        found = file.execute(f"SELECT {what} FROM answers").fetchone()[0]
    file.close()
    return found


class Counting:
    """A model whose n-th answer is `n`, with a moment's wait, or an error."""

    def __init__(self, name: str = "lab/a", *, error: Exception | None = None, wait: float = 0.0) -> None:
        self.name, self.error, self.wait, self.calls = name, error, wait, 0

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.calls += 1
        await asyncio.sleep(self.wait)
        if self.error is not None:
            raise self.error
        return Reply(str(self.calls), "thought\x00", "length", Usage(prompt_tokens=3, completion_tokens=self.calls))


async def test_the_same_command_on_the_same_cache_makes_no_call_and_the_same_transcripts(tmp_path: Path) -> None:
    async with FaultyServer("reasoning", "length@policy:0.2", "bad_json:0.2", "no_usage:0.3") as server:
        first = await over_http(server, *EVAL, "--out", "first", cwd=tmp_path)
        assert first.code == 0, first
        asked = len(server.requests)
        assert f"0 of {asked} answers from the cache." in first.out
        again = await over_http(server, *EVAL, "--out", "again", cwd=tmp_path)
        assert again.code == 0, again
        assert len(server.requests) == asked, "a cached answer was requested"
    assert f"{asked} of {asked} answers from the cache." in again.out
    assert transcripts(tmp_path / "first") == transcripts(tmp_path / "again")
    assert calls(tmp_path / "again") == asked == rows(tmp_path / "answers.sqlite")


def test_a_cache_in_a_folder_that_was_not_there_says_so(tmp_path: Path) -> None:
    words = ("eval", "sage", "--user", "embedded", "--model", "heartloop/assistant", "--limit", "1", "-E", "max_turns=1")
    said = "nowhere/a.sqlite"
    first = heartloop(*words, "--cache", "nowhere/a.sqlite", "--out", "one", cwd=tmp_path)
    assert (first.code, said in " ".join(first.err.split())) == (0, True)
    again = heartloop(*words, "--cache", "nowhere/a.sqlite", "--out", "two", cwd=tmp_path)
    assert (again.code, "a.sqlite" in again.err) == (0, False)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [Message(role="system", content="Be kind!"), HELLO[1]]},
        {"messages": [HELLO[0], Message(role="assistant", content="Hi")]},
        {"messages": [*HELLO, Message(role="user", content="")]},
        {"messages": [HELLO[0], Message(role="user", content="Hi4:user0:")]},
        {"messages": []},
        {"schema": {"type": "object"}},
        {"sampling": Sampling(seed=2)},
        {"sampling": Sampling(seed=1, temperature=0.0)},
        {"sampling": None},
        {"name": "lab/b"},
    ],
)
async def test_every_part_of_a_request_is_in_its_key(tmp_path: Path, change: dict[str, Any]) -> None:
    model, other = Counting(), Counting(change.get("name", "lab/a"))
    given: dict[str, Any] = {"messages": HELLO, "schema": None, "sampling": Sampling(seed=1), **change}
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        await Cached(model, cache, "policy").complete(HELLO, sampling=Sampling(seed=1))
        same = await Cached(model, cache, "policy").complete(list(HELLO), sampling=Sampling(seed=1))
        assert (same, model.calls) == (
            Reply("1", "thought\x00", "length", Usage(prompt_tokens=3, completion_tokens=1), cached=True),
            1,
        )
        await Cached(other, cache, "policy").complete(given["messages"], schema=given["schema"], sampling=given["sampling"])
    assert other.calls == 1


async def test_a_changed_file_of_a_python_function_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python takes equal size and second for the same source
    for text, fresh in (("one", 1), ("one", 0), ("two", 1)):
        (tmp_path / "kept_agent.py").write_text(f"def reply(messages):\n    return {text!r}\n")
        sys.modules.pop("kept_agent", None)
        with AnswerCache(tmp_path / "a.sqlite") as cache:
            model = counted(resolve("python:kept_agent:reply"), Meter(), "policy", cache)
            assert (await model.complete(HELLO)).text == text
            assert cache.misses == fresh
    sys.path.remove(str(tmp_path))


def test_scripted_models_bypass_the_cache(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "a.sqlite")
    assert not isinstance(counted(resolve("heartloop/reflector"), Meter(), "policy", cache), Cached)


async def test_another_repeat_or_attempt_is_another_sample_even_with_a_fixed_seed(tmp_path: Path) -> None:
    model = Counting()
    for _ in range(2):
        with AnswerCache(tmp_path / "a.sqlite") as cache:
            kept = Cached(model, cache, "policy")
            said = []
            for repeat, attempt in ((0, 0), (1, 0), (0, 1)):
                with dialogue_scope(repeat, attempt):
                    said += [(await kept.complete(HELLO, sampling=Sampling(seed=7))).text for _ in range(2)]
            assert said == ["1", "2", "3", "4", "5", "6"], "asked twice within a dialogue, as a re-ask may be, is two samples"
    assert model.calls == 6


@pytest.mark.parametrize(
    ("failures", "attempt"),
    [
        ([], 0), (["AnswerError"], 1), (["AnswerError", "AnswerError"], 2), (["TransportError"], 0),
        (["TransportError", "RefusedByServer"], 1), (["TransportError", "AnswerError"], 1),
        (["TransportError", "TransportError", "TransportError"], 1),
    ],
)  # fmt: skip
def test_a_retry_has_new_answers_unless_a_connection_was_lost_once(failures: list[str], attempt: int) -> None:
    assert attempt_number(failures) == attempt


async def test_retry_failed_never_replays_the_answers_that_failed(tmp_path: Path) -> None:
    words = (*EVAL, "--max-connections", "1", "--out", "run")
    async with FaultyServer("bad_json:3") as server:  # the first dialogue's first appraisal, three times
        assert (await over_http(server, *words, cwd=tmp_path)).code == 1
        retried = await over_http(server, *words, "--retry-failed", cwd=tmp_path)
        assert retried.code == 0, retried
        asked = len(server.requests)
        fresh = await over_http(server, *words[:-1], "fresh", cwd=tmp_path)
        assert fresh.code == 1, "the same command gives the same transcripts, the failed one too"
        again = await over_http(server, *words[:-1], "fresh", "--retry-failed", cwd=tmp_path)
        assert again.code == 0, again
        assert len(server.requests) == asked, "failure and retry were both stored"
    assert transcripts(tmp_path / "run") == transcripts(tmp_path / "fresh")


async def test_a_retry_after_a_lost_connection_reuses_the_cached_answers(tmp_path: Path) -> None:
    words = (*EVAL, "--max-connections", "1", "--retries", "0", "--out", "run")
    async with FaultyServer("drop@speak:1") as server:
        assert (await over_http(server, *words, cwd=tmp_path)).code == 1
        asked = len(server.requests)
        retried = await over_http(server, *words, "--retry-failed", cwd=tmp_path)
        assert retried.code == 0, retried
        assert "2 of " in retried.out, "its first reply and how that was felt"
        assert len(server.requests) - asked == len(list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))[-1].calls) - 2


async def test_a_failed_call_is_not_cached(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        broken, fine = Counting(error=TransportError("lost")), Counting()
        for _ in range(2):
            with pytest.raises(TransportError):
                await Cached(broken, cache, "policy").complete(HELLO)
        assert (await Cached(fine, cache, "policy").complete(HELLO)).text == "1"
    assert (broken.calls, fine.calls) == (2, 1)


async def test_concurrent_equal_requests_make_one_call(tmp_path: Path) -> None:
    model = Counting(wait=0.05)
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        kept = Cached(model, cache, "policy")
        said = await asyncio.gather(*(kept.complete(HELLO) for _ in range(5)))
        assert ({reply.text for reply in said}, model.calls, cache.hits) == ({"1"}, 1, 4)
        model.error = TransportError("lost")
        lost = await asyncio.gather(*(kept.complete(HELLO[1:]) for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in lost] == [TransportError] * 3, "each finds out for itself"
        assert model.calls == 4
        model.error = None
        leaver = asyncio.create_task(kept.complete(HELLO[:1]))
        stayer = asyncio.create_task(kept.complete(HELLO[:1]))
        await asyncio.sleep(0.01)
        leaver.cancel()
        assert (await stayer).text == "6", "whoever waits goes on when the one who asked is gone"


async def test_answers_are_written_within_a_moment(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        await Cached(Counting(), cache, "policy").complete(HELLO)
        assert rows(tmp_path / "a.sqlite") == 0
        await asyncio.sleep(2 * FLUSH_SECONDS)
        assert rows(tmp_path / "a.sqlite") == 1


def _ask(path: Path, first: int, n: int) -> None:
    async def go() -> None:
        with AnswerCache(path) as cache:
            kept = Cached(Counting(), cache, "policy")
            for i in range(first, first + n):
                await kept.complete([Message(role="user", content=f"{i}")])
                await asyncio.sleep(0.001)

    asyncio.run(go())


@pytest.mark.slow
def test_several_processes_share_a_file(tmp_path: Path) -> None:
    path, context = tmp_path / "a.sqlite", multiprocessing.get_context("spawn")
    workers = [context.Process(target=_ask, args=(path, 200 * i, 300)) for i in range(3)]  # a third of the questions overlap
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert rows(path) == 700


def test_a_file_that_another_process_creates_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, path = sqlite3.connect, tmp_path / "a.sqlite"
    monkeypatch.setattr("heartloop.models.cache._LAST_BUSY", 0.1)

    def create(statement: str) -> None:
        if statement == "PRAGMA user_version":  # the first value has been read
            monkeypatch.setattr(sqlite3, "connect", connect)
            with suppress(UseError), AnswerCache(path):
                pass

    def traced(*arguments: Any, **more: Any) -> sqlite3.Connection:
        file: sqlite3.Connection = connect(*arguments, **more)
        file.set_trace_callback(create)
        return file

    monkeypatch.setattr(sqlite3, "connect", traced)
    with AnswerCache(path):
        assert rows(path) == 0


@pytest.mark.slow
async def test_kill_9_harms_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = (*EVAL, "--limit", "12", "--out", "run")
    async with FaultyServer(delay=0.02) as server:
        for _ in range(3):
            so_far = len(server.requests)
            await asyncio.to_thread(
                killed, *words, cwd=tmp_path, when=partial(asked_more_than, server, so_far + 24),
                LAB_BASE_URL=server.base_url, LAB_API_KEY=KEY,
            )  # fmt: skip
        done = await over_http(server, *words, cwd=tmp_path)
        assert done.code == 0, done
        wasted = len(server.requests) - rows(tmp_path / "answers.sqlite")
        assert wasted <= 3 * 60, "no more than was in flight or not yet written is paid for twice"
        asked = len(server.requests)
        again = await over_http(server, *words[:-1], "again", cwd=tmp_path)
        assert again.code == 0, again
        assert len(server.requests) == asked
    assert transcripts(tmp_path / "run") == transcripts(tmp_path / "again")


async def test_cached_answers_count_against_no_limit_and_in_no_pilot(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["lab/policy"]\ninput = 1.0\noutput = 1.0\n')  # its address alone is free
    plain = (*(word for word in EVAL if word != "--yes"), "--prices", "prices.toml")
    async with FaultyServer() as server:
        assert (await over_http(server, *EVAL, "--out", "first", cwd=tmp_path)).code == 0
        free = await over_http(server, *EVAL, "--max-tokens", "1", "--out", "free", cwd=tmp_path)
        assert free.code == 0, free
        assert "tokens" not in free.out.splitlines()[-4], "nothing was spent"
        unasked = await over_http(server, *plain, "--out", "unasked", cwd=tmp_path)
        assert unasked.code == 0, unasked
        assert "Pilot" not in unasked.err
        asked = len(server.requests)
        wider = await over_http(server, *plain, "--limit", "10", "--out", "wider", cwd=tmp_path)
        played = len(list(read_transcripts(tmp_path / "wider" / "transcripts.jsonl")))
        assert 2 <= played <= 6, "two were paid for, and those of the four stored that came before them"
        assert f"Pilot: {10 - played} more dialogues will take about" in wider.err
        assert 0 < len(server.requests) - asked <= 2 * 12


async def test_a_resumed_run_does_not_charge_what_was_free(tmp_path: Path) -> None:
    """Half of the dialogues are stored; the limit bears the other half, in this process and the next."""
    words = (*EVAL, "--max-connections", "1")
    async with FaultyServer() as server:
        assert (await over_http(server, *words, "--out", "first", cwd=tmp_path)).code == 0
        took = sum(u.total for t in read_transcripts(tmp_path / "first" / "transcripts.jsonl") for u in t.usage.values())
        wide = (*words, "--limit", "8", "--out", "wide")
        assert (await over_http(server, *wide, "--pilot", cwd=tmp_path)).code == 0
        assert len(list(read_transcripts(tmp_path / "wide" / "transcripts.jsonl"))) == 6
        done = await over_http(server, *wide, "--max-tokens", str(3 * took // 2), cwd=tmp_path)
        assert done.code == 0, done
    notes = [json.loads(line) for line in (tmp_path / "wide" / "log.jsonl").read_text().splitlines()]
    assert sum("cached" in note for note in notes) == 4


def _text(path: Path) -> None:
    path.write_text("my thesis, all of it\n" * 100)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE thesis (chapter TEXT)")
    file.close()


def _cut(path: Path) -> None:
    _ask(path, 0, 200)
    path.write_bytes(path.read_bytes()[:5000])


def _newer(path: Path) -> None:
    _ask(path, 0, 1)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


@pytest.mark.parametrize("make", [_text, _foreign, _cut, _newer])
def test_another_file_than_a_cache_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "answers.sqlite")
    before = (tmp_path / "answers.sqlite").read_bytes()
    done = heartloop(*EVAL, "--out", "run", cwd=tmp_path, LAB_BASE_URL="http://127.0.0.1:9/v1", LAB_API_KEY=KEY)
    assert done.code == 2, done
    assert "change --cache" in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert (tmp_path / "answers.sqlite").read_bytes() == before
    assert not (tmp_path / "run").exists()


async def test_damage_within_the_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    model = Counting()
    with AnswerCache(path) as cache:
        for i in range(300):
            await Cached(model, cache, "p").complete([Message(role="user", content=f"{i}")])
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\x5a" * (len(data) - 4096))
    with AnswerCache(path) as cache, pytest.raises(InputError, match="is not an answer cache or is damaged"):
        await Cached(model, cache, "p").complete([Message(role="user", content="7")])


def test_an_unusable_path_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UseError, match="as an answer cache"), AnswerCache(tmp_path / "file" / "a.sqlite"):
        pass


async def test_a_full_disk_loses_no_dialogue(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        cache._file.execute("PRAGMA max_page_count = 3")
        model = ScriptedChat(lambda messages: messages[-1].content * 2000, name="lab/a")
        kept = Cached(model, cache, "policy")
        for i in range(20):
            assert await kept.complete([Message(role="user", content=f"{i}")])
        await asyncio.sleep(2 * FLUSH_SECONDS)
        assert "20 answers could not be written" in cache.summary()
        assert "database or disk is full" in cache.summary()


def test_the_environment_variable_sets_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARTLOOP_CACHE", str(tmp_path))
    found = cache_at(None)
    assert found is not None
    assert found.path == tmp_path / "answers.sqlite"
    other = cache_at(tmp_path / "b")
    assert other is not None
    assert other.path == tmp_path / "b"
    monkeypatch.setenv("HEARTLOOP_CACHE", "")
    assert cache_at(None) is None


async def test_no_key_is_in_the_cache(tmp_path: Path) -> None:
    async with FaultyServer("unauthorized@user") as server:
        words = (*EVAL[:-2], "--out", "run")
        done: Done = await over_http(server, *words, cwd=tmp_path, HEARTLOOP_CACHE="kept/answers.sqlite")
    assert done.code == 1
    assert rows(tmp_path / "kept" / "answers.sqlite") > 0
    assert files_with(KEY, tmp_path) + files_with("Bearer", tmp_path / "kept") == []
