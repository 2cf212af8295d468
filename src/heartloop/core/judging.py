"""Ask a model for a typed answer, re-ask with the error, or raise.

Covers one question with a bounded number of re-asks. Does not cover what the question is (prompts), and
never invents an answer: what does not parse is an `AnswerError`, not a default.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, visible
from heartloop.core.errors import AnswerError

__all__ = ["REASKS", "answers_in", "ask", "parse"]

REASKS = 2
"""Re-asks after a first answer that does not parse (ours)."""

_TOLD = 5  # errors of one answer that a re-ask names
_DECODER = json.JSONDecoder(strict=False)  # models write raw line breaks into strings
_STARTS = 32  # braces tried as the start of an object: a model caught in a loop can send a hundred thousand

Answer = TypeVar("Answer", bound=BaseModel)


async def ask(
    model: ChatModel,
    messages: Sequence[Message],
    answer: type[Answer],
    *,
    reasks: int = REASKS,
    sampling: Sampling | None = None,
    check: Callable[[Answer], str | None] | None = None,
    heard: Callable[[Reply, int], None] | None = None,
    refused: Callable[[str, int], None] | None = None,
) -> Answer:
    """The model's answer as an instance of `answer`.

    The JSON schema goes to the endpoint; one that cannot enforce it is served by the prompt alone, and the
    JSON object in its text is read; several that differ are none. An answer cut by the token limit is not an answer.

    Args:
        check: a further test of a parsed answer; a sentence refuses it, `None` accepts it.
        heard: called with every raw reply and its re-ask number, for the transcript.
        refused: called with what is wrong with a reply and its re-ask number.

    Raises:
        AnswerError: no acceptable answer after `reasks` re-asks; says what the last one was.
        ModelError: a call failed for good.
    """
    schema = _schema_of(answer)
    asked = list(messages)
    problem, last = "", ""
    for attempt in range(reasks + 1):
        reply = await model.complete(asked, schema=schema, sampling=sampling)
        if heard is not None:
            heard(reply, attempt)
        last = reply.text
        parsed, problem = parse(reply, answer)
        if parsed is not None:
            problem = (check(parsed) if check is not None else None) or ""
            if not problem:
                return parsed
        if refused is not None:
            refused(problem, attempt)
        asked = [
            *messages,
            Message(role="assistant", content=reply.text or "(empty)"),
            Message(
                role="user",
                content=f"That answer cannot be used: {problem}. "
                "Answer again with one JSON object of the form asked for, and nothing else.",
            ),
        ]
    shown = last if len(last) <= 120 else last[:117] + "..."
    raise AnswerError(f"{model.name} answered {shown!r} after {reasks} re-asks: {problem}; expected JSON for {answer.__name__}")


@cache
def _schema_of(answer: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON schema of an answer; working it out takes longer than a call."""
    return MappingProxyType(answer.model_json_schema())


def parse(reply: Reply, answer: type[Answer]) -> tuple[Answer | None, str]:
    """One raw reply as an instance of `answer`, or `None` and what is wrong with it; also for replies of stored dialogues."""
    if reply.finish_reason == "length":
        return None, "it was cut by the token limit"
    text = visible(reply.text).text
    if not text:
        return None, "it is empty"
    fitting, problem = _fitting(text, answer)
    if not fitting:
        return None, problem
    if any(other != fitting[0] for other in fitting[1:]):
        return None, "it holds several answers that differ"
    return fitting[0], ""


def answers_in(text: str, answer: type[Answer]) -> list[Answer]:
    """Every answer that a text holds; where a model judges that text, one of them said back is no judgement of its own."""
    return _fitting(text, answer)[0]


def _fitting(text: str, answer: type[Answer]) -> tuple[list[Answer], str]:
    """The answers that a text holds, or what is wrong with the first object that is none."""
    found = _objects(text)
    problem = "" if found else "it holds no JSON object"
    fitting: list[Answer] = []
    for candidate in found:
        try:
            fitting.append(answer.model_validate(candidate))
        except ValidationError as error:
            problem = problem or "; ".join(_said(one) for one in error.errors()[:_TOLD])
    return fitting, problem


def _said(error: ErrorDetails) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the object"
    return f"{where}: {error['msg']}"


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a text, inside a code fence or prose or alone, outermost ones only."""
    with contextlib.suppress(ValueError, TypeError):  # nearly every answer is the object alone; TypeError: half an emoji
        alone = from_json(text)
        if isinstance(alone, dict):
            return [alone]
    found: list[dict[str, Any]] = []
    end = 0
    for start in (match.start() for match in islice(re.finditer(r"\{", text), _STARTS)):
        if start < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):  # ValueError: no JSON, or a number of thousands of digits
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
