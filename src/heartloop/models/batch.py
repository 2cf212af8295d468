"""Chat completions through a provider's batch interface: cheaper, answered within a day.

The form is OpenAI's (https://platform.openai.com/docs/guides/batch): a file of requests is uploaded and submitted as a batch,
whose answers and errors are files too, in any order. Azure OpenAI and Groq have it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_core import from_json, to_json

from heartloop.core.chat import Reply, Schema
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import EndpointStopped, ModelError, TransportError, UseError
from heartloop.core.system import reported, write_whole
from heartloop.core.text import amount, roughly
from heartloop.models.cache import cached_under, key_of
from heartloop.models.client import EndpointChat, provider_table
from heartloop.models.formats import Trouble, read_batch_line, read_object, read_reply

DIALOGUES = 5_000
"""Dialogues that wait for answers at a time."""

_MOST_LINES, _MOST_BYTES = 50_000, 100 * 2**20  # of one file; 200 MB are allowed, but an upload has ten minutes
_LARGEST_ANSWERS = 2**30  # bytes of a file of answers
_QUIET = 3.0  # seconds without a further request after which those that wait are submitted
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds between two looks at a batch
_CLOCKS = 3_600.0  # seconds by which the provider's clock may differ from ours
_FULL = "token_limit_exceeded"  # code of a batch that was refused for the tokens of batches that are queued already
_MARK = "heartloop"  # of the metadata
_ENDED = {"completed", "expired", "cancelled", "canceled", "failed"}

_Answer = asyncio.Future[bytes | Trouble | None]
"""The body of a response, or why there is none; `None`: the request was never processed and may be submitted again."""

_Outcome = TypeVar("_Outcome", dict[str, Any] | Trouble, bytes | Trouble)

_request_id: ContextVar[str] = ContextVar("request_id")


def check_offered(name: str) -> None:
    """Refuses a model without a batch interface of this form. A service that is not in the table may have it."""
    services = provider_table()["services"]
    service = name.partition("/")[0].lower()
    if service in services and not services[service].get("batch"):
        having = ", ".join(sorted(other for other, row in services.items() if row.get("batch")))
        raise UseError(
            f"--batch: {service} has no batch interface of OpenAI's form; expected a model of {having}, or omit --batch"
        )


@dataclass
class _Batch:
    """One submitted file. `path` without a suffix begins the names of its files: `.jsonl` holds the requests, `.json` what is
    known of the batch, `.answers.jsonl` the answers."""

    path: Path
    answers: dict[str, _Answer]
    """By the custom id of the request."""
    token: str = field(default_factory=lambda: uuid4().hex)
    """In the batch's metadata: finds it again where its id is not known."""
    submitted: float = field(default_factory=time.time)
    file: str = ""
    id: str = ""
    status: str = "submitted"
    answered: int = 0

    def save(self) -> None:
        known = {name: getattr(self, name) for name in ("token", "submitted", "file", "id", "status")}
        write_whole(self.path.with_suffix(".json"), json.dumps(known) + "\n")

    def end(self, status: str, outcomes: Mapping[str, bytes | Trouble] | None = None) -> None:
        self.status = status
        self.save()
        missing = Trouble(TransportError, "the batch ended without an answer to this request", named="no answer in time")
        for name, answer in self.answers.items():
            if not answer.done():
                answer.set_result(None if outcomes is None else outcomes.get(name, missing))


