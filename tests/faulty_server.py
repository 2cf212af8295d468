"""A local OpenAI-compatible server that injects faults by name, for tests of the client and of evaluation.

It answers by the system prompt: as SAGE's user simulator (appraisals contain `"change"`, messages `"leaves"`), as EMPA's judges
(`"regress"`, `"score"`), as PERM's judges (`"score"`, `"relevant"`), and otherwise as a policy; `/embeddings` returns vectors of
letter counts. The small request before a run is answered with OK and kept apart, in `checks`; `/models` lists `models`.

A fault is written `name[@part][:amount]`. The part is policy, user, feel, speak, embed, check or any; without one it is policy
and user, so that a run begins and meets the fault. The amount is the number of first requests with the fault (`:2`) or a share of
all (`:0.1`); without it, every request has the fault. A share is drawn from the seed and the request's text, so it does not
depend on the order of requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from aiohttp import web

from heartloop.core.tags import FIRST, LAST, tagged
from heartloop.models.check import QUESTION

__all__ = ["FAULTS", "VECTOR_FAULTS", "Fault", "FaultyServer", "Request", "Served", "broken"]

FAULTS = {
    # the transport
    "rate_limit": "429 with Retry-After",
    "error_500": "500",
    "error_503": "503 with an HTML body",
    "timeout": "no answer until the client disconnects",
    "drop": "the connection is cut before the headers",
    "drop_body": "the connection is cut within the body",
    "truncated_json": "200 with half of the body",
    "html": "200 with a web page",
    "empty_choices": "200 with no choices",
    "null_content": "content null, finish_reason stop",
    "error_in_200": "200 whose body is an upstream's 503",
    "broke_off": "finish_reason error",
    "half_emoji": "content that ends in one half of an emoji",
    "redirect": "307 to another address",
    "rate_limit_bare": "429 without Retry-After",
    "rate_limit_odd": "429 with a Retry-After that is neither seconds nor a date",
    "error_502": "502 with an empty body",
    "stall": "half of the body, then nothing until the client disconnects",
    "huge": "a completion of 10 MB",
    "huge_stream": "10 MB in chunks, without Content-Length",
    "bad_utf8": "200 with invalid UTF-8",
    "garbage": "200 with random bytes",
    "bad_gzip": "200 with a false gzip header",
    "no_http": "bytes that are not HTTP",
    "wrong_types": "200 with numbers, lists and null where text and objects belong",
    "odd_error": "422 whose error has the wrong types",
    "huge_count": "a usage of 10^400 tokens",
    "odd_finish": "a finish_reason of half an emoji",
    # what endpoints do differently
    "length": "the content cut in the middle, finish_reason length",
    "only_thinking": "thinking that the token limit cuts off",
    "reasoning": "reasoning_content beside the content",
    "thinking": "<think> within the content",
    "parts": "content as a list of parts",
    "no_usage": "no token counts",
    "refusal": "a refusal field, no content",
    "content_filter": "finish_reason content_filter, no content",
    "no_schema": "400 to response_format json_schema",
    "no_json": "422 to any response_format",
    "no_max_tokens": "400 to max_tokens in favour of max_completion_tokens",
    "no_temperature": "400 to temperature",
    "no_seed": "400 to seed",
    "no_one_token": "400 to a limit below 16 tokens",
    # what no retry mends
    "unauthorized": "401 that repeats the key",
    "unknown_model": "404",
    "bad_request": "400",
    "no_quota": "429 insufficient_quota",
    # user simulators and policies
    "bad_json": "user: broken JSON",
    "contradiction": "user: two answers that differ",
    "wrong_answer": "user: an answer of the wrong types",
    "out_of_range": "user: a change of 25",
    "speaks_for_npc": "user: an answer that goes on as the NPC",
    "silence": "policy: an empty reply",
}
VECTOR_FAULTS = {
    "short_vector": "the last vector is one number shorter",
    "nan_vector": "a number that is none",
    "zero_vector": "nothing but zeros",
    "few_vectors": "the last text has no vector",
    "mixed_vectors": "the vectors in reverse order, with their index",
}
"""What can be switched on for `/embeddings` alone."""

_HUGE = 10 * 2**20  # bytes
_SIMULATOR_ONLY = {
    "bad_json": {"feel", "speak"},
    "contradiction": {"feel", "speak"},
    "wrong_answer": {"feel", "speak"},
    "out_of_range": {"feel"},
    "speaks_for_npc": {"speak"},
    "silence": {"policy"},
    **{name: {"embed"} for name in VECTOR_FAULTS},
}
_PARTS = {
    "embed": {"embed"}, "policy": {"policy"}, "user": {"feel", "speak"}, "feel": {"feel"}, "speak": {"speak"}, "check": {"check"},
    "any": {"policy", "feel", "speak", "check"},
}  # fmt: skip


class Fault(NamedTuple):
    kind: str
    parts: frozenset[str]
    first: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`name[@part][:amount]`. Raises ValueError for anything else."""
        found = re.fullmatch(r"(\w+)(?:@(\w+))?(?::(\d*\.?\d+))?", text)
        if found is None or found[1] not in FAULTS | VECTOR_FAULTS or (found[2] or "policy") not in _PARTS:
            raise ValueError(f"fault {text!r}; expected name[@part][:amount] with a name out of {', '.join(FAULTS)}")
        parts = frozenset(_PARTS[found[2]] if found[2] else _SIMULATOR_ONLY.get(found[1], {"policy", "feel", "speak"}))
        amount = found[3]
        if amount is None:
            return cls(found[1], parts)
        return cls(found[1], parts, share=float(amount)) if "." in amount else cls(found[1], parts, first=int(amount))


