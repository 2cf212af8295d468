"""Ask a model for a typed answer, re-ask with the error, or raise `AnswerError`; there is no default."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from heartloop.core.chat import LOCAL_PREFIX, ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, used_up_by_thinking, visible
from heartloop.core.errors import AnswerError
from heartloop.core.schemas import schema_of

REASKS = 2
"""Re-asks after a first answer that does not parse (ours)."""

_MAX_ERRORS = 5  # errors of one answer that a re-ask names
_DECODER = json.JSONDecoder(strict=False)  # models write raw line breaks into strings
_MAX_STARTS = 32  # braces tried as the start of an object: a model that repeats itself can send a hundred thousand

Answer = TypeVar("Answer", bound=BaseModel)


async def ask(
    model: ChatModel,
    messages: Sequence[Message],
    answer: type[Answer],
    *,
    reasks: int = REASKS,
    sampling: Sampling | None = None,
    check: Callable[[Answer], str | None] | None = None,
    passages: Sequence[str] = (),
    on_reply: Callable[[Reply, int], None] | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> Answer:
    """The model's answer as an instance of `answer`.

    The JSON schema is sent to the endpoint (`schemas.schema_of`). The answer is the JSON object in the reply's text, with or
    without other text around it, since not every endpoint enforces a schema. Several objects that differ, and a reply cut by the
    token limit, are refused.

    Args:
        passages: what a model that heartloop serves itself may quote (`schemas.QUOTED`), since small models invent quotes.
        check: returns what is wrong with an answer that fits its schema, or `None` to accept it.
        on_reply, on_refusal: called with every raw reply, and with what is wrong with one, and its re-ask number.
    """
    schema = schema_of(answer, passages if model.name.startswith(LOCAL_PREFIX) else ())
    asked, problem, last = list(messages), "", ""
    for attempt in range(reasks + 1):
        reply = await model.complete(asked, schema=schema, sampling=sampling)
        if on_reply is not None:
            on_reply(reply, attempt)
        last = reply.text
        parsed, problem = parse(reply, answer)
        if parsed is not None:
            problem = (check(parsed) if check is not None else None) or ""
            if not problem:
                return parsed
        if on_refusal is not None:
            on_refusal(problem, attempt)
        again = "Answer again with one JSON object of the form asked for, and nothing else."
        asked = [
            *messages,
            Message(role="assistant", content=reply.text or "(empty)"),
            Message(role="user", content=f"That answer cannot be used: {problem}. {again}"),
        ]
    if reply.finish_reason == "length" and not visible(last):
        problem = used_up_by_thinking("ROLE", sampling.max_tokens if sampling is not None else None)
    shown = last if len(last) <= 120 else last[:117] + "..."
    raise AnswerError(f"{model.name} answered {shown!r} after {reasks} re-asks: {problem}; expected JSON for {answer.__name__}")


def parse(reply: Reply, answer: type[Answer]) -> tuple[Answer | None, str]:
    """A raw reply as an instance of `answer` and an empty string, or `None` and what is wrong with it."""
    if reply.finish_reason == "length":
        return None, "it was cut by the token limit"
    text = visible(reply.text)
    if not text:
        return None, "it is empty"
    fitting, problem = _fitting(text, answer)
    if not fitting:
        return None, problem
    if any(other != fitting[0] for other in fitting[1:]):
        return None, "it holds several answers that differ"
    return fitting[0], ""


def answers_in(text: str, answer: type[Answer]) -> list[Answer]:
    """Every answer that a text holds; a judge of that text that returns one of them has copied it."""
    return _fitting(text, answer)[0]


def _fitting(text: str, answer: type[Answer]) -> tuple[list[Answer], str]:
    candidates = _objects(text)
    problem = "" if candidates else "it holds no JSON object"
    fitting: list[Answer] = []
    for candidate in candidates:
        try:
            fitting.append(answer.model_validate(candidate))
        except ValidationError as error:
            errors = [(".".join(map(str, one["loc"])) or "the object", one["msg"]) for one in error.errors()[:_MAX_ERRORS]]
            problem = problem or "; ".join(f"{where}: {what}" for where, what in errors)
    return fitting, problem


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects of a text, alone, in a code fence or in prose."""
    with contextlib.suppress(ValueError, TypeError):  # fast path: the object alone; TypeError: half an emoji
        alone = from_json(text)
        if isinstance(alone, dict):
            return [alone]
    objects: list[dict[str, Any]] = []
    end = 0
    for start in (match.start() for match in islice(re.finditer(r"\{", text), _MAX_STARTS)):
        if start < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):  # ValueError: not JSON, or a number of thousands of digits
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects
