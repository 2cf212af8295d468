"""The formats of chat completions, embeddings and lists of models: request bodies, and what servers answer.

A model's refusal is an answer: `refusal` and `content_filter` are returned as a `Reply` and scored.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from heartloop.core.chat import Reply, Schema, estimate_tokens, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import EndpointStopped, HeartloopError, MalformedReply, Moderated, RefusedByServer, TransportError
from heartloop.models.gate import Allowance

_PASSING = {408, 409, 425, 429}
_NOT_UNDERSTOOD = {400, 404, 422, 501}
_OPTIONAL = ("temperature", "top_p", "seed", "top_k", "presence_penalty", "frequency_penalty")
_REQUIRED = ("stop", "reasoning_effort")
"""Settings without which an answer is another one altogether: a server that refuses them fails the call."""
_INCOMPLETE = {"error", "abort", "insufficient_system_resource"}  # finish reasons of a generation that failed at the server
_NO_MAX_TOKENS = re.compile(
    r"max_completion_tokens|\b(unsupported|unrecogni[sz]ed|unknown|unexpected|extra)\b.*\bmax_tokens\b"
    r"|\bmax_tokens\b.{0,40}not (supported|allowed|permitted)",
    re.IGNORECASE | re.DOTALL,
)


_NO_SCHEMA = re.compile(r"response_?format|json_?(schema|object|mode)|structured|guided|grammar", re.IGNORECASE)
_BAD_GENERATION = {"json_validate_failed"}  # of a 400 for one answer that broke its schema (Groq, best effort)
_MODERATED = re.compile(
    r"content_(filter|policy)|data_inspection_failed|invalid_prompt|content exists risk|prohibited_content|safety system",
    re.IGNORECASE,
)  # codes and texts of Azure OpenAI, OpenAI, DashScope, DeepSeek, Gemini
_EMPTY = {"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached", "account_deactivated"}
_LIMITED = {429, 503, 529}  # refused by a limit on calls, tokens or concurrency; 503 and 529 are overloaded servers
_TIMED_OUT = {408, 504, 524}  # something between us and the model gave up waiting, while the model may have finished

_READ = 20_000  # characters of a server's message that are read
_NAMED = 4_000  # characters of it that are searched for a parameter's name
_LONGEST_FINISH = 64  # characters of a finish reason; a longer one is ignored
_MOST_TOKENS = 10**9  # of one call; a larger count is ignored
_CACHE_READS = ("prompt_cache_hit_tokens", "cache_read_input_tokens")  # DeepSeek's and Anthropic's names of `cached_tokens`
_MARK = {"type": "ephemeral"}  # kept for five minutes after each use


class Trouble(NamedTuple):
    """Why an attempt returned no reply."""

    kind: type[HeartloopError]
    text: str
    status: int = 200
    names: str = ""
    """The part of the message in which the server may name an unsupported parameter."""
    passing: bool = True
    """Whether a retry may succeed."""
    limited: bool = False
    """Whether a limit on calls or concurrency refused it: 429, 503 and 529."""
    wait: float | None = None
    """Seconds that the server asks to wait."""
    timed_out: bool = False
    abandoned: bool = False
    """Whether the server may have billed it: it timed out, broke its schema, or the connection broke after the request."""
    again: bool = False
    """Of a limit: whether the gate expects that another attempt gets through."""
    named: str = ""
    """The cause in two words, where the other fields do not say it."""

    @property
    def cause(self) -> str:
        """In two words, for the count of retries."""
        if self.named or self.status != 200:
            return self.named or f"status {self.status}"
        return "time-out" if self.timed_out else "no connection" if self.kind is TransportError else "no completion"


class Habits(NamedTuple):
    """What a model at an address supports. It is remembered only after a call that succeeded with it."""

    format: int = 1
    """How a schema is sent: 0 as a strict `json_schema`, 1 as `json_schema`, 2 as `json_object`, 3 by the prompt alone."""
    long_name: bool = False
    refused: frozenset[str] = frozenset()

    def body(self, model: str, messages: Sequence[Message], schema: Schema, sampling: Sampling) -> dict[str, Any]:
        """The request body; sampling settings that are `None` are left out. Those of `request` are never left out."""
        body: dict[str, Any] = {"model": model, "messages": [{"role": m.role, "content": m.content} for m in messages]}
        for name in (*_OPTIONAL, *_REQUIRED):
            value = getattr(sampling, name)
            if value is not None and name not in self.refused:
                body[name] = value
        if sampling.max_tokens is not None:
            body["max_completion_tokens" if self.long_name else "max_tokens"] = sampling.max_tokens
        body |= sampling.request
        if schema is not None and self.format < 2:
            # strict only for servers that document it: others refuse it, or ignore lengths that end a small model's answer
            strict = None
            with contextlib.suppress(ValueError):
                strict = _strict(schema) if self.format == 0 else None
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": _schema_name(str(schema.get("title", ""))),
                    "strict": strict is not None,
                    "schema": dict(schema) if strict is None else strict,
                },
            }
        elif schema is not None and self.format == 2:
            body["response_format"] = {"type": "json_object"}
        return body

    def without(self, trouble: Trouble, body: Mapping[str, Any]) -> Habits | None:
        """A reduced request after a server refused a body as unsupported; `None` where nothing is left to leave out."""
        if trouble.status not in _NOT_UNDERSTOOD:
            return None
        if "max_tokens" in body and _NO_MAX_TOKENS.search(trouble.names):
            return self._replace(long_name=True)
        named = {name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", trouble.names)}
        if named:
            return self._replace(refused=self.refused | named)
        if "response_format" in body and trouble.kind is RefusedByServer and _NO_SCHEMA.search(trouble.names):
            return self._replace(format=self.format + 1)
        return None


_STRICT_KEYWORDS = {"type", "enum", "properties", "required", "additionalProperties", "items", "anyOf", "description"}
"""What strict modes accept; lengths and ranges are checked when an answer is read."""


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for a strict mode; `ValueError` if it has a part that strict modes cannot express: free keys, or a tuple."""
    if "prefixItems" in schema or isinstance(schema.get("additionalProperties"), Mapping):
        raise ValueError
    strict = {name: value for name, value in schema.items() if name in _STRICT_KEYWORDS}
    if "properties" in strict:
        strict["properties"] = {name: _strict(part) for name, part in strict["properties"].items()}
    if "anyOf" in strict:
        strict["anyOf"] = [_strict(part) for part in strict["anyOf"]]
    if "items" in strict:
        strict["items"] = _strict(strict["items"])
    return strict


