"""The formats of chat completions and embeddings: what is sent, what servers may not understand, and reading what they answer.

Covers the request body, giving up what a server refuses by name, and a body of bytes as a `Reply`, as `Embedded` or as `Trouble`.
Does not cover sending and retrying (`endpoint`); there is no network here.

A refusal is an answer: `refusal` and `content_filter` come back as a `Reply` and are scored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import from_json

from heartloop.core.chat import Reply, estimate_tokens, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import MalformedReply, ModelError, RefusedByServer, TransportError

__all__ = ["Embedded", "Habits", "Trouble", "read_embeddings", "read_refusal", "read_reply"]

_PASSING = {408, 409, 425, 429}
_NOT_UNDERSTOOD = {400, 404, 422, 501}
_OPTIONAL = ("temperature", "top_p", "seed")
_BROKEN_OFF = {"error", "abort", "insufficient_system_resource"}
"""Finish reasons that servers give when the generation failed on their side."""
_NO_MAX_TOKENS = re.compile(
    r"max_completion_tokens|\b(unsupported|unrecogni[sz]ed|unknown|unexpected|extra)\b.*\bmax_tokens\b"
    r"|\bmax_tokens\b.{0,40}not (supported|allowed|permitted)",
    re.IGNORECASE | re.DOTALL,
)


_READ = 20_000  # characters of a server's message that are looked at
_NAMED = 4_000  # of which so many are searched for a parameter's name
_LONGEST_FINISH = 64  # characters of a finish reason; what is longer is none
_MOST_TOKENS = 10**9  # of one call; what is beyond was not counted


class Trouble(NamedTuple):
    """Why an attempt gave no reply."""

    kind: type[ModelError]
    text: str
    status: int = 200
    names: str = ""
    """Where the server may have named what it did not understand."""
    passing: bool = True
    """Whether trying again may mend it."""
    wait: float | None = None
    """Seconds the server asked for."""


class Habits(NamedTuple):
    """What a model at an address understands. A trial is remembered only when a call succeeds by it."""

    format: int = 0
    """How a schema is sent: 0 as `json_schema`, 1 as `json_object`, 2 by the prompt alone."""
    long_name: bool = False
    """`max_completion_tokens` in place of `max_tokens`."""
    refused: frozenset[str] = frozenset()

    def body(
        self, model: str, messages: Sequence[Message], schema: Mapping[str, Any] | None, sampling: Sampling
    ) -> dict[str, Any]:
        """The request; sampling settings that are `None` are left to the endpoint."""
        body: dict[str, Any] = {"model": model, "messages": [{"role": m.role, "content": m.content} for m in messages]}
        for name in _OPTIONAL:
            value = getattr(sampling, name)
            if value is not None and name not in self.refused:
                body[name] = value
        if sampling.max_tokens is not None:
            body["max_completion_tokens" if self.long_name else "max_tokens"] = sampling.max_tokens
        if schema is not None and self.format == 0:
            # strict would refuse optional fields and number ranges at OpenAI; answers are validated here anyway
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": _schema_name(str(schema.get("title", ""))), "strict": False, "schema": dict(schema)},
            }
        elif schema is not None and self.format == 1:
            body["response_format"] = {"type": "json_object"}
        return body

    def without(self, trouble: Trouble, body: Mapping[str, Any]) -> Habits | None:
        """What to try instead after a server did not understand a body; `None` when there is nothing left to give up."""
        if trouble.status not in _NOT_UNDERSTOOD:
            return None
        if "max_tokens" in body and _NO_MAX_TOKENS.search(trouble.names):
            return self._replace(long_name=True)
        named = {name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", trouble.names)}
        if named:
            return self._replace(refused=self.refused | named)
        if "response_format" in body:
            return self._replace(format=self.format + 1)
        return None


@lru_cache(maxsize=64)
def _schema_name(title: str) -> str:
    """A schema's title in the characters that servers allow for its name."""
    return re.sub(r"[^a-zA-Z0-9_-]", "", title)[:64].strip("_") or "answer"