class Request(NamedTuple):
    body: dict[str, Any]
    authorization: str
    part: str


class Served(NamedTuple):
    digest: str
    """Of the body: the attempts of one call share it, a re-ask has another."""
    part: str
    seed: int | None
    fault: str | None
    answered: float


class FaultyServer:
    """The server, for `async with`; its address is `base_url`.

    Args:
        faults: written as in the module's docstring; the first that a request has decides.
        delay: seconds before every answer.
        retry_after: what a `rate_limit` says.
        answer: what it says in place of its own parts, given the request's body.
        play: what it says in place of its own parts, given the request and the fault; bodies are not kept then.
        tags: whether JSON objects in what it says get the tag that is asked for (`core.tags`), as from an honest model.
        models: the names that `/models` lists; without them it does not exist.
    """

    def __init__(
        self,
        *faults: str,
        seed: int = 0,
        delay: float = 0.0,
        retry_after: str | None = "1",
        answer: Callable[[dict[str, Any]], str] | None = None,
        play: Callable[[Request, random.Random, str | None], str] | None = None,
        tags: bool = True,
        models: Iterable[str] = (),
        port: int = 0,
    ) -> None:
        self.faults = [Fault.parse(text) for text in faults]
        self.requests: list[Request] = []
        self.checks: list[Request] = []
        self.fired: Counter[str] = Counter()
        self.served: list[Served] = []
        self.in_flight = self.most_in_flight = 0
        self._seed, self._delay, self._retry_after, self._answer, self._port = seed, delay, retry_after, answer, port
        self._play, self._keeps, self._tags = play or _play, play is None, tags
        self._had: Counter[Fault] = Counter()
        self._seen: Counter[str] = Counter()
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._serve)
        app.router.add_post("/v1/embeddings", self._serve)
        self._models = list(models)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        if not self._models:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            raw = await request.read()
            body = json.loads(raw)
            asked = Request(body, request.headers.get("Authorization", ""), _part(body))
            if asked.part == "check":
                self.checks.append(asked)
            elif self._keeps:
                self.requests.append(asked)
            if self._delay:
                await asyncio.sleep(self._delay)
            digest = hashlib.sha256(raw).hexdigest()
            self._seen[digest] += 1
            draw = random.Random(f"{self._seed}:{digest}:{self._seen[digest]}")
            kind = self._fault(asked, draw)
            if kind:
                self.fired[kind] += 1
            if asked.part != "check":
                self.served.append(Served(digest, asked.part, body.get("seed"), kind, time.monotonic()))
            return await self._respond(kind, asked, request, random.Random(f"{self._seed}:{digest}"))
        finally:
            self.in_flight -= 1

    def _fault(self, asked: Request, draw: random.Random) -> str | None:
        for fault in self.faults:
            if asked.part not in fault.parts or not _applies(fault.kind, asked.body):
                continue
            if fault.first is not None and self._had[fault] >= fault.first:
                continue
            if fault.share is not None and draw.random() >= fault.share:
                continue
            self._had[fault] += 1
            return fault.kind
        return None

    async def _respond(self, kind: str | None, asked: Request, request: web.Request, draw: random.Random) -> web.StreamResponse:
        refused = _refused(kind, asked, self._retry_after)
        if refused is not None:
            return refused
        if kind == "timeout":
            await self._stopping.wait()
        if kind in ("timeout", "drop"):
            if request.transport is not None:  # else the client has left already
                request.transport.abort()
            return web.Response()
        if asked.part == "embed":
            data = json.dumps(_embedded(kind, asked.body["input"])).encode()
            return web.Response(
                body=data[: len(data) // 2] if kind == "truncated_json" else data, content_type="application/json"
            )
        if asked.part == "check":
            content = "OK"
        else:
            content = self._answer(asked.body) if self._answer is not None else self._play(asked, draw, kind)
            if self._tags:
                content = tagged(content, str(asked.body["messages"][-1]["content"]))
        data = json.dumps(_completion(kind, content, asked)).encode()
        if kind in _BYTES:
            return await _bytes(kind, data, request, draw, self._stopping)
        if kind == "drop_body":
            response = web.StreamResponse(headers={"Content-Length": str(len(data)), "Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(data[: len(data) // 2])
            if request.transport is not None:
                request.transport.close()
            return response
        if kind == "truncated_json":
            data = data[: len(data) // 2]
        return web.Response(body=data, content_type="application/json")


_BYTES = {"stall", "huge_stream", "bad_utf8", "garbage", "bad_gzip", "no_http"}


async def _bytes(
    kind: str, data: bytes, request: web.Request, draw: random.Random, stopping: asyncio.Event
) -> web.StreamResponse:
    if kind == "bad_utf8":
        return web.Response(body=data.replace(b'"content": "', b'"content": "\xff\xc3\x28'), content_type="application/json")
    if kind == "garbage":
        return web.Response(body=draw.randbytes(draw.randrange(1, 4000)), content_type="application/json")
    if kind == "bad_gzip":
        return web.Response(body=data, content_type="application/json", headers={"Content-Encoding": "gzip"})
    if kind == "no_http":
        if request.transport is not None:
            request.transport.write(draw.randbytes(8) + b"\r\n\r\n")
            request.transport.close()
        return web.Response()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    if kind == "stall":
        response.content_length = len(data)
    await response.prepare(request)
    try:
        if kind == "stall":
            await response.write(data[: len(data) // 2])
            await stopping.wait()
        for _ in range(_HUGE // 65536):
            await response.write(b" " * 65536)
        await response.write_eof()
    except ConnectionError:  # the client would have no more of it
        pass
    return response


def _embedded(kind: str | None, texts: list[str]) -> dict[str, Any]:
    vectors = [[float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    if kind == "short_vector":
        vectors[-1].pop()
    elif kind == "nan_vector":
        vectors[-1][0] = float("nan")
    elif kind == "zero_vector":
        vectors[-1] = [0.0] * 26
    elif kind == "few_vectors":
        vectors.pop()
    rows = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    used = sum(len(text.split()) for text in texts)
    return {"data": rows[::-1] if kind == "mixed_vectors" else rows, "usage": {"prompt_tokens": used, "total_tokens": used}}


def _part(body: dict[str, Any]) -> str:
    if "input" in body:
        return "embed"
    if body["messages"] == [{"role": "user", "content": QUESTION}]:
        return "check"
    system = " ".join(str(m["content"]) for m in body["messages"] if m["role"] == "system")
    judges = any(asked in system for asked in ('"change"', '"regress"', '"score"', '"relevant"'))
    return "feel" if judges else "speak" if '"leaves"' in system else "policy"


def _applies(kind: str, body: dict[str, Any]) -> bool:
    format_: str | None = body.get("response_format", {}).get("type")
    found = {
        "no_schema": format_ == "json_schema",
        "no_json": format_ is not None,
        "no_max_tokens": "max_tokens" in body,
        "no_temperature": "temperature" in body,
        "no_seed": "seed" in body,
        "no_one_token": int(body.get("max_tokens", 16)) < 16,
    }
    return found.get(kind, True)


def _refused(kind: str | None, asked: Request, retry_after: str | None) -> web.Response | None:
    header = asked.authorization
    errors: dict[str, tuple[int, dict[str, Any]]] = {
        "rate_limit": (429, {"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"}),
        "rate_limit_bare": (429, {"message": "Too many requests"}),
        "rate_limit_odd": (429, {"message": "Too many requests"}),
        "error_500": (500, {"message": "The server had an error while processing your request"}),
        "no_schema": (400, {"message": "response_format 'json_schema' is not supported", "param": "response_format"}),
        "no_max_tokens": (400, {"message": "Unsupported parameter. Use 'max_completion_tokens' instead.", "param": "max_tokens"}),
        "no_temperature": (400, {"message": "Unsupported value: only the default (1) is supported", "param": "temperature"}),
        "no_seed": (400, {"message": "unknown field: seed"}),
        "no_one_token": (400, {"message": "Could not finish the message because the output limit was reached"}),
        "unauthorized": (401, {"message": f"Incorrect API key provided: {header.removeprefix('Bearer ')}. Header was {header}"}),
        "unknown_model": (404, {"message": f"The model {asked.body.get('model')!r} does not exist", "code": "model_not_found"}),
        "bad_request": (400, {"message": "This model's maximum context length is 4096 tokens"}),
        "no_quota": (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
    }
    if kind in errors:
        status, error = errors[kind]
        headers = {"Retry-After": retry_after} if kind == "rate_limit" and retry_after is not None else {}
        if kind == "rate_limit_odd":
            headers["Retry-After"] = "1 Jan 99999999999999999999 1:1:1"
        return web.json_response({"error": error}, status=status, headers=headers)
    if kind == "error_502":
        return web.Response(status=502)
    if kind == "odd_error":
        return web.json_response({"detail": [{"loc": 5, "msg": None}, {"loc": {"a": []}}, 7]}, status=422)
    if kind == "no_json":  # as FastAPI says it, with the whole input repeated
        detail = [{"loc": ["body", "response_format"], "msg": "Extra inputs are not permitted", "input": asked.body}]
        return web.json_response({"detail": detail}, status=422)
    if kind == "error_503":
        page = "<html><head><title>503</title><style>b {}</style></head><body><h1>Service Unavailable</h1></body></html>"
        return web.Response(text=page, status=503, content_type="text/html")
    if kind == "html":
        return web.Response(text="<!doctype html><html><body>Please log in</body></html>", content_type="text/html")
    if kind == "redirect":
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/v1/chat/completions"})
    if kind == "empty_choices":
        return web.json_response({"object": "chat.completion", "choices": []})
    if kind == "error_in_200":
        return web.json_response({"error": {"message": "Provider returned error", "code": 503}})
    return None


def _completion(kind: str | None, content: str, asked: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    finish = "stop"
    if kind == "length":
        message["content"], finish = content[: len(content) // 2], "length"
    elif kind == "only_thinking":
        message["content"], finish = "<think>They sound hurt. I could", "length"
    elif kind == "null_content":
        message["content"] = None
    elif kind == "broke_off":
        message["content"], finish = content[:3], "error"
    elif kind == "huge":
        message["content"] = content + "x" * _HUGE
    elif kind == "odd_finish":
        finish = "\ud83d"
    elif kind == "half_emoji":
        message["content"] = content + " \ud83d"
    elif kind == "reasoning":
        message["reasoning_content"] = "They sound hurt."
    elif kind == "thinking":
        message["content"] = f"<think>They sound hurt.</think>\n\n{content}"
    elif kind == "parts":
        half = len(content) // 2
        texts = [{"type": "text", "text": content[:half]}, {"type": "text", "text": content[half:]}]
        message["content"] = [{"type": "thinking", "thinking": [{"type": "text", "text": "They sound hurt."}]}, *texts]
    elif kind == "refusal":
        message["content"], message["refusal"] = None, "I can't help with that."
    elif kind == "content_filter":
        message["content"], finish = None, "content_filter"
    elif kind == "wrong_types":
        message["content"] = {"text": [content]}
    words = sum(len(str(m["content"]).split()) for m in asked.body["messages"])
    found: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": asked.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if kind == "wrong_types":
        found |= {"id": None, "model": 7, "usage": ["1"]}
    if kind == "huge_count":
        found["usage"] = {"prompt_tokens": 10**400, "completion_tokens": 10**400}
    elif kind not in ("no_usage", "wrong_types"):
        found["usage"] = {"prompt_tokens": words, "completion_tokens": len(content.split())}
        found["usage"]["total_tokens"] = sum(found["usage"].values())
    return found


_MARKS = ("relevant", "clear", "concise", "sober", "accurate")


def _play(asked: Request, draw: random.Random, kind: str | None) -> str:
    """An answer of a user simulator, judge or policy that is good enough for whole dialogues."""
    said = str(asked.body["messages"][-1]["content"])
    if asked.body["messages"][0]["role"] == "user" and "response_format" in asked.body:  # a question of a validity suite
        return broken(kind, example_of(asked.body["response_format"]["json_schema"]["schema"], draw))
    if asked.part == "policy":
        if kind == "silence":
            return ""
        words = re.findall(r"[a-z]{5,}", said.lower()) or ["that"]
        opening = draw.choice(["That sounds heavy.", "I can hear how much this matters.", "No wonder it stays with you."])
        response = f"{opening} You spoke of {draw.choice(words)}. What was that like for you?"
        two_parts = "# Analysis" in str(asked.body["messages"][0]["content"])
        return f"# Analysis\nIt is about {draw.choice(words)}.\n\n# Response\n{response}" if two_parts else response
    system = str(asked.body["messages"][0]["content"])
    if '"quote"' in system and '"regress"' not in system:
        names, highest = (_MARKS, 20) if '"relevant"' in system else (("score",), 5)
        marks: dict[str, Any] = {name: highest + 20 if kind == "out_of_range" else draw.randint(1, highest) for name in names}
        if highest == 20:
            marks |= {f"{name}_why": "It is about them." for name in names} | {"overall": 50}
        words = re.findall(r"[a-z]{5,}", said.split("\n\n")[0].partition(":")[2]) or ["about"]
        return broken(kind, {"reason": "It is about them.", "quote": words[0], **marks})
    if '"score"' in system:
        return broken(kind, {"reason": "It is about them.", "score": draw.randint(20, 80)})
    if '"regress"' in system:
        return broken(kind, _form(str(asked.body["messages"][1]["content"]), draw))  # a re-ask stands behind it
    if asked.part == "feel":
        change = 25 if kind == "out_of_range" else draw.randint(-4, 9)
        answer: dict[str, Any] = {
            "content": "It asks about one word of mine.",
            "fit": "It listens, though it could know me better.",
            "activity": "At least somebody asks.",
            "feeling": "A little lighter." if change > 0 else "Not met.",
            "change": change,
        }
    else:
        mood = re.search(r"Your mood now: ([SABCF])", said)
        leaves = mood is not None and mood[1] in "SF"
        reply = draw.choice(
            ["I suppose so.", "It began last winter, really.", "My sister says the same.", "I don't know. It keeps me up."]
        )
        reply = f"{reply} {draw.choice(['I keep thinking of it.', 'That is all I can say.', 'And then there is work.'])}"
        if leaves:
            reply = "Thank you for today. Goodbye."
        if kind == "speaks_for_npc":
            reply += "\nNPC: I understand how you feel."
        answer = {
            "attitude": "open", "aim": "go on", "tone": "plain", "matter": "what happened", "reply": reply, "leaves": leaves,
        }  # fmt: skip
    return broken(kind, answer)


def example_of(schema: Mapping[str, Any], draw: random.Random) -> Any:
    """A value that fits a schema as `schemas.schema_of` writes them."""
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "anyOf" in schema:
        return example_of(draw.choice(schema["anyOf"]), draw)
    if schema["type"] == "object":
        return {name: example_of(part, draw) for name, part in schema["properties"].items() if name not in (FIRST, LAST)}
    if schema["type"] == "array":
        number = draw.randint(schema.get("minItems", 0), schema["maxItems"])
        return [example_of(schema["items"], draw) for _ in range(number)]
    if schema["type"] == "integer":
        return draw.randint(schema["minimum"], schema["maximum"])
    if schema["type"] == "number":
        return round(draw.uniform(schema["minimum"], schema["maximum"]), 2)
    return True if schema["type"] == "boolean" else "It says so."


def _form(said: str, draw: random.Random) -> dict[str, Any]:
    """The levels of EMPA's judge, each with the policy's last reply as its quote."""
    quote = re.findall(r"^Supporter: (.+)$", said, re.MULTILINE)[-1]
    levels = {axis: (draw.randint(0, 2), draw.randint(-1, 0)) for axis in "CAP"}
    return {
        axis: {
            side: {"level": level, "quote": quote if level else "", "reason": "It says so." if level else ""}
            for side, level in zip(("progress", "regress"), sides, strict=True)
        }
        for axis, sides in levels.items()
    }


def broken(kind: str | None, answer: dict[str, Any]) -> str:
    """A user simulator's answer as text, with the faults that concern its JSON."""
    text = json.dumps(answer)
    if kind == "bad_json":
        return text[:-2] + ',,"'
    if kind == "contradiction":
        number = next((name for name, value in answer.items() if type(value) is int), "")
        other = {number: answer[number] - 1 or 2} if number else {"reply": answer["reply"] + " Or not."}
        return f"{text}\n\nOr rather:\n{json.dumps({**answer, **other})}"
    if kind == "wrong_answer":
        return json.dumps({name: [value] for name, value in answer.items()})
    return text
