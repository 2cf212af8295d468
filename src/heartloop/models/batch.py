"""Chat completions through a provider's batch interface: cheaper, answered within a day.

The form is OpenAI's (https://platform.openai.com/docs/guides/batch): a file of requests is uploaded and submitted as a batch,
whose answers and errors are files too, in any order. Azure OpenAI and Groq have it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from pydantic_core import from_json, to_json

from heartloop.core.chat import Reply, Schema
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import EndpointStopped, MalformedReply, ModelError, TransportError, UseError
from heartloop.core.system import reported, write_whole
from heartloop.core.text import amount, roughly
from heartloop.models.cache import cached_under, key_of
from heartloop.models.client import EndpointChat, provider_table
from heartloop.models.formats import Trouble, read_batch_line, read_object, read_reply

DIALOGUES = 5_000
"""Dialogues that wait for answers at a time."""

_ENDPOINT = "/v1/chat/completions"
_MOST_LINES, _MOST_BYTES = 50_000, 100 * 2**20  # of one file; 200 MB are allowed, but an upload has ten minutes
_LARGEST_ANSWERS = 2**30  # bytes
_QUIET = 3.0  # seconds without a further request after which those that wait are submitted
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds between two looks at a batch
_FULL = "token_limit_exceeded"  # code of a batch that is refused for the tokens of others that are queued
_MARK = "heartloop"  # of the metadata
_ENDED = {"completed", "expired", "cancelled", "failed"}
_MISSING = Trouble(TransportError, "the batch ended without an answer to this request", named="no answer in time")

_Answer = asyncio.Future[bytes | Trouble | None]
"""The body of a response, or why there is none; `None`: the request was not processed and has to be submitted again."""
_Read = Callable[[bytes], dict[str, Any] | Trouble]

_request: ContextVar[str] = ContextVar("request")


@dataclass
class _Batch:
    """One submitted file: `NNNN.jsonl` holds its requests, `NNNN.json` what is known of it, `NNNN.answers.jsonl` the answers."""

    path: Path
    """Without a suffix."""
    answers: dict[str, _Answer]
    """By the custom id of the request."""
    token: str = field(default_factory=lambda: uuid4().hex)
    """In the batch's metadata: finds it where its id is not known."""
    submitted: float = field(default_factory=time.time)
    id: str = ""
    status: str = "submitted"
    answered: int = 0

    def write(self, suffix: str, content: bytes) -> None:
        with reported(f"write to {self.path.parent}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path.with_suffix(suffix), content)

    def save(self) -> None:
        self.write(".json", to_json({"token": self.token, "submitted": self.submitted, "id": self.id}))

    def end(self, outcomes: Mapping[str, bytes | Trouble] | None) -> None:
        """Gives out the answers, or without any has all requests submitted again."""
        if outcomes is None:
            self.path.with_suffix(".json").unlink()
        for name, answer in self.answers.items():
            if not answer.done():
                answer.set_result(None if outcomes is None else outcomes.get(name, _MISSING))


class BatchChat(EndpointChat):
    """A model whose calls go to its provider as batches.

    A call waits until no further one arrives; then all that wait are submitted. So the caller makes as many calls at a time as it
    can. Requests, ids and answers are kept in `folder`: another process that makes the same calls takes the answers from there,
    waits for open batches, and submits only what is missing.
    """

    folder: Path
    direct: Callable[[], bool] = staticmethod(lambda: False)
    """Whether calls are made directly now."""

    def __init__(self, name: str, **how: Any) -> None:
        services = provider_table()["services"]
        having = [service for service, row in services.items() if row.get("batch")]
        if (service := name.partition("/")[0].lower()) in services and service not in having:  # other services may have it
            raise UseError(f"--batch: {service} has no batch interface of OpenAI's form; expected a judge of {', '.join(having)}")
        super().__init__(name, **how)
        self.open: list[_Batch] = []
        self._earlier: dict[str, deque[_Answer]] | None = None  # of earlier processes, by request
        self._queue: deque[tuple[str, bytes, _Answer]] = deque()
        self._waiting: WeakSet[_Answer] = WeakSet()
        self._number = 0
        self._most = _MOST_LINES
        self._full = False
        self._tasks: set[asyncio.Task[None]] = set()
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
        which = f"{len(self.open)} batches" if len(self.open) > 1 else f"batch {int(self.open[0].path.name)}"
        status, since = self.open[0].status.replace("_", " "), time.time() - self.open[0].submitted
        return f"{which}: {answered:,} of {total:,} answered, {status}, {roughly(since)}"

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        key = cached_under.get() or key_of(self.name, "", messages, schema, sampling)
        _request.set(hashlib.sha256(repr(key).encode()).hexdigest()[:32])
        return await super().complete(messages, schema=schema, sampling=sampling)

    async def send(self, body: dict[str, Any], messages: Sequence[Message], connect: float | None = None) -> Reply | Trouble:
        if connect is not None or self.direct() or self.lacks_key:  # `connect`: the check of an endpoint
            return await super().send(body, messages, connect)
        outcome = None
        while outcome is None:
            answer = self._answer(_request.get(), body)
            self._waiting.add(answer)
            outcome = await answer
        return self._scrubbed(outcome if isinstance(outcome, Trouble) else read_reply(outcome, messages))

    def _answer(self, request: str, body: Mapping[str, Any]) -> _Answer:
        """The answer that an earlier process had or waited for, or else that of a new line."""
        if self._stopped is not None:
            raise self._stopped
        if self._earlier is None:
            self._earlier = {}
            self._read_folder(self._earlier)
            self._start(self._submit_queue())
        if earlier := self._earlier.get(request):
            return earlier.popleft()
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._queue.append((request, to_json(body), answer))
        return answer

    def _read_folder(self, earlier: dict[str, deque[_Answer]]) -> None:
        """Takes the good answers of earlier processes, and follows the batches that they left open."""
        for path in sorted(self.folder.glob("[0-9]*[0-9].jsonl")):
            self._number = max(self._number, int(path.stem))
            answers, state = path.with_suffix(".answers.jsonl"), path.with_suffix(".json")
            if answers.is_file():
                found: dict[str, _Answer] = {}
                for name, outcome in _outcomes(answers.read_bytes()):
                    if isinstance(outcome, bytes) and isinstance(read_reply(outcome, ()), Reply):
                        found[name] = asyncio.Future()
                        found[name].set_result(outcome)
            elif state.is_file():
                names = [from_json(line)["custom_id"] for line in path.read_bytes().splitlines()]
                found = {name: asyncio.Future() for name in names}
                self._start(self._follow(_Batch(path.with_suffix(""), found, **from_json(state.read_bytes()))))
            else:  # never submitted, or refused as a whole
                continue
            for name, answer in found.items():
                earlier.setdefault(name.partition("-")[0], deque()).append(answer)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
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

    def _stop(self, error: Exception) -> None:
        self._stopped = error  # which those that wait raise when they look again
        for answer in self._waiting:
            if not answer.done():
                answer.set_result(None)

    async def _submit_queue(self) -> None:
        while True:
            before = len(self._queue)
            await asyncio.sleep(_QUIET * self.factor)
            if self._queue and len(self._queue) == before and not (self._full and self.open):
                await self._submit()

    async def _submit(self) -> None:
        lines: dict[str, tuple[bytes, _Answer]] = {}  # body and answer by custom id
        size = 0
        while self._queue and len(lines) < self._most and size < _MOST_BYTES:
            request, body, answer = self._queue.popleft()
            lines[f"{request}-{len(lines)}"] = body, answer
            size += len(body)
        form = b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n'
        content = b"".join(form % (name.encode(), _ENDPOINT.encode(), body) for name, (body, _) in lines.items())
        self._number += 1
        batch = _Batch(self.folder / f"{self._number:04}", {name: answer for name, (_, answer) in lines.items()})
        batch.write(".jsonl", content)
        file = await self._call("/files", content)
        while file.get("status") in ("pending", "running"):  # Azure reads it first
            await asyncio.sleep(_FIRST_PAUSE * self.factor)
            file = await self._call(f"/files/{file['id']}")
        batch.save()  # before it is submitted, so that a killed process finds it again
        asked = {"input_file_id": file["id"], "endpoint": _ENDPOINT, "completion_window": "24h", "metadata": {_MARK: batch.token}}
        tries = itertools.count()

        async def attempt() -> dict[str, Any] | Trouble:
            return (next(tries) and await self._found(batch)) or await self._once("/batches", asked)

        batch.id = (await self._tried(attempt, "batch"))[0]["id"]
        batch.save()
        self._start(self._follow(batch))

    async def _found(self, batch: _Batch) -> dict[str, Any] | None:
        """A batch whose id is not known, by its metadata; the provider lists the newest first."""
        path = "/batches?limit=100"
        while True:
            page = await self._call(path)
            rows: list[dict[str, Any]] = page["data"] or []
            for row in rows:
                if (row.get("metadata") or {}).get(_MARK) == batch.token:
                    return row
            if not rows or not page.get("has_more"):
                return None
            path = f"/batches?limit=100&after={rows[-1]['id']}"

    async def _follow(self, batch: _Batch) -> None:
        """Waits for a batch, and keeps its answers before it gives them out."""
        if not batch.id:
            if (found := await self._found(batch)) is None:
                batch.end(None)
                return
            batch.id = found["id"]
            batch.save()
        self.open.append(batch)
        pause = _FIRST_PAUSE
        while (now := await self._call(f"/batches/{batch.id}"))["status"] not in _ENDED:
            batch.status = now["status"]
            batch.answered = int((now.get("request_counts") or {}).get("completed") or 0)
            await asyncio.sleep(pause * self.factor)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)
        content = b""
        for name in filter(None, (now.get("output_file_id"), now.get("error_file_id"))):
            content += (await self._call(f"/files/{name}/content", read=lambda data: {"": data}))[""] + b"\n"
        self.open.remove(batch)
        if now["status"] == "failed":  # no answer to any request
            self._refused(batch, (now.get("errors") or {}).get("data") or [])
            return
        self._full = False
        content = self._key.scrub(content.decode(errors="replace"), shortest=12).encode()
        batch.write(".answers.jsonl", content)
        if now["status"] == "cancelled":
            self._stop(EndpointStopped(f"batch {batch.id} was cancelled; rerun the same command to submit the rest", self.name))
        batch.end(dict(_outcomes(content)))

    def _refused(self, batch: _Batch, errors: Sequence[Mapping[str, Any]]) -> None:
        n = len(batch.answers)
        if any(error.get("code") == _FULL for error in errors) and (self.open or n > 1):
            self._full = True  # submitted again when an open batch ends, or in halves
            self._most = self._most if self.open else n // 2
        else:
            why = self._key.scrub("; ".join(f"{error.get('code')}: {error.get('message')}" for error in errors[:3]))
            todo = "none of it was processed; correct that, then rerun the same command"
            where = f"{self.name} at {self.address}"
            self._stop(EndpointStopped(f"{where} refused a batch of {amount(n, 'request')} ({why}); {todo}", self.name))
        batch.end(None)

    async def _call(self, path: str, body: bytes | None = None, read: _Read = read_object) -> dict[str, Any]:
        return (await self._tried(lambda: self._once(path, body, read), f"answer to {path}"))[0]

    async def _once(
        self, path: str, body: Mapping[str, Any] | bytes | None, read: _Read = read_object
    ) -> dict[str, Any] | Trouble:
        outcome = await self._attempt(self._at(path), body, read, self._timeout, most=_LARGEST_ANSWERS)
        needed = "data" if "?" in path else "status" if path.startswith("/batches/") else "id"
        if read is read_object and isinstance(outcome, dict) and not (outcome.get(needed) or "data" in outcome):  # an empty list
            return Trouble(MalformedReply, f"an object without {needed}")
        if isinstance(outcome, Trouble) and outcome.status in (404, 405):
            todo = "it has no batch interface of OpenAI's form: omit --batch"
            if path.count("/") > 1:
                todo = f"what it held is gone: remove the .json file in {self.folder} that names it, then rerun"
            raise UseError(f"{self.name} at {self.address} answered {outcome.text} to {path}; {todo}")
        return outcome


def _outcomes(content: bytes) -> Iterator[tuple[str, bytes | Trouble]]:
    """Custom id and outcome of each readable line."""
    for line in content.split(b"\n"):
        read: Any = None
        with contextlib.suppress(ValueError):
            read = from_json(line)
        if isinstance(read, dict) and isinstance(name := read.get("custom_id"), str):
            yield name, read_batch_line(read)