class BatchChat(EndpointChat):
    """A model whose calls wait for each other and go to its provider as batches.

    A call waits until no further one arrives; then all that wait are submitted. So the caller makes as many calls at a time as it
    can. Requests, ids and answers are kept in `folder`: another process that makes the same calls takes the answers from there,
    waits for open batches, and submits only what is missing.
    """

    folder: Path
    direct: Callable[[], bool] = staticmethod(lambda: False)
    """Whether calls are made directly now."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.open: list[_Batch] = []
        self._known: dict[str, list[_Answer]] | None = None  # of earlier processes, by request
        self._queue: deque[tuple[str, bytes, _Answer]] = deque()
        self._waiting: set[_Answer] = set()
        self._arrived = 0
        self._number = 0
        self._most = _MOST_LINES
        self._full = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitter: asyncio.Task[None] | None = None
        self._stopped: Exception | None = None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await super().close()

    @property
    def progress(self) -> str:
        """What the open batches do, in words."""
        if not self.open:
            return ""
        answered, total = sum(batch.answered for batch in self.open), sum(len(batch.answers) for batch in self.open)
        first = self.open[0]
        which = f"batch {int(first.path.name)}" if len(self.open) == 1 else f"{len(self.open)} batches"
        status = first.status.replace("_", " ")
        return f"{which}: {answered:,} of {total:,} answered, {status}, {roughly(time.time() - first.submitted)}"

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        key = cached_under.get() or key_of(self.name, "", messages, schema, sampling)
        _request_id.set(hashlib.sha256(repr(key).encode()).hexdigest()[:32])
        return await super().complete(messages, schema=schema, sampling=sampling)

    async def send(self, body: dict[str, Any], messages: Sequence[Message], connect: float | None = None) -> Reply | Trouble:
        if connect is not None or self.direct():  # `connect`: the check of an endpoint
            return await super().send(body, messages, connect)
        self._check_key()
        outcome = None
        while outcome is None:
            answer = self._answer(_request_id.get(), body)
            self._waiting.add(answer)
            try:
                outcome = await answer
            finally:
                self._waiting.discard(answer)
        return self._scrubbed(outcome if isinstance(outcome, Trouble) else read_reply(outcome, messages))

    def _answer(self, request: str, body: Mapping[str, Any]) -> _Answer:
        """The answer of an earlier process to this request or the one that it waited for, or else that of a new line."""
        if self._stopped is not None:
            raise self._stopped
        if self._known is None:
            self._known = {}
            self._read_folder()
        if earlier := self._known.get(request):
            return earlier.pop(0)
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._queue.append((request, to_json(body), answer))
        self._arrived += 1
        if self._submitter is None or self._submitter.done():
            self._submitter = self._start(self._submit_queue())
        return answer

    def _read_folder(self) -> None:
        """Takes the answers of earlier processes, and follows the batches that they left open."""
        assert self._known is not None
        new = asyncio.get_running_loop().create_future
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else ():
            self._number = max(self._number, int(path.name[:4]))
            answers, state = path.with_name(f"{path.name[:4]}.answers.jsonl"), path.with_suffix(".json")
            if path == answers:
                for name, outcome in _outcomes(path.read_bytes()):
                    if isinstance(outcome, bytes) and isinstance(read_reply(outcome, ()), Reply):
                        answer: _Answer = new()
                        answer.set_result(outcome)
                        self._known.setdefault(name.partition("-")[0], []).append(answer)
            elif state.is_file() and not answers.is_file() and (known := from_json(state.read_bytes()))["status"] not in _ENDED:
                with path.open("rb") as lines:
                    names = [str(from_json(line)["custom_id"]) for line in lines]
                batch = _Batch(path.with_suffix(""), {name: new() for name in names}, **known)
                for name, answer in batch.answers.items():
                    self._known.setdefault(name.partition("-")[0], []).append(answer)
                self._start(self._follow(batch))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except ModelError as error:
                self._stop(EndpointStopped(f"{error}; rerun the same command to resume", self.name))
            except Exception as error:
                self._stop(error)

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _stop(self, error: Exception) -> None:
        self._stopped = error
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(error)

    async def _submit_queue(self) -> None:
        while self._queue:
            before = self._arrived
            await asyncio.sleep(_QUIET * self.factor)
            if self._arrived == before and not (self._full and self.open):
                await self._submit(self._next_lines())

    def _next_lines(self) -> Iterator[tuple[str, bytes, _Answer]]:
        lines = size = 0
        while self._queue and lines < self._most and size < _MOST_BYTES:
            request, body, answer = self._queue.popleft()
            if not answer.done():  # else its dialogue was cancelled
                lines, size = lines + 1, size + len(body)
                yield request, body, answer

    async def _submit(self, lines: Iterable[tuple[str, bytes, _Answer]]) -> None:
        named = {f"{request}-{n}": (body, answer) for n, (request, body, answer) in enumerate(lines)}
        form = b'{"custom_id":%b,"method":"POST","url":"/v1/chat/completions","body":%b}\n'
        content = b"".join(form % (to_json(name), body) for name, (body, _) in named.items())
        self._number += 1
        batch = _Batch(self.folder / f"{self._number:04}", {name: answer for name, (_, answer) in named.items()})
        with reported(f"write to {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(batch.path.with_suffix(".jsonl"), content)
        file = await self._call("/files", content)
        while file.get("status") in ("pending", "running"):  # Azure reads it first
            await asyncio.sleep(_FIRST_PAUSE * self.factor)
            file = await self._call(f"/files/{file['id']}")
        batch.file = str(file.get("id"))
        batch.save()  # before it is submitted, so that a killed process finds it again
        batch.id = (await self._tried(self._submitting(batch), "batch"))[0]["id"]
        batch.save()
        self._start(self._follow(batch))

    def _submitting(self, batch: _Batch) -> Callable[[], Coroutine[Any, Any, dict[str, Any] | Trouble]]:
        tries = 0

        async def attempt() -> dict[str, Any] | Trouble:
            nonlocal tries
            tries += 1
            if tries > 1 and (found := await self._found(batch)):  # its answer was lost
                return found
            body = {
                "input_file_id": batch.file, "endpoint": "/v1/chat/completions", "completion_window": "24h",
                "metadata": {_MARK: batch.token},
            }  # fmt: skip
            return await self._once("/batches", body)

        return attempt

    async def _found(self, batch: _Batch) -> dict[str, Any] | None:
        """A batch whose id is not known, by its metadata; the provider lists the newest first."""
        after = ""
        while True:
            page = await self._call("/batches", query=f"limit=100{after}")
            rows = page.get("data") or []
            for row in rows:
                if (row.get("metadata") or {}).get(_MARK) == batch.token:
                    return dict(row)
            if not rows or not page.get("has_more") or rows[-1]["created_at"] < batch.submitted - _CLOCKS:
                return None
            after = f"&after={rows[-1]['id']}"

    async def _follow(self, batch: _Batch) -> None:
        if not batch.id:
            if (found := await self._found(batch)) is None:
                batch.end("failed")
                return
            batch.id = found["id"]
            batch.save()
        self.open.append(batch)
        pause = _FIRST_PAUSE
        while (now := await self._call(f"/batches/{batch.id}")).get("status") not in _ENDED:
            batch.status = str(now.get("status"))
            batch.answered = int((now.get("request_counts") or {}).get("completed") or 0)
            await asyncio.sleep(pause * self.factor)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)
        status = str(now["status"])
        if status == "failed":
            self._refused(batch, now)
            return
        files = [str(now[name]) for name in ("output_file_id", "error_file_id") if now.get(name)]
        content = b"\n".join([await self._file(name) for name in files])
        with reported(f"write to {self.folder}"):
            write_whole(batch.path.with_suffix(".answers.jsonl"), content)
        self.open.remove(batch)
        self._full = False
        if status.startswith("cancel"):
            self._stop(EndpointStopped(f"batch {batch.id} was cancelled; rerun the same command to submit the rest", self.name))
        batch.end(status, dict(_outcomes(content)))

    def _refused(self, batch: _Batch, now: Mapping[str, Any]) -> None:
        errors = (now.get("errors") or {}).get("data") or [{}]
        self.open.remove(batch)
        alone = not self.open
        if any(error.get("code") == _FULL for error in errors) and (len(batch.answers) > 1 or not alone):
            self._full = True
            if alone:
                self._most = max(1, len(batch.answers) // 2)
            batch.end("failed")
            return
        why = self._key.scrub(
            "; ".join(f"{error.get('code') or ''} {error.get('message') or ''}".strip() for error in errors[:3])
        )
        todo = "correct that, then rerun the same command; nothing of this batch was processed"
        what = f"{self.name} at {self.address} refused a batch of {amount(len(batch.answers), 'request')}"
        self._stop(EndpointStopped(f"{what} ({why}); {todo}", self.name))
        batch.end("failed")

    async def _once(self, path: str, body: Mapping[str, Any] | bytes | None = None, query: str = "") -> dict[str, Any] | Trouble:
        return self._offered(path, await self._attempt(self._at(path, query), body, read_object, self._timeout))

    async def _call(self, path: str, body: bytes | None = None, query: str = "") -> dict[str, Any]:
        return (await self._tried(lambda: self._once(path, body, query), f"answer to {path}"))[0]

    async def _file(self, name: str) -> bytes:
        path = f"/files/{name}/content"

        async def attempt() -> bytes | Trouble:
            return self._offered(path, await self._attempt(self._at(path), None, bytes, self._timeout, most=_LARGEST_ANSWERS))

        return (await self._tried(attempt, "file of answers"))[0]

    def _offered(self, path: str, outcome: _Outcome) -> _Outcome:
        if isinstance(outcome, Trouble) and outcome.status in (404, 405):
            todo = "it has no batch interface of OpenAI's form: omit --batch"
            if path.count("/") > 1:
                todo = f"it holds this no more: remove the .json file in {self.folder} that names it, then rerun"
            raise UseError(f"{self.name} at {self.address} answered {outcome.text} to {path}; {todo}")
        return outcome


def _outcomes(content: bytes) -> Iterator[tuple[str, bytes | Trouble]]:
    """The custom id and the outcome of each line of answers that can be read."""
    for line in content.split(b"\n"):
        read: Any = None
        with contextlib.suppress(ValueError):
            read = from_json(line)
        if isinstance(read, dict) and isinstance(name := read.get("custom_id"), str):
            yield name, read_batch_line(read)
