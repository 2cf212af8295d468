"""What marks a model's own answer: a tag that the text it reads cannot contain.

A text that is judged may hold a whole answer, half of one, or the fields that would end one early. A judge may copy it, quote it
(also without escaping its quotation marks) or continue it. So an answer is one JSON object that begins and ends with the tag of
its request, and names no field twice. The tag follows from the request's messages, so that a repeated request is the same, and
occurs in none of them.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from heartloop.core.dialogue import Message

FIRST, LAST = "tag", "end"
"""The first and the last field of an answer; both hold the tag."""

_LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels, so no words; nothing that looks like something else
_LENGTH = 5  # 14 million tags: no text can contain them all
_SENTENCE = f'Begin the JSON object with "{FIRST}": "{{0}}" and end it with "{LAST}": "{{0}}".'
_AT_THE_END = re.compile(re.escape(_SENTENCE).replace(r"\{0\}", "([a-z0-9]+)", 1).replace(r"\{0\}", r"\1") + r"\Z")
_MAX_STARTS = 32  # braces tried as the start of an object: a model that repeats itself can send a hundred thousand


def tag_of(messages: Sequence[Message]) -> str:
    """The first tag, in an order that follows from the messages, that occurs in none of them."""
    text = "\n".join(message.content for message in messages)
    draw = random.Random(hashlib.sha256(text.encode()).digest())
    while (tag := "".join(draw.choices(_LETTERS, k=_LENGTH))) in text:
        pass
    return tag


def asking_for(tag: str, messages: Sequence[Message]) -> list[Message]:
    """The messages with a sentence at their end that asks for the tag."""
    *before, last = messages
    return [*before, Message(role=last.role, content=f"{last.content}\n\n{_SENTENCE.format(tag)}")]


def tagged_schema(schema: Mapping[str, Any], tag: str | None) -> dict[str, Any]:
    """The schema with the tag's fields, of one value if it is given."""
    field = {"type": "string", "maxLength": _LENGTH} if tag is None else {"type": "string", "enum": [tag]}
    fields = {FIRST: field, **schema["properties"], LAST: field}
    return {**schema, "properties": fields, "required": list(fields)}


class Object(NamedTuple):
    """A JSON object in a text: its place, and its fields without the tag; `None` if it is not one that counts."""

    start: int
    end: int
    fields: dict[str, Any] | None


def objects_in(text: str, tag: str = "") -> Iterator[Object]:
    """The outermost JSON objects of a text, alone, in a code fence or in prose; with a tag, those that begin with it."""
    opening = rf'\{{\s*"{FIRST}"\s*:\s*"{tag}"' if tag else r"\{"
    end = 0
    for start in (match.start() for match in islice(re.finditer(opening, text), _MAX_STARTS)):
        if start < end:
            continue
        try:
            fields, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):  # ValueError: not JSON, a field twice, or a number of thousands of digits
            if tag:
                yield Object(start, start, None)
            continue
        if tag:
            closed = list(fields)[-1] == LAST and fields.pop(LAST) == fields.pop(FIRST)
            yield Object(start, end, fields if closed else None)
        else:
            yield Object(start, end, fields)


def tagged(text: str, messages: Sequence[Message]) -> str:
    """A text written without regard to the tag as a model writes it that was asked for one: for scripted models.

    >>> asked = asking_for("k7f2q", [Message(role="user", content="How warm was that?")])
    >>> tagged('I think {"warmth": 4}.', asked)
    'I think {"tag": "k7f2q", "warmth": 4, "end": "k7f2q"}.'
    """
    asked = _AT_THE_END.search(messages[-1].content) if messages else None
    if asked is None:
        return text
    mark, done, parts = json.dumps(asked[1]), 0, []
    for start, end, fields in objects_in(text):
        inner = text[start + 1 : end - 1]
        if fields and FIRST not in fields:
            parts += [text[done : start + 1], f'"{FIRST}": {mark}, {inner}, "{LAST}": {mark}']
            done = end - 1
    return "".join([*parts, text[done:]])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field occurs twice")
    return fields


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once)  # models write raw line breaks into strings
