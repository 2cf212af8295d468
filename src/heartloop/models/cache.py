"""Every answer kept under the digest of its question, so that the same question is paid for once.

Covers the store (one SQLite file), the `ChatModel` that asks it first, and which playing of a dialogue a question belongs
to. Does not cover which models are worth it (`models.counted`), nor what a miss may spend (`spending`).

A question is the model's name, the messages, the schema and the sampling settings, seed included; neither address nor key
is part of it or of the store. Asked again on purpose, it is another sample with an answer of its own: in another repeat,
in a retry of a dialogue that failed by its answers, or a second time within one dialogue. An answer that is stored is
never replaced. What is not an answer (a timeout, a refusal by the server) is not stored.

Several processes may use one file. Answers are written a moment after they came, many at once, and before their dialogue
counts as finished: `kill -9` loses at most those of the last `FLUSH` seconds in dialogues that are lost with them. A write
that fails (a full disk) loses the stored copy, never the dialogue.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, Self

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import InputError, UseError

__all__ = ["FLUSH", "AnswerStore", "Playing", "Replayed", "attempts", "give", "playing", "store_at"]

FLUSH = 0.2
"""Seconds after which answers are written, together with those that came meanwhile."""

_VARIABLE = "HEARTLOOP_STORE"
_FILE = "answers.sqlite"
_APPLICATION = 0x68656172  # "hear": marks the file as ours
_FORM = 1
_BUSY, _LAST_BUSY = 0.05, 30.0  # seconds to wait for another process's write: within a run, at its end
_TABLE = """CREATE TABLE answers (
    question BLOB NOT NULL, repeat INTEGER NOT NULL, attempt INTEGER NOT NULL, nth INTEGER NOT NULL,
    model TEXT NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT, finish_reason TEXT,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (question, repeat, attempt, nth)
)"""
_FIND = """SELECT text, reasoning, finish_reason, prompt_tokens, completion_tokens, estimated FROM answers
    WHERE question = ? AND repeat = ? AND attempt = ? AND nth = ?"""
_HEADS = 2048  # first messages whose digest is kept at hand
_SETTINGS = tuple(Sampling.model_fields)
_KEEP = "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class _Key(NamedTuple):
    """Where an answer is found: the question's digest, and which sample of it."""

    question: bytes
    repeat: int
    attempt: int
    nth: int


class Playing:
    """One playing of one dialogue: which samples its questions are, and what it was given for nothing.

    Args:
        repeat: of the dialogue; a repeat wants an answer of its own even where the seed is fixed.
        attempt: 0, then 1, 2, ... where the answers themselves made the dialogue fail (`attempts`).
    """

    def __init__(self, repeat: int = 0, attempt: int = 0) -> None:
        self.repeat = repeat
        self.attempt = attempt
        self.free: dict[tuple[str, str], tuple[int, Usage]] = {}
        """Calls and tokens by model and role that nobody was asked for."""
        self._asked: dict[bytes, int] = {}

    def sample(self, question: bytes) -> _Key:
        """The place of this question's answer; every asking of one question is the next sample."""
        nth = self._asked.get(question, 0)
        self._asked[question] = nth + 1
        return _Key(question, self.repeat, self.attempt, nth)

    def give(self, model: str, role: str, usage: Usage) -> None:
        """Counts one answer that cost nothing now."""
        calls, so_far = self.free.get((model, role), (0, Usage()))
        self.free[model, role] = (calls + 1, so_far + usage)

    @property
    def free_calls(self) -> int:
        """Answers that cost nothing now, all roles together."""
        return sum(calls for calls, _ in self.free.values())


_playing: ContextVar[Playing | None] = ContextVar("playing", default=None)


@contextlib.contextmanager
def playing(repeat: int = 0, attempt: int = 0) -> Iterator[Playing]:
    """Within it, every question of this task belongs to one playing of one dialogue."""
    now = Playing(repeat, attempt)
    token = _playing.set(now)
    try:
        yield now
    finally:
        _playing.reset(token)


def give(model: str, role: str, usage: Usage) -> None:
    """Counts an answer as free in the dialogue that is being played; without one, nothing."""
    now = _playing.get()
    if now is not None:
        now.give(model, role, usage)