class Embedded(NamedTuple):
    """What an embeddings endpoint made of some texts: one vector each, in their order."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


def read_reply(data: bytes, messages: Sequence[Message]) -> Reply | Trouble:
    """The body of a 200 as a reply; tokens are estimated from it and `messages` where the server did not count."""
    try:
        found = _json(data)
    except (ValueError, RecursionError):
        return Trouble(MalformedReply, f"a body that is not JSON: {_text(data) or '(empty)'}")
    if isinstance(found, dict) and found.get("error") and not found.get("choices"):
        error = found["error"]
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 600:  # OpenRouter reports its upstream's errors this way
            return read_refusal(code, data)
        return Trouble(MalformedReply, f"an error in place of an answer: {_complaint(data)[0]}")
    try:
        choice = found["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, thinking = _content(message.get("content"))
    except (LookupError, TypeError, AttributeError, RecursionError):
        return Trouble(MalformedReply, f"JSON without a usable choice: {_text(data)}")
    finish = writable(finish) if isinstance(finish, str) and len(finish) <= _LONGEST_FINISH else None
    refusal = message.get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    if finish in _BROKEN_OFF or (finish is None and message.get("content") is None and not text):
        return Trouble(MalformedReply, f"an answer that broke off (finish_reason {finish!r})")
    beside = (message.get("reasoning_content"), message.get("reasoning"), thinking)
    reasoning = next((writable(part) for part in beside if isinstance(part, str) and part), None)
    text = writable(text)
    usage = _usage(found.get("usage")) or estimate_usage(messages, text, reasoning or "")
    return Reply(text, reasoning, finish, usage)


def read_embeddings(data: bytes, texts: Sequence[str]) -> Embedded | Trouble:
    """The body of a 200 as one vector a text; what is missing, of another length, not finite or zero is no embedding."""
    try:
        found = json.loads(data)
        rows = sorted(found["data"], key=lambda row: int(row["index"]))
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
    usage = _usage({"completion_tokens": 0, **found["usage"]} if isinstance(found.get("usage"), dict) else None)
    return Embedded(vectors, usage or Usage(prompt_tokens=sum(map(estimate_tokens, texts)), estimated=True))


def read_refusal(status: int, data: bytes, *, wait: float | None = None) -> Trouble:
    """A status outside 200 to 299 and its body; `wait` is the Retry-After in seconds."""
    said, names, code = _complaint(data)
    passing = (status in _PASSING or status >= 500) and code != "insufficient_quota"
    kind = TransportError if passing else RefusedByServer
    return Trouble(kind, f"{status} {said or '(no message)'}", status, names, passing, wait)


def _json(data: bytes) -> Any:
    """What `json.loads` makes of a body, in half its time; half an emoji, encodings beside UTF-8, deep nests are left to it."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def _text(data: bytes) -> str:
    """A body for people: without tags, scripts and styles if it is HTML."""
    text = data[:_READ].decode("utf-8", "replace")
    if "<" in text[:200]:  # both patterns stop at the next opening: a page of nothing but openings would take seconds
        text = re.sub(r"(?is)<(script|style)\b(?:(?!<\1\b).)*?</\1>|<[^<>]*>", " ", text)
    return text.strip()


def _complaint(data: bytes) -> tuple[str, str, str]:
    """What a server says is wrong, where it may have named a parameter, and its code; cut short."""
    try:
        said, named, code = _said(_json(data))
    except (ValueError, RecursionError):
        said, named, code = "", "", ""
    said = said[:_READ] or _text(data)
    return said, f"{named}: {said}"[:_NAMED] if named else said[:_NAMED], code


def _said(found: Any) -> tuple[str, str, str]:
    """Message, parameter and code of an error's JSON; empty where it says none."""
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, dict):
        return "", "", ""
    error = found.get("error") or found
    if not isinstance(error, dict):
        return str(error), "", ""
    said = error.get("message") or error.get("detail") or ""
    if isinstance(said, list):  # FastAPI: its `input` repeats the whole request, so only place and message are kept
        said = "; ".join(f"{_place(d.get('loc'))}: {d.get('msg', '')}" for d in said if isinstance(d, dict))
    named = error.get("param")
    return str(said), named if isinstance(named, str) else "", str(error.get("code") or "")


def _place(found: Any) -> str:
    return ".".join(map(str, found)) if isinstance(found, list) else str(found or "")


def _content(content: Any) -> tuple[str, str]:
    """A message's content as text and thinking. Raises TypeError for what is neither text, nor parts, nor nothing."""
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
            found = part.get("text") or part.get("refusal") or ""
            texts.append(found if isinstance(found, str) else "")
    return "".join(texts), "".join(thoughts)


def _usage(found: Any) -> Usage | None:
    if not isinstance(found, dict):
        return None
    prompt, completion = found.get("prompt_tokens"), found.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int:
        return None
    if min(prompt, completion) < 0 or max(prompt, completion) > _MOST_TOKENS:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion)
