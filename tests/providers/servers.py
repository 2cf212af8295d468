"""Servers on 127.0.0.1 that behave as providers document, for tests of the client. No provider is called.

A `Provider` answers chat completions like `tests.faulty_server` and is built from parts, one for each documented behaviour. The
docstring of a part says what is documented and where; all addresses were read on 2026-11-27, in stored copies of unknown age.
Parts combine: `Provider(Limit(SlidingWindow(60, 60.0)), ThinkingByDefault())`. They are asked in the order given, and the first
that refuses a call decides.

All times are seconds of the provider. `factor` multiplies every one of them on its way to the clock of this machine, those that a
client is told included: with `factor=1 / 50`, "retry after 20 s" is sent as 0.4.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Literal, Self

from aiohttp import web

from heartloop.core.tags import tagged
from tests.faulty_server import Request, _part, _play, example_of
from tests.providers.limits import Rule

__all__ = [
    "AccountEnds",
    "AnswerModeration",
    "BasicAuthProxy",
    "BlankLines",
    "CachedInput",
    "Call",
    "ConcurrencyLimit",
    "Flags",
    "IgnoredFields",
    "Limit",
    "OneAnswerAtATime",
    "OneBadGeneration",
    "Part",
    "PromptModeration",
    "Provider",
    "ReasoningTokens",
    "Refusal",
    "RefusedFields",
    "ShortContext",
    "ThinkingByDefault",
    "duration",
    "tokens_of",
]


def tokens_of(messages: Iterable[Mapping[str, Any]]) -> int:
    """Tokens of a prompt as these servers count them: one for four characters."""
    return sum(_tokens(str(message["content"])) for message in messages)


def _flat(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with text as content, also where it was sent as a list of parts."""
    return [{**m, "content": m["content"] if isinstance(m["content"], str) else _joined(m["content"])} for m in messages]


def _joined(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(part["text"] for part in parts)


def _tokens(text: str) -> int:
    return math.ceil(len(text) / 4)


@dataclass(frozen=True)
class Refusal:
    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """One request, what the server made of it, and what became of it."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    part: str
    """As in `tests.faulty_server`: policy, feel, speak, check."""
    at: float
    """Provider's seconds since the server began."""
    used: dict[str, Any]
    """The body as the model saw it: without ignored fields, with the prompt as it was cut."""
    status: int | None = None
    finished: bool = False
    """Whether the answer was generated to its end, which is billed even if the client has left."""
    abandoned: bool = False
    """Whether the client left before the answer."""


@dataclass
class Completion:
    content: str | None
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    """Of the content alone."""
    reasoning: str | None = None
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    reasoning_outside: bool = False
    """Whether `completion_tokens` of the usage leaves the reasoning out."""
    reasoning_field: str = "reasoning_content"
    details: dict[str, Any] = field(default_factory=dict)
    """Further fields of the usage."""
    choice: dict[str, Any] = field(default_factory=dict)
    """Further fields of the choice."""

    def usage(self) -> dict[str, Any]:
        shown = self.completion_tokens + (0 if self.reasoning_outside else self.reasoning_tokens)
        total = self.prompt_tokens + self.completion_tokens + self.reasoning_tokens
        found = {"prompt_tokens": self.prompt_tokens, "completion_tokens": shown, "total_tokens": total, **self.details}
        return {name: count for name, count in found.items() if count is not None}


class Part:
    """A documented behaviour. Each method is a step of a call; a part overrides those that it changes."""

    server: Provider

    def refuse(self, call: Call) -> Refusal | None:
        """Refuses the call before anything is generated; a part may also change `call.used`."""
        return None

    def headers(self) -> dict[str, str]:
        """Headers of every response, refusals included."""
        return {}

    def delay(self, call: Call) -> float:
        """Seconds added to the time of the answer."""
        return 0.0

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        """Changes the generated answer, or refuses to hand it out. Its tokens are billed all the same."""
        return None


class Provider:
    """A server for `async with`, with an OpenAI-compatible address at `base_url`.

    It answers `/chat/completions`, `/models` if it has names to list, and nothing else.

    Args:
        latency: seconds until an answer, a number or a function of the call.
        factor: seconds of this machine for one second of the provider.
        cancels: a generation ends when its client leaves. Without it, it goes on to its end and is billed.
        answer: the text of an answer in place of a simulated user's, judge's or policy's, by the body that the model saw.
        models: the names that `/models` lists, or by name the further fields that it lists, such as `max_model_len`.
    """

    def __init__(
        self,
        *parts: Part,
        latency: float | Callable[[Call], float] = 0.0,
        factor: float = 1.0,
        cancels: bool = False,
        answer: Callable[[dict[str, Any]], str] | None = None,
        models: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.parts, self.factor, self.cancels = parts, factor, cancels
        for part in parts:
            part.server = self
        self.calls: list[Call] = []
        self.refused: Counter[int] = Counter()
        """Calls refused, by status, those included whose answer was generated and then refused."""
        self.accepted = self.finished = self.abandoned = 0
        """Calls whose generation began; generations that reached their end; calls whose client left before the answer."""
        self.in_flight = self.most_in_flight = 0
        self.billed: Counter[str] = Counter()
        """Tokens of finished generations: `prompt`, `cached` (part of the prompt), `completion`, `reasoning` (part of that)."""
        self._latency, self._answer, self._seed, self._port = latency, answer, seed, port
        self._models = models if isinstance(models, Mapping) else {name: {} for name in models}
        self._slots = next((part for part in parts if isinstance(part, OneAnswerAtATime)), None)
        self._blank_lines = next((part for part in parts if isinstance(part, BlankLines)), None)
        self._schemas: dict[str, Any] = {}
        """By system prompt: prompts describe the form too, so an answer has it where a schema is ignored or not sent again."""
        self._generations: set[asyncio.Task[Any]] = set()
        self._began = time.monotonic()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._serve)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return self._port

    def now(self) -> float:
        """Provider's seconds since the server began."""
        return (time.monotonic() - self._began) / self.factor

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self._began = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._generations:
            task.cancel()
        await asyncio.gather(*self._generations, return_exceptions=True)
        await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        if not self._models:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": [{"id": name, **more} for name, more in self._models.items()]})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        used = {**body, "messages": _flat(body["messages"])}
        call = Call(body, dict(request.headers), _part(used), self.now(), used)
        self.calls.append(call)
        for part in self.parts:
            refusal = part.refuse(call)
            if refusal is not None:
                return self._refused(call, refusal)
        self.accepted += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        generation = asyncio.create_task(self._generate(call))
        self._generations.add(generation)
        generation.add_done_callback(self._generations.discard)
        try:
            if self._blank_lines is not None:
                return await self._blank_lines.respond(request, call, generation)
            outcome = await asyncio.shield(generation)
        except (asyncio.CancelledError, ConnectionError):
            self.left(call, generation)
            raise
        finally:
            self.in_flight -= 1
        if isinstance(outcome, Refusal):
            return self._refused(call, outcome)
        call.status = 200
        return web.json_response(outcome, headers=self._headers())

    def left(self, call: Call, generation: asyncio.Task[Any]) -> None:
        """The client of the call has left before its answer."""
        call.abandoned = True
        self.abandoned += 1
        if self.cancels:
            generation.cancel()

    async def _generate(self, call: Call) -> dict[str, Any] | Refusal:
        async with self._slots.slot() if self._slots else contextlib.nullcontext():
            latency = self._latency(call) if callable(self._latency) else self._latency
            await asyncio.sleep((latency + sum(part.delay(call) for part in self.parts)) * self.factor)
        text = tagged(self._text(call), _flat(call.body["messages"][-1:])[0]["content"])
        completion = Completion(text, "stop", tokens_of(call.used["messages"]), _tokens(text))
        refusal: Refusal | None = None
        for part in self.parts:
            refusal = refusal or part.answer(call, completion)
        _cut_to_limit(call, completion)
        call.finished = True
        self.finished += 1
        self.billed.update(
            prompt=completion.prompt_tokens,
            cached=completion.cached_tokens,
            completion=completion.completion_tokens + completion.reasoning_tokens,
            reasoning=completion.reasoning_tokens,
        )
        return refusal or _response(call, completion)

    def _text(self, call: Call) -> str:
        if call.part == "check":
            return "OK"
        if self._answer is not None:
            return self._answer(call.used)
        digest = hashlib.sha256(json.dumps(call.body["messages"]).encode()).hexdigest()
        draw = random.Random(f"{self._seed}:{digest}")
        seen = {**call.used, "messages": _flat(call.body["messages"])}
        asked = seen["messages"][-1]["content"]
        system, form = str(call.body["messages"][0]["content"]), call.body.get("response_format", {}).get("json_schema")
        if form is not None:
            self._schemas[system] = form["schema"]
        if call.part == "policy" and system in self._schemas:
            answer = example_of(self._schemas[system], draw)
            if "function" in answer:  # EMPA's director, which may not end a dialogue at once
                answer |= {"function": "wait", "argument": ""}
            return tagged(json.dumps(answer), asked)
        # from the whole prompt also where it was cut: such an answer is plausible, and a cut shows only in the counts
        return tagged(_play(Request(seen, call.headers.get("Authorization", ""), call.part), draw, None), asked)

    def _refused(self, call: Call, refusal: Refusal) -> web.Response:
        call.status = refusal.status
        self.refused[refusal.status] += 1
        return web.json_response(refusal.body, status=refusal.status, headers={**self._headers(), **refusal.headers})

    def _headers(self) -> dict[str, str]:
        return {name: value for part in self.parts for name, value in part.headers().items()}


def _cut_to_limit(call: Call, completion: Completion) -> None:
    """An answer over the request's token limit ends there; reasoning comes first and counts."""
    limit = call.used.get("max_completion_tokens", call.used.get("max_tokens"))
    if limit is None or completion.reasoning_tokens + completion.completion_tokens <= limit:
        return
    completion.reasoning_tokens = min(completion.reasoning_tokens, limit)
    if completion.reasoning is not None:
        completion.reasoning = completion.reasoning[: 4 * completion.reasoning_tokens]
    completion.completion_tokens = limit - completion.reasoning_tokens
    completion.content = (completion.content or "")[: 4 * completion.completion_tokens]
    completion.finish_reason = "length"


def _response(call: Call, completion: Completion) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": completion.content}
    if completion.reasoning is not None:
        message[completion.reasoning_field] = completion.reasoning
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": call.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": completion.finish_reason, **completion.choice}],
        "usage": completion.usage(),
    }


def _error(message: str, code: str | None = None, kind: str = "invalid_request_error", **further: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **further}}


# Limits


class Limit(Part):
    """Refuses calls over a limit with 429, and says in one or several ways when to try again.

    - `openai`: `x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests` on every response, the reset as `1s`,
      `6m0s` or `20ms`; the same three with `-tokens`. OpenAI, https://developers.openai.com/api/docs/guides/rate-limits;
      a real response: https://github.com/BeehiveInnovations/pal-mcp-server/issues/178. That refused calls count
      (`refused_count` of the rule) is from the design notes of November 2026, not confirmed in a stored page.
    - `day`: the same headers, but those of requests are about the day, not about the limit that refuses.
      Groq, https://console.groq.com/docs/rate-limits
    - `seconds`: `Retry-After` in seconds, on refusals only. Groq (same page); Anthropic,
      https://www.developersdigest.tech/errors/api/anthropic-api/429-rate-limit-error
    - `date`: `Retry-After` as an HTTP date of whole seconds, rounded up (RFC 9110, 10.2.3).
    - `ms`: `retry-after-ms`, beside the seconds of `Retry-After`:
      https://github.com/anthropics/anthropic-sdk-typescript/issues/357
    - `google`: `error.details[].retryDelay` in the body, which is a list with one error. Gemini; the list:
      https://github.com/n4ze3m/page-assist/issues/406, the delay from the design notes, not confirmed.

    xAI limits each second to a sixtieth of the minute, a `TokenBucket` of capacity 1: https://docs.x.ai/developers/rate-limits

    An empty `tells` is a 429 without any of them.
    """

    def __init__(
        self, rule: Rule, *tells: Literal["openai", "day", "seconds", "date", "ms", "google"], per: str = "requests"
    ) -> None:
        self.rule, self.tells, self.per = rule, tells, per

    def refuse(self, call: Call) -> Refusal | None:
        now, amount = self.server.now(), self._amount(call)
        wait = self.rule.retry_after(now, amount) * self.server.factor
        if self.rule.ask(now, amount):
            return None
        headers: dict[str, str] = {}
        if "seconds" in self.tells:
            headers["Retry-After"] = f"{wait:.3f}" if self.server.factor != 1.0 else str(math.ceil(wait))
        if "date" in self.tells:
            headers["Retry-After"] = formatdate(math.ceil(time.time() + wait), usegmt=True)
        if "ms" in self.tells:
            headers["retry-after-ms"] = str(math.ceil(wait * 1000))
        body: Any = _error(
            f"Rate limit reached: {self.rule.n} {self.per} in {self.rule.window:g} s", "rate_limit_exceeded", self.per
        )
        if "google" in self.tells:
            details = [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "PerMinute"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait:.9f}s"},
            ]
            body = [{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": details}}]
        return Refusal(429, body, headers)

    def headers(self) -> dict[str, str]:
        if not {"openai", "day"} & set(self.tells):
            return {}
        now, factor = self.server.now(), self.server.factor
        found = {
            f"x-ratelimit-limit-{self.per}": str(self.rule.n),
            f"x-ratelimit-remaining-{self.per}": str(self.rule.remaining(now)),
            f"x-ratelimit-reset-{self.per}": duration(self.rule.reset(now) * factor),
        }
        if "day" in self.tells:
            left = 14_400 - self.server.accepted
            found |= {
                "x-ratelimit-limit-requests": "14400",
                "x-ratelimit-remaining-requests": str(left),
                "x-ratelimit-reset-requests": duration((14_400 - left) * 6.0 * factor),
            }
        return found

    def _amount(self, call: Call) -> int:
        if self.per == "requests":
            return 1
        limit = call.body.get("max_completion_tokens", call.body.get("max_tokens", 0))
        return tokens_of(call.body["messages"]) + int(limit)


def duration(seconds: float) -> str:
    """As `x-ratelimit-reset-requests` has it.

    >>> duration(0.02), duration(1), duration(7.66), duration(360), duration(0)
    ('20ms', '1s', '7.66s', '6m0s', '0s')
    """
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


class ConcurrencyLimit(Part):
    """Refuses a call with 429 while `n` others are being answered. DeepSeek limits concurrency, 2,500 calls of
    `deepseek-flash`, and not the rate: https://api-docs.deepseek.com/quick_start/pricing, /quick_start/rate_limit
    """

    def __init__(self, n: int) -> None:
        self.n = n

    def refuse(self, call: Call) -> Refusal | None:
        if self.server.in_flight < self.n:
            return None
        return Refusal(429, _error("Too many concurrent requests", "rate_limit_reached"))


class OneAnswerAtATime(Part):
    """Generates `slots` answers at a time, in order; the others wait, at most `queue` of them, further ones get 503.

    With `cancels=False` of the server, a request whose client has left keeps its place and is answered.
    Ollama (`OLLAMA_NUM_PARALLEL` is 1, `OLLAMA_MAX_QUEUE` 512): https://github.com/ollama/ollama/blob/main/docs/faq.mdx. That
    abandoned requests are not cancelled is from the design notes, not confirmed.
    """

    def __init__(self, slots: int = 1, queue: int = 512) -> None:
        self.slots, self.queue = slots, queue
        self._semaphore = asyncio.Semaphore(slots)
        self._inside = 0

    def refuse(self, call: Call) -> Refusal | None:
        if self._inside < self.slots + self.queue:
            return None
        return Refusal(503, _error("server busy, maximum pending requests exceeded", kind="api_error"))

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        self._inside += 1
        try:
            async with self._semaphore:
                yield
        finally:
            self._inside -= 1


class BlankLines(Part):
    """Answers 200 at once, then sends an empty line every few seconds while the request waits, then the JSON body.

    After `closes` seconds without a generation the server closes the connection. (For streamed answers, which heartloop does not
    ask for, the lines are comments.) DeepSeek: https://api-docs.deepseek.com/quick_start/rate_limit
    """

    def __init__(self, queue: float = 120.0, every: float = 15.0, closes: float = 600.0) -> None:
        self.queue, self.every, self.closes = queue, every, closes
        self.lines = 0
        """Empty lines sent."""

    def delay(self, call: Call) -> float:
        return self.queue

    async def respond(self, request: web.Request, call: Call, generation: asyncio.Task[Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        began = self.server.now()
        while not generation.done():
            step = self.every
            if self.queue > self.closes:
                step = min(step, self.closes - (self.server.now() - began))
                if step <= 0:
                    generation.cancel()
                    if request.transport is not None:
                        request.transport.close()
                    return response
            await asyncio.wait([generation], timeout=step * self.server.factor)
            if not generation.done():
                self.lines += 1
                await response.write(b"\n")
        outcome = generation.result()
        call.status = 200
        if isinstance(outcome, Refusal):  # the status is sent already
            self.server.refused[outcome.status] += 1
            outcome = outcome.body
        await response.write(json.dumps(outcome).encode())
        await response.write_eof()
        return response


# Fields of requests


class IgnoredFields(Part):
    """Ignores fields without a word. As default those of Anthropic's OpenAI-compatible address, which heartloop may send:
    https://platform.claude.com/docs/en/api/openai-sdk
    """

    ANTHROPIC = ("response_format", "seed", "reasoning_effort", "presence_penalty", "frequency_penalty")

    def __init__(self, *names: str) -> None:
        self.names = names or self.ANTHROPIC

    def refuse(self, call: Call) -> Refusal | None:
        for name in self.names:
            call.used.pop(name, None)
        return None


class RefusedFields(Part):
    """Refuses fields, as one service does:

    - `mistral`: 422 to `seed` in FastAPI's form, which names the field; its own is called `random_seed`.
      https://github.com/langchain-ai/langchain-azure/issues/82
    - `anthropic`: 400 to `temperature`, `top_p` and `top_k` on newer models. https://github.com/Comfy-Org/ComfyUI/issues/13923,
      https://github.com/aido-dev/aido/releases/tag/v1.4.2
    - `anthropic_both`: 400 only to `temperature` together with `top_p`. From the design notes, not confirmed.
    - `deepseek`: 400 to a `response_format` of type `json_schema`, and to `json_object` if no message contains the word "json".
      https://github.com/llm-exe/llm-exe/issues/662, https://github.com/browserbase/stagehand/issues/1204
    - `openai`: 400 to `max_tokens` and to a `temperature` other than 1 on reasoning models.
      https://mixaill76.github.io/auto_ai_router/refs/openai_chat_completions/
    """

    def __init__(self, form: Literal["mistral", "anthropic", "anthropic_both", "deepseek", "openai"]) -> None:
        self.form = form

    def refuse(self, call: Call) -> Refusal | None:
        body = call.body
        if self.form == "mistral" and "seed" in body:
            where = {
                "type": "extra_forbidden",
                "loc": ["body", "seed"],
                "msg": "Extra inputs are not permitted",
                "input": body["seed"],
            }
            return Refusal(422, {"detail": [where]})
        if self.form == "anthropic":
            for name in ("temperature", "top_p", "top_k"):
                if name in body:
                    return Refusal(400, _error(f"`{name}` is not supported by this model", "invalid_request_error"))
        if self.form == "anthropic_both" and {"temperature", "top_p"} <= set(body):
            return Refusal(400, _error("`temperature` and `top_p` cannot both be set for this model", "invalid_request_error"))
        if self.form == "deepseek" and body.get("response_format", {}).get("type") == "json_schema":
            return Refusal(400, _error("This response_format type is unavailable now", "invalid_request_error"))
        if self.form == "deepseek" and "response_format" in body and "json" not in str(body["messages"]).lower():
            text = "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
            return Refusal(400, _error(text, "invalid_request_error"))
        if self.form == "openai" and "max_tokens" in body:
            text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return Refusal(400, {"error": {"message": text, "param": "max_tokens", "code": "unsupported_parameter"}})
        if self.form == "openai" and body.get("temperature", 1) != 1:
            text = "Unsupported value: 'temperature' supports only the default (1) with this model."
            return Refusal(400, {"error": {"message": text, "param": "temperature", "code": "unsupported_value"}})
        return None


class OneBadGeneration(Part):
    """Answers `400 json_validate_failed` to the first `count` calls with a schema that is not strict, after generating an answer.

    With `strict: true` the answer always fits. Groq: https://console.groq.com/docs/structured-outputs; the form of the error is
    from https://community.groq.com/t/get-reasoning-key-when-json-validate-failed/785
    """

    def __init__(self, count: int = 1) -> None:
        self.left = count

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        form = call.used.get("response_format", {})
        best_effort = form.get("type") == "json_object" or (form and not form.get("json_schema", {}).get("strict"))
        if not best_effort or not self.left:
            return None
        self.left -= 1
        text = "Generated JSON does not match the expected schema. See 'failed_generation'."
        return Refusal(400, _error(text, "json_validate_failed", failed_generation=(completion.content or "")[:-2]))


# Moderation


Flags = str | Callable[[Mapping[str, Any]], bool]
"""A word that any message contains, or a function of the body."""


def _flagged(flags: Flags, body: Mapping[str, Any]) -> bool:
    return any(flags in str(m["content"]) for m in body["messages"]) if isinstance(flags, str) else flags(body)


_SEVERITIES = {name: {"filtered": name == "self_harm", "severity": "medium" if name == "self_harm" else "safe"}
               for name in ("hate", "self_harm", "sexual", "violence")}  # fmt: skip


class PromptModeration(Part):
    """Refuses prompts by moderation, each service in its form:

    - `azure`: 400, code `content_filter`, `innererror.code` `ResponsibleAIPolicyViolation` with severities.
      https://www.developersdigest.tech/errors/api/azure-openai (from learn.microsoft.com)
    - `alibaba`: 400, code `data_inspection_failed`. The design notes spell it so for the OpenAI-compatible address, not
      confirmed; its own API has `DataInspectionFailed`: https://developer.aliyun.com/ask/578425
    - `openai`: 400, code `invalid_prompt`. https://github.com/usestrix/strix/issues/1162
    - `deepseek`: 400, message `Content Exists Risk` and no code of its own. https://github.com/666ghj/BettaFish/issues/108
    - `openrouter`: 403 with `error.metadata.reasons`. https://openrouter.ai/docs/api/reference/errors-and-debugging
    """

    def __init__(self, form: Literal["azure", "alibaba", "openai", "deepseek", "openrouter"], flags: Flags) -> None:
        self.form, self.flags = form, flags

    def refuse(self, call: Call) -> Refusal | None:
        if not _flagged(self.flags, call.body):
            return None
        if self.form == "openrouter":
            metadata = {
                "reasons": ["self-harm"],
                "flagged_input": "...",
                "provider_name": "OpenAI",
                "model_slug": call.body["model"],
            }
            return Refusal(403, {"error": {"code": 403, "message": "Input was flagged by moderation", "metadata": metadata}})
        errors = {
            "azure": _error(
                "The response was filtered because the prompt triggered the content management policy",
                "content_filter",
                param="prompt",
                status=400,
                innererror={"code": "ResponsibleAIPolicyViolation", "content_filter_result": _SEVERITIES},
            ),
            "alibaba": _error(
                "Input data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed"
            ),
            "openai": _error("Invalid prompt: it was flagged as potentially violating the usage policy.", "invalid_prompt"),
            "deepseek": _error("Content Exists Risk", "invalid_request_error"),
        }
        return Refusal(400, errors[self.form])


class AnswerModeration(Part):
    """Answers 200 with `finish_reason` `content_filter`: without content, or with the part of it before the filter.

    Azure OpenAI, for answers that are not streamed: no content, rarely a part.
    https://www.developersdigest.tech/errors/api/azure-openai/200-finish-reason-content-filter
    """

    def __init__(self, flags: Flags, *, partial: bool = False) -> None:
        self.flags, self.partial = flags, partial

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        if _flagged(self.flags, call.body):
            text = completion.content or ""
            completion.content = text[: len(text) // 2] if self.partial else None
            completion.completion_tokens = _tokens(completion.content or "")
            completion.finish_reason = "content_filter"
            completion.choice["content_filter_results"] = _SEVERITIES
        return None


# Thinking, context and what is counted


class ThinkingByDefault(Part):
    """Thinks before each answer unless the request switches it off. While it thinks, `temperature`, `presence_penalty` and
    `frequency_penalty` are ignored without a word. Thinking counts as tokens of the answer: a low limit leaves no room for one.

    The switches that turn it off:

    - `thinking`: `{"thinking": {"type": "disabled"}}`. DeepSeek: https://api-docs.deepseek.com/guides/thinking_mode
    - `chat_template_kwargs`: `{"chat_template_kwargs": {"enable_thinking": false}}`. vLLM, SGLang:
      https://docs.vllm.ai/en/stable/features/reasoning_outputs/
    - `reasoning_effort`: `"none"`. Gemini: https://discuss.ai.google.dev/t/117875; OpenAI's `gpt-6-luna`:
      https://docs.oxen.ai/inference-api/reference/models/gpt-6-luna.md

    Args:
        tokens: of thinking per answer.
        seconds: of thinking per answer.
        shown: the field of the message (`reasoning_content`; `reasoning` in vLLM since 0.11.2), or the two marks
            of a block within the content, e.g. `("<think>", "</think>")`. The first is empty where the template opens the block.
    """

    def __init__(
        self,
        switch: Literal["thinking", "chat_template_kwargs", "reasoning_effort"] = "thinking",
        *,
        tokens: int = 200,
        seconds: float = 0.0,
        shown: str | tuple[str, str] = "reasoning_content",
    ) -> None:
        self.switch, self.tokens, self.seconds, self.shown = switch, tokens, seconds, shown
        self.thought = 0
        """Calls answered with thinking."""

    def refuse(self, call: Call) -> Refusal | None:
        if self._thinks(call):
            for name in ("temperature", "presence_penalty", "frequency_penalty"):
                call.used.pop(name, None)
        return None

    def delay(self, call: Call) -> float:
        return self.seconds if self._thinks(call) else 0.0

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        if not self._thinks(call):
            return None
        self.thought += 1
        thoughts = ("They sound hurt. " * self.tokens)[: 4 * self.tokens]
        if isinstance(self.shown, tuple):
            completion.content = f"{self.shown[0]}{thoughts}{self.shown[1]}\n\n{completion.content}"
            completion.completion_tokens += self.tokens
        else:
            completion.reasoning, completion.reasoning_field, completion.reasoning_tokens = thoughts, self.shown, self.tokens
            completion.details["completion_tokens_details"] = {"reasoning_tokens": self.tokens}
        return None

    def _thinks(self, call: Call) -> bool:
        given = call.body.get(self.switch)
        if self.switch == "thinking":
            return not (isinstance(given, dict) and given.get("type") == "disabled")
        if self.switch == "chat_template_kwargs":
            return not (isinstance(given, dict) and given.get("enable_thinking") is False)
        return bool(given != "none")


class ReasoningTokens(Part):
    """Hidden reasoning, counted as one service counts it:

    - `openai`: inside `completion_tokens`, with `completion_tokens_details.reasoning_tokens`.
      https://mixaill76.github.io/auto_ai_router/refs/openai_chat_completions/
    - `gemini`: in `total_tokens` only. The native counts: https://github.com/mozilla-ai/any-llm/issues/1290; that the
      OpenAI-compatible address passes them on like this is from the design notes, not confirmed.
    - `xai`: outside `completion_tokens`, named in `completion_tokens_details.reasoning_tokens` and part of `total_tokens`.
      https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning
    """

    def __init__(self, form: Literal["openai", "gemini", "xai"], tokens: int = 300) -> None:
        self.form, self.tokens = form, tokens

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        completion.reasoning_tokens = self.tokens
        completion.reasoning_outside = self.form != "openai"
        if self.form != "gemini":
            completion.details["completion_tokens_details"] = {"reasoning_tokens": self.tokens}
        return None


class ShortContext(Part):
    """A context of `n` tokens, for prompt and answer's first token together.

    With `cuts`, a longer prompt loses its oldest messages, then parts of its last and of its system prompt, until `kept` tokens
    are left, without a word; `prompt_tokens` says so. Without, it is refused with `400 context_length_exceeded`. Ollama does one
    or the other by model, and keeps half of the context and 2 tokens: https://github.com/ollama/ollama/issues/17889,
    /issues/17427. Its context is 4,096 below 24 GiB of video memory:
    https://github.com/ollama/ollama/blob/main/docs/context-length.mdx
    """

    def __init__(self, n: int = 4096, *, cuts: bool = True, kept: int | None = None) -> None:
        self.n, self.cuts, self.kept = n, cuts, n // 2 + 2 if kept is None else kept
        self.cut = 0
        """Prompts that were cut."""

    def refuse(self, call: Call) -> Refusal | None:
        messages = call.used["messages"]
        if tokens_of(messages) < self.n:
            return None
        if not self.cuts:
            text = f"This model's maximum context length is {self.n} tokens; the messages have {tokens_of(messages)}."
            return Refusal(400, _error(text, "context_length_exceeded", param="messages"))
        self.cut += 1
        system = [m for m in messages if m["role"] == "system"]
        others = [m for m in messages if m["role"] != "system"]
        while len(others) > 1 and tokens_of(system + others) > self.kept:
            others.pop(0)
        over = tokens_of(system + others) - self.kept
        if over > 0:
            last = str(others[-1]["content"])
            # its beginning first; what is missing then is taken from the end of the system prompt
            off = min(over, max(0, _tokens(last) - self.kept // 2))
            others[-1] = {**others[-1], "content": last[4 * off :]}
            if system and over > off:
                text = str(system[-1]["content"])
                system[-1] = {**system[-1], "content": text[: 4 * (_tokens(text) - over + off)]}
        call.used["messages"] = system + others
        return None


class CachedInput(Part):
    """Counts the part of a prompt that was sent before, as one service reports it:

    - `openai`: `prompt_tokens_details.cached_tokens`, here from 1,024 tokens in steps of 128. So report OpenAI, xAI
      (https://docs.x.ai/developers/advanced-api-usage/prompt-caching/usage-and-pricing), Groq
      (https://console.groq.com/docs/prompt-caching) and OpenRouter (https://openrouter.ai/docs/features/prompt-caching)
    - `deepseek`: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`, in steps of 64. From the design notes, not confirmed.
    - `anthropic`: only for prompts with `cache_control` marks, as on OpenRouter (same page). Counted as in Anthropic's own API:
      `cache_read_input_tokens` and `cache_creation_input_tokens`, and `prompt_tokens` has neither. That a gateway passes these
      fields on is from the design notes, not confirmed.
    """

    def __init__(self, form: Literal["openai", "deepseek", "anthropic"] = "openai") -> None:
        self.form = form
        self._least, self._step = {"openai": (1024, 128), "deepseek": (64, 64), "anthropic": (1024, 1)}[form]
        self._seen: set[bytes] = set()

    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        if self.form == "anthropic" and "cache_control" not in json.dumps(call.body["messages"]):
            return None
        text = "\0".join(f"{m['role']}\0{m['content']}" for m in call.used["messages"])
        block = 4 * max(self._step, 16)  # characters
        hashed, cached, misses = hashlib.sha256(), 0, False
        for start in range(0, len(text) - block + 1, block):
            hashed.update(text[start : start + block].encode())
            key = hashed.digest()
            misses = misses or key not in self._seen
            cached += 0 if misses else block // 4
            self._seen.add(key)
        cached = min(cached, completion.prompt_tokens) // self._step * self._step
        completion.cached_tokens = cached if cached >= self._least else 0
        fresh = completion.prompt_tokens - completion.cached_tokens
        if self.form == "openai":
            completion.details["prompt_tokens_details"] = {"cached_tokens": completion.cached_tokens}
        elif self.form == "deepseek":
            completion.details |= {"prompt_cache_hit_tokens": completion.cached_tokens, "prompt_cache_miss_tokens": fresh}
        else:
            written = fresh if completion.prompt_tokens >= self._least else 0
            found = {"cache_read_input_tokens": completion.cached_tokens, "cache_creation_input_tokens": written}
            completion.details |= {**found, "prompt_tokens": fresh - written, "total_tokens": None}
        return None


class AccountEnds(Part):
    """Refuses every call after the first `after` accepted ones:

    - `key`: 401, a key that was revoked or has expired. https://openrouter.ai/docs/api/reference/errors-and-debugging
    - `balance`: 402, no money left. OpenRouter, same page; DeepSeek from the design notes, not confirmed.
    - `quota`: 429 with code `insufficient_quota`. OpenAI; from the design notes, not confirmed.
    """

    def __init__(self, form: Literal["key", "balance", "quota"], after: int) -> None:
        self.form, self.after = form, after

    def refuse(self, call: Call) -> Refusal | None:
        if self.server.accepted < self.after:
            return None
        return {
            "key": Refusal(401, _error("Incorrect API key provided", "invalid_api_key")),
            "balance": Refusal(402, _error("Insufficient Balance", "invalid_request_error", "unknown_error")),
            "quota": Refusal(429, _error("You exceeded your current quota", "insufficient_quota", "insufficient_quota")),
        }[self.form]


class BasicAuthProxy:
    """An HTTP proxy for `async with` that wants a user and a password (407 otherwise) and forwards everything to one server.

    It takes requests with a whole address, as for `http://`, and CONNECT, as for `https://` (RFC 9110, 9.3.6 and 11.7). Whatever
    host a request names, `target` gets it: a test uses an address that is not this machine's, e.g. `http://provider.test/v1`.
    """

    def __init__(self, target: Provider, user: str = "user", password: str = "secret-of-the-proxy") -> None:
        self.target = target
        self.user, self.password = user, password
        self.hosts: Counter[str] = Counter()
        """Hosts that requests named, of those forwarded."""
        self.refused = 0
        self._expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """With user and password, as `HTTP_PROXY` takes it."""
        return self._url(f"{self.user}:{self.password}@")

    @property
    def url_without_password(self) -> str:
        return self._url("")

    def _url(self, user: str) -> str:
        assert self._server is not None
        return f"http://{user}127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._forward(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, address, version = first.split(" ")
        headers = [line.partition(": ")[::2] for line in lines]
        given = next((value for name, value in headers if name.lower() == "proxy-authorization"), None)
        if given != self._expected:
            self.refused += 1
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\n"
                         b"Content-Length: 0\r\nConnection: close\r\n\r\n")  # fmt: skip
            await writer.drain()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target.port)
        if method == "CONNECT":
            self.hosts[address.rpartition(":")[0]] += 1
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, _, path = address.partition("://")[2].partition("/")
            self.hosts[host.partition(":")[0]] += 1
            passed = [f"{name}: {value}" for name, value in headers if name.lower() not in ("proxy-authorization", "connection")]
            server_writer.write(
                "\r\n".join([f"{method} /{path} {version}", *passed, "Connection: close", "", ""]).encode("latin-1")
            )
        try:
            upward = asyncio.create_task(_pipe(reader, server_writer))
            await _pipe(server_reader, writer)
            upward.cancel()
        finally:
            server_writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