def attempts(failures: Sequence[str]) -> int:
    """Which attempt a dialogue with these failures (`Failure.kind`, in order) is at.

    What its answers made fail would fail again by the same answers, so the next attempt asks anew. A call that brought no
    answer (a lost connection, an empty account) leaves good answers behind: the retry goes on from them, once; if that
    fails in the same way, the one after it begins anew.

    >>> attempts([]), attempts(["AnswerError"]), attempts(["TransportError"]), attempts(["TransportError", "TransportError"])
    (0, 1, 0, 1)
    """
    attempt, went_on = 0, False
    for kind in failures:
        went_on = kind != "AnswerError" and not went_on
        attempt += not went_on
    return attempt


def _write_ahead(file: sqlite3.Connection) -> None:
    """Turns the log on. Two processes that do so at once find the file locked, and SQLite does not wait for this one."""
    until = time.monotonic() + _LAST_BUSY
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


class AnswerStore:
    """The file of answers, open while it is entered as a context manager; for one thread.

    Args:
        path: the file, made where there is none; of a directory, `answers.sqlite` in it.

    Raises:
        UseError: on entering, when it cannot be made or written.
        InputError: on entering, when it holds something else or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / _FILE if path.is_dir() else path
        self.replayed = self.asked = 0
        """Answers given from the store, and calls sent on to a model, by this process."""
        self.unwritten = 0
        """Answers that could not be written."""
        self.new_folder = False
        """Whether entering it made the folder it lies in, as a mistyped path would."""
        self._problem = ""
        self._pending: dict[_Key, tuple[Any, ...]] = {}
        self._in_flight: dict[_Key, asyncio.Future[None]] = {}
        self._due = False
        self._file: sqlite3.Connection

    def _open(self) -> sqlite3.Connection:
        file = sqlite3.connect(self.path, timeout=_LAST_BUSY, isolation_level=None)
        try:
            found = file.execute("PRAGMA application_id").fetchone()[0]
            form = file.execute("PRAGMA user_version").fetchone()[0]
            tables = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if (found or tables) and (found != _APPLICATION or form != _FORM):
                raise InputError(f"{self.path} is a database of something else; choose another --store")
            _write_ahead(file)
            file.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last answers, never the file
            file.execute("BEGIN IMMEDIATE")  # two processes may be making it at once
            if not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                file.execute(_TABLE)
                file.execute(f"PRAGMA application_id = {_APPLICATION}")
                file.execute(f"PRAGMA user_version = {_FORM}")
            file.execute("COMMIT")
            file.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY)}")
        except BaseException:
            file.close()
            raise
        return file

    def __enter__(self) -> Self:
        try:
            self.new_folder = not self.path.parent.is_dir()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
        except (sqlite3.OperationalError, OSError) as error:
            raise UseError(f"cannot use {self.path} as a store of answers: {error}; choose another --store") from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Writes what is left; waits for another process's write, up to half a minute."""
        with contextlib.suppress(sqlite3.Error):
            self._file.execute(f"PRAGMA busy_timeout = {round(1000 * _LAST_BUSY)}")
        self.write(last=True)
        with contextlib.suppress(sqlite3.Error):
            self._file.close()

    def summary(self) -> str:
        """What came from the store, and what could not be written, in a sentence or two; empty before the first question."""
        total = self.replayed + self.asked
        parts = [f"{self.replayed} of {total} answers from the store."] if total else []
        if self.unwritten:
            why = f"could not be written to {self.path} ({self._problem}); the dialogues are kept."
            parts.append(f"{self.unwritten} answers {why}")
        return " ".join(parts)

    def find(self, key: _Key) -> Reply | None:
        """The stored answer.

        Raises:
            InputError: the file is damaged.
        """
        row = self._pending.get(key)
        if row is not None:
            return _reply(row[6:12])
        try:
            found = self._file.execute(_FIND, key).fetchone()
        except sqlite3.OperationalError:  # locked, out of memory, a disk that does not answer: ask the model
            return None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        return None if found is None else _reply(found)

    def keep(self, key: _Key, model: str, role: str, reply: Reply) -> None:
        """Keeps an answer, to be written within `FLUSH` seconds."""
        usage, at = reply.usage, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reasoning = None if reply.reasoning is None else writable(reply.reasoning)
        tokens = (usage.prompt_tokens, usage.completion_tokens, int(usage.estimated))
        self._pending[key] = (*key, model, role, writable(reply.text), reasoning, reply.finish_reason, *tokens, at)
        if not self._due:
            self._later()

    def _later(self) -> None:
        def write() -> None:
            self._due = False
            self.write()

        self._due = True
        asyncio.get_running_loop().call_later(FLUSH, write)

    def write(self, *, last: bool = False) -> None:
        """Writes what is waiting; while another process writes, it waits on in memory unless this is the last chance."""
        if not self._pending:
            return
        try:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                self._file.executemany(_KEEP, self._pending.values())
                self._file.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._file.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OverflowError) as error:  # a token count of thirty digits, as broken servers send
            if "locked" in str(error) and not last:
                if not self._due:
                    self._later()
                return
            self.unwritten += len(self._pending)
            self._problem = str(error)
        self._pending.clear()

    async def look(self, key: _Key) -> Reply | None:
        """The stored answer, after waiting for it where it is being asked for; `None` where the caller is to ask."""
        while (found := self.find(key)) is None and (asking := self._in_flight.get(key)) is not None:
            await asyncio.wait([asking])  # whatever became of it: look again
        if found is None:
            self.asked += 1
        else:
            self.replayed += 1
        return found

    @contextlib.contextmanager
    def asking(self, key: _Key) -> Iterator[None]:
        """Within it, whoever looks for the same answer waits."""
        done = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._in_flight[key]
            done.set_result(None)

    def _damaged(self, error: sqlite3.Error) -> InputError:
        return InputError(
            f"{self.path} is no store of answers, or is damaged ({error}); move it away and run the same command again, "
            "or choose another --store"
        )