MARKED = "openrouter/anthropic/"
"""Of the names of models whose provider caches only what a request marks. Anthropic's own compatible address takes no marks."""


def mark_prefix(messages: list[dict[str, Any]]) -> None:
    """Marks what later requests begin with: the system message, and a dialogue that grows by appending up to its last message.

    The single message of a user simulator or judge is not marked: its end changes every turn, and a write costs more than input.
    """
    marked = [message for message in messages[:1] if message["role"] == "system"]
    if any(message["role"] == "assistant" for message in messages):
        marked += messages[-1:]
    for message in marked:
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": _MARK}]


@lru_cache(maxsize=64)
def _schema_name(title: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "", title)[:64].strip("_") or "answer"


class Embedded(NamedTuple):
    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


def read_reply(data: bytes, messages: Sequence[Message]) -> Reply | Trouble:
    """The body of a 200 as a reply; tokens are estimated from it and `messages` where the server does not count."""
    try:
        body = _json(data)
    except (ValueError, RecursionError):
        return Trouble(MalformedReply, f"a body that is not JSON: {_text(data) or '(empty)'}")
    if isinstance(body, dict) and body.get("error") and not body.get("choices"):
        error = body["error"]
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 600:  # OpenRouter reports its upstream's errors this way
            return read_refusal(code, data)
        return Trouble(MalformedReply, f"an error instead of an answer: {_error_of(data)[0]}")
    try:
        choice = body["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, thinking = _content(message.get("content"))
    except (LookupError, TypeError, AttributeError, RecursionError):
        return Trouble(MalformedReply, f"JSON without a usable choice: {_text(data)}")
    finish = writable(finish) if isinstance(finish, str) and len(finish) <= _LONGEST_FINISH else None
    refusal = message.get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    if finish in _INCOMPLETE or (finish is None and message.get("content") is None and not text):
        return Trouble(MalformedReply, f"an incomplete answer (finish_reason {finish!r})")
    candidates = (message.get("reasoning_content"), message.get("reasoning"), thinking)
    reasoning = next((writable(part) for part in candidates if isinstance(part, str) and part), None)
    text = writable(text)
    usage = _usage(body.get("usage")) or estimate_usage(messages, text, reasoning or "")
    return Reply(text, reasoning, finish, usage)


def read_embeddings(data: bytes, texts: Sequence[str]) -> Embedded | Trouble:
    """The body of a 200 as one vector per text, all of one length, finite and not zero."""
    try:
        body = json.loads(data)
        rows = sorted(body["data"], key=lambda row: int(row["index"]))
        places = [row["index"] for row in rows]
        vectors = tuple(tuple(float(x) for x in row["embedding"]) for row in rows)
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return Trouble(MalformedReply, f"no list of embeddings: {_text(data)}")
    if places != list(range(len(texts))):
        return Trouble(MalformedReply, f"{len(rows)} embeddings of {len(texts)} texts")
    if len({len(vector) for vector in vectors}) > 1:
        return Trouble(MalformedReply, "embeddings of several lengths")
    if not all(any(vector) and all(map(math.isfinite, vector)) for vector in vectors):
        return Trouble(MalformedReply, "an embedding that is empty, zero or not finite")
    usage = _usage({"completion_tokens": 0, **body["usage"]} if isinstance(body.get("usage"), dict) else None)
    return Embedded(vectors, usage or Usage(prompt_tokens=sum(map(estimate_tokens, texts)), estimated=True))


_CONTEXTS = ("context_length", "max_model_len", "context_window", "max_context_length")
"""Names of a model's context: OpenRouter's, vLLM's, Groq's, Mistral's."""


def read_models(data: bytes) -> dict[str, Any] | Trouble:
    """The names of a list of models, with their context in tokens if it has one."""
    try:
        rows = _json(data)["data"]
        return {writable(row["id"]): _count(row, *_CONTEXTS) for row in rows if isinstance(row["id"], str)}
    except (ValueError, LookupError, TypeError, RecursionError):
        return Trouble(MalformedReply, f"no list of models: {_text(data)}")


def read_object(data: bytes) -> dict[str, Any] | Trouble:
    """A response that describes a file or a batch."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(body := _json(data), dict):
            return body
    return Trouble(MalformedReply, f"no JSON object: {_text(data)}")


def read_batch_line(line: Mapping[str, Any]) -> bytes | Trouble:
    """What a line of a batch's output or error file says of its request: the body of a 200, or why there is none."""
    response, error = line.get("response"), line.get("error")
    if isinstance(response, Mapping) and isinstance(status := response.get("status_code"), int):
        body = to_json(response.get("body"))
        # no gate waits before a line is sent again: it goes into the next batch
        return body if 200 <= status < 300 else read_refusal(status, body)._replace(limited=False)
    code, message = (str(error.get(name) or "") for name in ("code", "message")) if isinstance(error, Mapping) else ("", "")
    return Trouble(TransportError, f"no response: {code} {message}".strip(), named=code or "no response")


def read_refusal(status: int, data: bytes, *, wait: float | None = None) -> Trouble:
    """A status outside 200 to 299 and its body; `wait` are the seconds that the headers ask for."""
    message, names, code, wait_in_body = _error_of(data)
    text = f"{status} {message or '(no message)'}"
    if status in (401, 402) or code in _EMPTY:
        return Trouble(EndpointStopped, text, status, names, passing=False)
    if status in (400, 403, 422) and _MODERATED.search(f"{code} {message}"[:_NAMED]):
        return Trouble(Moderated, text, status, names, passing=False)
    passing = status in _PASSING or status >= 500 or code in _BAD_GENERATION
    return Trouble(
        TransportError if passing else RefusedByServer, text, status, names, passing, status in _LIMITED,
        wait_in_body if wait is None else wait, timed_out=status in _TIMED_OUT,
        abandoned=status in _TIMED_OUT or code in _BAD_GENERATION,
    )  # fmt: skip


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def _duration(text: str) -> float | None:
    """Seconds of `6m0s`, `120ms`, `1.5`, a date, or a time since 1970 in seconds or milliseconds, counted from now."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        found = _DURATION.fullmatch(text)
        if found is not None and text:
            return sum(float(part) * unit for part, unit in zip(found.groups(), (86400, 3600, 60, 1, 0.001), strict=True) if part)
        try:
            moment = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
            return max(0.0, moment.timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    if math.isnan(number):
        return None
    since = number / 1000 if number > 1e11 else number
    return max(0.0, since - time.time() if since > 1e9 else number)


def seconds_of(headers: Mapping[str, str]) -> float | None:
    """How long a refusal's headers ask to wait; `None` where they do not say."""
    milliseconds = headers.get("retry-after-ms", "")
    if milliseconds.replace(".", "", 1).isdigit():
        return float(milliseconds) / 1000
    return _duration(headers.get("Retry-After", ""))


def read_allowance(headers: Mapping[str, str], tokens: int) -> Allowance | None:
    """How many calls are left by the `x-ratelimit-*` headers, of requests, and of tokens at so many a call; the fewest count."""
    found = []
    for kind, a_call in (("-requests", 1), ("-tokens", tokens), ("", 1)):
        remaining, reset = (headers.get(f"x-ratelimit-{name}{kind}", "") for name in ("remaining", "reset"))
        if a_call and remaining.isdigit() and (seconds := _duration(reset)) is not None:
            found.append(Allowance(int(remaining) / a_call, seconds))
    return min(found, default=None)


def _json(data: bytes) -> Any:
    """`json.loads` in half the time; it remains the fallback for half an emoji, other encodings than UTF-8 and deep nesting."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def _text(data: bytes) -> str:
    text = data[:_READ].decode("utf-8", "replace")
    if "<" in text[:200]:  # both patterns stop at the next `<`: otherwise a page of `<` takes seconds
        text = re.sub(r"(?is)<(script|style)\b(?:(?!<\1\b).)*?</\1>|<[^<>]*>", " ", text)
    return text.strip()


def _error_of(data: bytes) -> tuple[str, str, str, float | None]:
    """An error body's message, the part that may name a parameter, its code, and the seconds that it asks to wait; truncated."""
    try:
        message, named, code, wait = _error_fields(_json(data))
    except (ValueError, RecursionError):
        message, named, code, wait = "", "", "", None
    message = message[:_READ] or _text(data)
    return message, f"{named}: {message}"[:_NAMED] if named else message[:_NAMED], code, wait


def _error_fields(body: Any) -> tuple[str, str, str, float | None]:
    """Message, parameter, code and RetryInfo of an error's JSON; empty where missing."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return "", "", "", None
    error = body.get("error") or body
    if not isinstance(error, dict):
        return str(error), "", "", None
    message = error.get("message") or error.get("detail") or ""
    if isinstance(message, list):  # FastAPI: its `input` repeats the whole request, so only location and message are read
        places = [(d.get("loc"), d.get("msg", "")) for d in message if isinstance(d, dict)]
        message = "; ".join(f"{'.'.join(map(str, loc)) if isinstance(loc, list) else loc or ''}: {text}" for loc, text in places)
    named = error.get("param")
    details = error.get("details")
    delays = [d.get("retryDelay") for d in details if isinstance(d, dict)] if isinstance(details, list) else []
    wait = next((_duration(delay) for delay in delays if isinstance(delay, str)), None)  # Google's RetryInfo
    metadata = error.get("metadata")
    flagged = isinstance(metadata, dict) and "flagged_input" in metadata  # OpenRouter's 403 by moderation has no code of its own
    code = "content_filter" if flagged else str(error.get("code") or error.get("type") or "")
    return str(message), named if isinstance(named, str) else "", code, wait


def _content(content: Any) -> tuple[str, str]:
    """A message's content as text and reasoning; `TypeError` for other content."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise TypeError("content is neither text nor parts")
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part.get("type") == "thinking":
            thinking = part.get("thinking")
            thoughts.append(thinking if isinstance(thinking, str) else _content(thinking)[0])
        else:
            text = part.get("text") or part.get("refusal") or ""
            texts.append(text if isinstance(text, str) else "")
    return "".join(texts), "".join(thoughts)


def _usage(counts: Any) -> Usage | None:
    if not isinstance(counts, dict):
        return None
    prompt, completion = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    if prompt is None or completion is None:
        return None
    details, output = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    read = _first(_count(details, "cached_tokens"), _count(counts, *_CACHE_READS))
    written = _first(_count(details, "cache_write_tokens"), _count(counts, "cache_creation_input_tokens"))
    reasoning = _first(_count(output, "reasoning_tokens"), _count(counts, "reasoning_tokens"))
    total = _count(counts, "total_tokens")
    if total is not None and total > prompt + completion:  # reasoning is outside of the completion: Gemini, xAI
        reasoning = reasoning or total - prompt - completion
        completion = total - prompt
    elif total is None and reasoning > completion:
        completion += reasoning
    if read + written > prompt:
        read = written = 0
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion, cached_input_tokens=read, cache_write_tokens=written,
        reasoning_tokens=reasoning if reasoning <= completion else 0,
    )  # fmt: skip


def _count(counts: Any, *names: str) -> int | None:
    """The first of some counts that can be one of a call."""
    values = (counts.get(name) for name in names) if isinstance(counts, dict) else ()
    return next((value for value in values if type(value) is int and 0 <= value <= _MOST_TOKENS), None)


def _first(*counts: int | None) -> int:
    return next((count for count in counts if count is not None), 0)
