"""A cache of model answers in one SQLite file, shared by processes: the same request is paid for once.

A request that is repeated on purpose has an answer of its own: in another repeat, in a retry of a dialogue that failed by its
answers, or a second time within one dialogue. Failed calls are not cached. `kill -9` loses only answers of unfinished dialogues.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from heartloop.core.chat import ChatModel, Reply, Schema
from heartloop.core.dialogue import COUNTS, Message, Sampling, Usage, writable
from heartloop.core.errors import ANSWER_ERRORS, BudgetSpent, InputError, UseError

FLUSH_SECONDS = 0.2
"""Seconds between an answer and its write; answers that arrive meanwhile are written with it."""

_APPLICATION_ID = 0x68656172  # marks the file as a cache of heartloop
_VERSION = 1
_BUSY, _LAST_BUSY = 0.05, 30.0  # seconds to wait for another process's write: within a run, at its end
_TABLE = """CREATE TABLE answers (
    question BLOB NOT NULL, repeat INTEGER NOT NULL, attempt INTEGER NOT NULL, nth INTEGER NOT NULL,
    model TEXT NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT, finish_reason TEXT,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (question, repeat, attempt, nth)
)"""
_PARTS = COUNTS[2:]  # columns that earlier versions did not have
_FIND = f"""SELECT text, reasoning, finish_reason, prompt_tokens, completion_tokens, estimated, {", ".join(_PARTS)} FROM answers
    WHERE question = ? AND repeat = ? AND attempt = ? AND nth = ?"""
_INSERT = f"INSERT OR IGNORE INTO answers VALUES ({', '.join('?' * (13 + len(_PARTS)))})"


class Key(NamedTuple):
    request: bytes
    repeat: int
    attempt: int
    nth: int


class DialogueScope:
    """One attempt at one dialogue: each repetition of a request in it is the request's next sample."""

    def __init__(self, repeat: int = 0, attempt: int = 0) -> None:
        self.repeat = repeat
        self.attempt = attempt
        self._requests: dict[bytes, int] = {}

    def sample(self, request: bytes) -> Key:
        nth = self._requests.get(request, 0)
        self._requests[request] = nth + 1
        return Key(request, self.repeat, self.attempt, nth)


_scope: ContextVar[DialogueScope | None] = ContextVar("dialogue_scope", default=None)
cached_under: ContextVar[Key | None] = ContextVar("cached_under", default=None)
"""The key under which the cache will keep the answer of the call that is made, for models that keep answers too."""


def current_scope() -> DialogueScope:
    return _scope.get() or DialogueScope()


@contextlib.contextmanager
def dialogue_scope(repeat: int = 0, attempt: int = 0) -> Iterator[None]:
    """In its body, every request of this task belongs to one attempt at one dialogue."""
    token = _scope.set(DialogueScope(repeat, attempt))
    try:
        yield
    finally:
        _scope.reset(token)


def attempt_number(failures: Sequence[str]) -> int:
    """The attempt that follows these failures of a dialogue (`Failure.kind`, in order).

    A dialogue that failed by its answers would fail again by the same ones, so the next attempt has new ones. After a failed call
    (a lost connection, an empty account) the retry reuses the earlier answers, once.

    >>> attempt_number([]), attempt_number(["AnswerError"]), attempt_number(["TransportError"])
    (0, 1, 0)
    >>> attempt_number(["TransportError", "TransportError"])
    1
    """
    attempt, reused = 0, False
    for kind in failures:
        reused = kind not in ANSWER_ERRORS and not reused
        attempt += not reused
    return attempt


def _write_ahead(file: sqlite3.Connection) -> None:
    """Turns on the write-ahead log. Retries while another process does the same: SQLite's busy timeout does not cover it."""
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