def store_at(path: Path | None) -> AnswerStore | None:
    """The store that was asked for: at a path, or else where `HEARTLOOP_STORE` says; an empty variable asks for none."""
    named = os.environ.get(_VARIABLE, "").strip()
    chosen = path if path is not None else Path(named) if named else None
    return AnswerStore(chosen) if chosen is not None else None


class Replayed:
    """A `ChatModel` whose questions go to the store first; only what is not there is asked of the model and paid for.

    Args:
        model: where a miss goes, `Metered` where spending is counted.
        role: `policy`, `simulator`, `judge`, ...; kept beside the answer, no part of the question.
    """

    def __init__(self, model: ChatModel, store: AnswerStore, role: str) -> None:
        self.model = model
        self.store = store
        self.role = role
        self._heads: dict[tuple[str, str, str], Any] = {}
        # a Python function is told by the text of its module, too: people change it and ask again
        self._source = str(getattr(getattr(model, "model", model), "source", ""))

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The stored answer with the usage it had, or one completion.

        Raises:
            InputError: the store is damaged.
            BudgetSpent: the answer is not stored, and the budget does not bear asking for it.
            ModelError: it is not stored, and the call failed for good.
        """
        now = _playing.get() or Playing()
        key = now.sample(self._question(messages, schema, sampling or Sampling()))
        found = await self.store.look(key)
        if found is not None:
            now.give(self.name, self.role, found.usage)
            return found
        with self.store.asking(key):
            reply = await self.model.complete(messages, schema=schema, sampling=sampling)
            self.store.keep(key, self.name, self.role, reply)
        return reply

    def _question(self, messages: Sequence[Message], schema: Mapping[str, Any] | None, sampling: Sampling) -> bytes:
        """SHA-256 of everything that is asked. Every part goes in behind its length, so that no two questions run together."""
        first = messages[0] if messages else None
        head = (repr(schema), first.role if first else "", first.content if first else "")
        known = self._heads.get(head)
        if known is None:  # the long prompt at the head is the same in every turn: its part of the digest is kept
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            known = self._heads[head] = hashlib.sha256(_joined((self.name, self._source, *head)))
        digest = known.copy()
        settings = repr([getattr(sampling, name) for name in _SETTINGS])
        digest.update(_joined((settings, *(part for m in messages[1:] for part in (m.role, m.content)))))
        return digest.digest()


def _joined(parts: Iterable[str]) -> bytes:
    return b"".join(b"%d:%b" % (len(data), data) for data in map(str.encode, parts))


def _reply(row: Sequence[Any]) -> Reply:
    text, reasoning, finish_reason, prompt, completion, estimated = row
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion, estimated=bool(estimated))
    return Reply(text, reasoning, finish_reason, usage)
