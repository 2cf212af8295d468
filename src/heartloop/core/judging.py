"""Ask a model for a typed answer, re-ask with the error, or raise `AnswerError`; there is no default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from heartloop.core.chat import LOCAL_PREFIX, ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, used_up_by_thinking, visible
from heartloop.core.errors import AnswerError, Copied
from heartloop.core.schemas import schema_of
from heartloop.core.tags import FIRST, LAST, asking_for, objects_in, tag_of, tagged_schema
from heartloop.core.text import without_classes

REASKS = 2
"""Re-asks after a first answer that does not parse (ours)."""

_MAX_ERRORS = 5  # errors of one answer that a re-ask names
_LAYOUT = re.compile(r"[\s|]+")  # what a prompt changes in a quoted message, and a judge in a copy

Answer = TypeVar("Answer", bound=BaseModel)


async def ask(
    model: ChatModel,
    messages: Sequence[Message],
    answer: type[Answer],
    *,
    reasks: int = REASKS,
    sampling: Sampling | None = None,
    check: Callable[[Answer], str | None] | None = None,
    passages: Iterable[str] = (),
    on_reply: Callable[[Reply, int], None] | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> Answer:
    """The model's answer as an instance of `answer`.

    The JSON schema is sent to the endpoint (`schemas.schema_of`). The answer is the JSON object with the request's tag (`tags`)
    in the reply's text, with or without other text around it, since not every endpoint enforces a schema. Several such objects
    that differ, and a reply cut by the token limit, are refused.

    Args:
        passages: all that a model of heartloop's own may quote (`schemas.QUOTED`), since small models invent quotes.
        check: returns what is wrong with an answer that fits its schema, or `None` to accept it.
        on_reply, on_refusal: called with every raw reply, and with what is wrong with one, and its re-ask number.

    Raises:
        Copied: the last reply was or held only a text that the model was shown.
    """
    tag, local = tag_of(messages), model.name.startswith(LOCAL_PREFIX)
    schema = tagged_schema(schema_of(answer, tuple(passages) if local else ()), tag if local else None)
    asked = first = asking_for(tag, messages)
    problem = last = ""
    for attempt in range(reasks + 1):
        reply = (await model.complete(asked, schema=schema, sampling=sampling))._replace(tag=tag)
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
        refusal = Message(role="user", content=f"That answer cannot be used: {problem}. {again}")
        asked = [*first, Message(role="assistant", content=reply.text or "(empty)"), *asking_for(tag, [refusal])]
    if reply.finish_reason == "length" and not visible(last):
        problem = used_up_by_thinking("ROLE", sampling.max_tokens if sampling is not None else None)
    shown = last if len(last) <= 120 else last[:117] + "..."
    kind = Copied if _is_copied(last, tag, first, answer) else AnswerError
    fields = ", ".join(schema_of(answer)["properties"])
    raise kind(f"{model.name} answered {shown!r} after {reasks} re-asks: {problem}; expected JSON with {fields}")


def parse(reply: Reply, answer: type[Answer]) -> tuple[Answer | None, str]:
    """A raw reply as an instance of `answer` and an empty string, or `None` and what is wrong with it.

    A stored reply of an earlier version has no tag; then every object counts.
    """
    if reply.finish_reason == "length":
        return None, "it was cut by the token limit"
    text = visible(reply.text)
    objects = list(objects_in(text, reply.tag))
    if reply.tag is not None and all(found.fields is None for found in objects):
        objects = list(objects_in(reply.text, reply.tag)) or objects  # a tag of thinking that it quoted hid its answer
    if not text and not objects:
        return None, "it is empty"
    fitting: list[Answer] = []
    first, last = (f'"{field}": "{reply.tag}"' for field in (FIRST, LAST))
    problem = "it holds no JSON object" + (f" that begins with {first}" if reply.tag else "")
    for number, found in enumerate(objects):
        fits, wrong = _validated(found.fields, answer)
        if fits is not None:
            fitting.append(fits)
        elif number == 0:
            problem = wrong or f"the JSON object with {first} is not valid, has a field twice, or does not end with {last}"
    if not fitting:
        return None, problem
    if any(other != fitting[0] for other in fitting[1:]):
        return None, "it holds several answers that differ"
    return fitting[0], ""


def _validated(fields: dict[str, Any] | None, answer: type[Answer]) -> tuple[Answer | None, str]:
    if fields is None:
        return None, ""
    try:
        return answer.model_validate(fields), ""
    except ValidationError as error:
        errors = [
            (".".join(map(str, one["loc"])) or "the object", without_classes(one["msg"])) for one in error.errors()[:_MAX_ERRORS]
        ]
        return None, "; ".join(f"{where}: {what}" for where, what in errors)


def _is_copied(text: str, tag: str, request: Sequence[Message], answer: type[BaseModel]) -> bool:
    """Whether a text has no object with the tag, and it, or an answer in it, occurs in the request."""
    if any(objects_in(text, tag)) or "{" not in text:
        return False
    parts = [text, *(text[one.start : one.end] for one in objects_in(text) if _validated(one.fields, answer)[0] is not None)]
    shown = [_LAYOUT.sub("", message.content) for message in request]
    return any(_LAYOUT.sub("", part) in message for part in parts for message in shown)
