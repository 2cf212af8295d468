"""A local server with a batch interface, as OpenAI documents it (https://platform.openai.com/docs/guides/batch, and the reference
of files and batches).

A file of requests is uploaded with the purpose `batch`; a batch of it is validated, in progress, finalizing and completed, a step
at each look. Answers and errors are two files, whose lines are in another order than the requests. A batch that expires returns
what was finished, and `batch_expired` for the rest. A batch is refused with `token_limit_exceeded` while too much is queued.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
from aiohttp import web

from tests.faulty_server import FaultyServer

__all__ = ["BatchServer"]

_LINES = "Bearer line-of-a-batch"  # the key under which the server answers the lines itself
_STEPS = ("validating", "in_progress", "in_progress", "finalizing", "completed")


class BatchServer(FaultyServer):
    """A `FaultyServer` that also takes batches; its faults apply to their lines.

    Args:
        expire: by number of a batch, the share of its lines that are answered before it expires.
        cancel: likewise, before it is cancelled at the provider.
        silent: whether expired lines are missing from the error file.
        most_queued: lines of unfinished batches beyond which a further one is refused.
        invalid: the error of every batch's validation.
        pages: batches on a page of the list.
        hold: the step that is done, but whose response never comes: upload, create, look or content, with its number, `look:2`.
        lose: the step that is done, but whose connection breaks before the response, likewise.
        reads_first: whether an uploaded file is pending before it can be submitted, as at Azure.
        without: whether there is no batch interface at all.
    """

    def __init__(
        self,
        *faults: str,
        expire: dict[int, float] | None = None,
        cancel: dict[int, float] | None = None,
        silent: bool = False,
        most_queued: int = 50_000,
        invalid: dict[str, Any] | None = None,
        pages: int = 100,
        hold: str = "",
        lose: str = "",
        reads_first: bool = False,
        without: bool = False,
        **how: Any,
    ) -> None:
        super().__init__(*faults, **how)
        self.ends = {n: ("expired", share) for n, share in (expire or {}).items()}
        self.ends |= {n: ("cancelled", share) for n, share in (cancel or {}).items()}
        self.silent, self.most_queued, self.invalid = silent or bool(cancel), most_queued, invalid
        self.pages, self.hold, self.lose, self.reads_first = pages, hold, lose, reads_first
        self._pending: set[str] = set()
        self.held = asyncio.Event()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.billed: Counter[str] = Counter()
        """Lines that were answered, by the text of the request."""
        self.steps: Counter[str] = Counter()
        self._looks: Counter[str] = Counter()
        self._app = self._runner.app
        if not without:
            self._app.router.add_post("/v1/files", self._upload)
            self._app.router.add_get("/v1/files/{id}", self._file)
            self._app.router.add_get("/v1/files/{id}/content", self._content)
            self._app.router.add_post("/v1/batches", self._create)
            self._app.router.add_get("/v1/batches", self._listing)
            self._app.router.add_get("/v1/batches/{id}", self._look)

    @property
    def direct(self) -> int:
        """Calls that came as such, without those of batches and of the check before a run."""
        return sum(request.authorization != _LINES for request in self.requests)

    async def _done(self, step: str, request: web.Request) -> None:
        self.steps[step] += 1
        if self.lose == f"{step}:{self.steps[step]}" and request.transport is not None:
            request.transport.abort()
        if self.hold == f"{step}:{self.steps[step]}":
            self.held.set()
            await self._stopping.wait()

    def _store(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    async def _upload(self, request: web.Request) -> web.Response:
        assert request.content_type == "multipart/form-data"
        form = await request.post()
        file = form["file"]
        assert form["purpose"] == "batch"
        assert isinstance(file, web.FileField)
        with file.file as content:
            name = self._store(content.read())
        if self.reads_first:
            self._pending.add(name)
        await self._done("upload", request)
        return web.json_response(self._described(name))

    def _described(self, name: str) -> dict[str, str]:
        return {"id": name, "object": "file", "purpose": "batch", "status": "pending" if name in self._pending else "processed"}

    async def _file(self, request: web.Request) -> web.Response:
        self._pending.discard(request.match_info["id"])
        return web.json_response(self._described(request.match_info["id"]))

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["completion_window"] == "24h"
        if asked["input_file_id"] not in self.files or asked["input_file_id"] in self._pending:
            return web.json_response({"error": {"message": "No such File object", "code": "not_found"}}, status=400)
        name = f"batch_{len(self.batches) + 1}"
        lines = self.files[asked["input_file_id"]].splitlines()
        self.batches[name] = {
            "id": name, "object": "batch", "created_at": 2**31 + len(self.batches), "status": "validating", "errors": None,
            "output_file_id": None, "error_file_id": None,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0}, **asked,
        }  # fmt: skip
        await self._done("create", request)
        return web.json_response(self.batches[name])

    async def _listing(self, request: web.Request) -> web.Response:
        foreign = {"id": "batch_of_another_program", "object": "batch", "status": "in_progress", "metadata": None}
        newest = [foreign, *list(self.batches.values())[::-1]]
        if after := request.query.get("after"):
            newest = newest[[batch["id"] for batch in newest].index(after) + 1 :]
        shown = newest[: min(self.pages, int(request.query.get("limit", 20)))]
        return web.json_response({"object": "list", "data": shown, "has_more": len(shown) < len(newest)})

    async def _look(self, request: web.Request) -> web.Response:
        batch = self.batches.get(name := request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": f"No batch found with id '{name}'"}}, status=404)
        if batch["status"] not in ("failed", "completed", "expired", "cancelled"):
            batch["status"] = _STEPS[self._looks[name]]
            self._looks[name] += 1
            if batch["status"] == "in_progress" and self._looks[name] == 2 and (errors := self._problems(batch)):
                batch |= {"status": "failed", "errors": {"object": "list", "data": errors}}
            if batch["status"] == "finalizing":
                await self._process(batch)
            if batch["status"] == "completed":
                batch["status"] = self._end(batch)[0]
        await self._done("look", request)
        return web.json_response(batch)

    def _end(self, batch: dict[str, Any]) -> tuple[str, float]:
        return self.ends.get(int(batch["id"].rpartition("_")[2]), ("completed", 1.0))

    def _problems(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        if self.invalid:
            return [self.invalid]
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if any(line["method"] != "POST" or line["url"] != batch["endpoint"] for line in lines):
            return [{"code": "invalid_url", "message": "The URL provided for this request does not match the batch endpoint."}]
        if len({line["custom_id"] for line in lines}) < len(lines):
            return [{"code": "duplicate_custom_id", "message": "The custom_id for this request is a duplicate."}]
        if len({line["body"]["model"] for line in lines}) > 1:
            return [{"code": "mismatched_model", "message": "The provided model does not match that of the batch."}]
        others = [one for one in self.batches.values() if one is not batch and one["status"] in _STEPS[:-1]]
        if len(lines) + sum(one["request_counts"]["total"] for one in others) > self.most_queued:
            return [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached.", "line": None, "param": None}]
        return []

    async def _process(self, batch: dict[str, Any]) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        answered = round(self._end(batch)[1] * len(lines))
        url = f"{self.base_url}/chat/completions"
        output: list[Any] = [{"custom_id": "of-nothing", "response": {"status_code": 200, "body": {}}, "error": None}]
        errors: list[Any] = []
        async with aiohttp.ClientSession(headers={"Authorization": _LINES}) as session:

            async def ask(line: dict[str, Any]) -> None:
                body = json.dumps(line["body"], ensure_ascii=False, separators=(",", ":"))  # byte for byte as in a direct call
                async with session.post(url, data=body.encode()) as response:
                    answer, status = await response.json(), response.status
                found = {"status_code": status, "request_id": "req", "body": answer}
                (output if status == 200 else errors).append({"custom_id": line["custom_id"], "response": found, "error": None})
                if status == 200:
                    self.billed[json.dumps(line["body"]["messages"])] += 1

            await asyncio.gather(*map(ask, lines[:answered]))
        late = {"code": "batch_expired", "message": "This request could not be executed before the completion window expired."}
        if not self.silent:
            errors += [{"custom_id": line["custom_id"], "response": None, "error": late} for line in lines[answered:]]
        for name, rows in (("output_file_id", output), ("error_file_id", errors)):
            if rows:
                batch[name] = self._store(b"".join(json.dumps(row).encode() + b"\n" for row in reversed(rows)))
        counts = {"completed": len(output) - 1, "failed": len(lines) - len(output) + 1}
        batch["request_counts"] |= counts

    async def _content(self, request: web.Request) -> web.Response:
        await self._done("content", request)
        return web.Response(body=self.files[request.match_info["id"]])