class AnswerCache:
    """A context manager over the cache file, created if missing, or `answers.sqlite` in a directory; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path / "answers.sqlite" if path.is_dir() else path
        self.hits = self.misses = 0
        self.unwritten = 0
        self.new_folder = False
        """Whether entering created the parent folder, which may mean a mistyped path."""
        self._problem = ""
        self._pending: dict[Key, tuple[Any, ...]] = {}
        self._in_flight: dict[Key, asyncio.Future[None]] = {}
        self._scheduled = False
        self._only = False
        self._file: sqlite3.Connection

    def _open(self) -> sqlite3.Connection:
        # beside a running event loop a run has a thread of its own, while the one that entered waits
        file = sqlite3.connect(self.path, timeout=_LAST_BUSY, isolation_level=None, check_same_thread=False)
        try:
            file.execute("BEGIN")  # another process may create the file between these reads
            application = file.execute("PRAGMA application_id").fetchone()[0]
            version = file.execute("PRAGMA user_version").fetchone()[0]
            tables = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if (application or tables) and (application != _APPLICATION_ID or version != _VERSION):
                raise InputError(f"{self.path} is a database of another application; expected an answer cache; change --cache")
            file.execute("COMMIT")
            _write_ahead(file)
            file.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last answers, never the file
            file.execute("BEGIN IMMEDIATE")  # two processes may create it at once
            if not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                file.execute(_TABLE)
                file.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                file.execute(f"PRAGMA user_version = {_VERSION}")
            known = {column for _, column, *_ in file.execute("PRAGMA table_info(answers)")}
            for name in _PARTS:
                if name not in known:
                    file.execute(f"ALTER TABLE answers ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
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
            raise UseError(f"cannot open {self.path} as an answer cache: {error}; change --cache") from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Writes pending answers; waits up to half a minute for another process's write."""
        with contextlib.suppress(sqlite3.Error):
            self._file.execute(f"PRAGMA busy_timeout = {round(1000 * _LAST_BUSY)}")
        self.write(last=True)
        with contextlib.suppress(sqlite3.Error):
            self._file.close()

    def summary(self) -> str:
        total = self.hits + self.misses
        parts = [f"{self.hits} of {total} answers from the cache."] if total else []
        if self.unwritten:
            parts.append(f"{self.unwritten} answers could not be written to {self.path} ({self._problem}); no dialogue is lost.")
        return " ".join(parts)

    def find(self, key: Key) -> Reply | None:
        if key in self._pending:
            row = self._pending[key]
            return _reply(row[6:12] + row[13:])
        try:
            row = self._file.execute(_FIND, key).fetchone()
        except sqlite3.OperationalError:  # locked, out of memory, a disk that does not respond: call the model
            return None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        return None if row is None else _reply(row)

    def put(self, key: Key, model: str, role: str, reply: Reply) -> None:
        usage, at = reply.usage, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reasoning = None if reply.reasoning is None else writable(reply.reasoning)
        tokens = (usage.prompt_tokens, usage.completion_tokens, int(usage.estimated))
        answer = (model, role, writable(reply.text), reasoning, reply.finish_reason, *tokens, at, *usage.counts[2:])
        self._pending[key] = (*key, *answer)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._scheduled = False
        self.write()

    def write(self, *, last: bool = False) -> None:
        """Writes pending answers. While another process writes, they stay in memory, unless this is the `last` write."""
        if not self._pending:
            return
        try:
            with self._file:  # commits, or rolls back
                self._file.execute("BEGIN IMMEDIATE")
                self._file.executemany(_INSERT, self._pending.values())
        except (sqlite3.Error, OverflowError) as error:  # OverflowError: a token count of thirty digits from a broken server
            if "locked" in str(error) and not last:
                self._schedule()
                return
            self.unwritten += len(self._pending)
            self._problem = str(error)
        self._pending.clear()

    @contextlib.contextmanager
    def only(self) -> Iterator[None]:
        """In its body, a request that is not in the cache raises `BudgetSpent`, as a limit does, and nothing is counted."""
        before = (self.hits, self.misses)
        self._only = True
        try:
            yield
        finally:
            self._only = False
            self.hits, self.misses = before

    async def lookup(self, key: Key) -> Reply | None:
        """The cached answer, awaited while the same request is in flight; `None` where the caller has to call the model."""
        while (reply := self.find(key)) is None and (request := self._in_flight.get(key)) is not None:
            await asyncio.wait([request])  # it may have failed: look again
        if reply is None and self._only:
            raise BudgetSpent("the answer is not in the cache")
        if reply is None:
            self.misses += 1
        else:
            self.hits += 1
        return reply

    @contextlib.contextmanager
    def in_flight(self, key: Key) -> Iterator[None]:
        """In its body, other lookups of the key wait."""
        done = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._in_flight[key]
            done.set_result(None)

    def _damaged(self, error: sqlite3.Error) -> InputError:
        return InputError(f"{self.path} is not an answer cache or is damaged ({error}); move it away, or change --cache")


def cache_at(path: Path | None) -> AnswerCache | None:
    """The cache at a path, or else at `HEARTLOOP_CACHE`; `None` where neither is given or the variable is empty."""
    default = os.environ.get("HEARTLOOP_CACHE", "").strip()
    chosen = path if path is not None else Path(default) if default else None
    return AnswerCache(chosen) if chosen is not None else None


class Cached:
    """A `ChatModel` that looks up each request in the cache and calls the model on a miss; the role is not part of the key."""

    def __init__(self, model: ChatModel, cache: AnswerCache, role: str) -> None:
        self.model = model
        self.name = model.name
        self.cache = cache
        self.role = role
        # the key of a Python function includes the hash of its file, which changes between runs under the same name
        self._source = str(getattr(getattr(model, "model", model), "source", ""))

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        key = key_of(self.name, self._source, messages, schema, sampling)
        cached = await self.cache.lookup(key)
        if cached is not None:
            return cached
        cached_under.set(key)
        with self.cache.in_flight(key):
            reply = await self.model.complete(messages, schema=schema, sampling=sampling)
            self.cache.put(key, self.name, self.role, reply)
        return reply


def key_of(model: str, source: str, messages: Sequence[Message], schema: Schema, sampling: Sampling | None) -> Key:
    """The key of this sample of a request in the current dialogue: SHA-256 of the request, and which of its repetitions it is.

    Each part is preceded by its length, so that different requests never concatenate alike.
    """
    first = (messages[0].role, messages[0].content) if messages else ("", "")
    digest = _head(model, source, repr(schema), *first).copy()
    sampling = sampling or Sampling()
    settings = repr([sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.seed])
    if further := sampling.further:  # added only where set, so that keys of earlier versions stay valid
        settings += json.dumps(further, sort_keys=True)
    digest.update(_joined((settings, *(part for m in messages[1:] for part in (m.role, m.content)))))
    return current_scope().sample(digest.digest())


@lru_cache(maxsize=2048)
def _head(*parts: str) -> Any:
    """The digest up to the long first message, which is the same in every turn."""
    return hashlib.sha256(_joined(parts))


def _joined(parts: Iterable[str]) -> bytes:
    return b"".join(b"%d:%b" % (len(data), data) for data in map(str.encode, parts))


def _reply(row: Sequence[Any]) -> Reply:
    text, reasoning, finish_reason, prompt, completion, estimated, *parts = row
    usage = Usage.of_counts((prompt, completion, *parts), estimated=bool(estimated))
    return Reply(text, reasoning, finish_reason, usage, cached=True)
