"""What marks a model's own answer: a tag that the text it reads cannot contain.

A text that is judged may hold a whole answer, half of one, or the fields that would end one early. A judge may copy it, quote it
(also without escaping its quotation marks) or continue it. So an answer is one JSON object that begins and ends with the tag of
its request, and names no field twice. The tag follows from the request's messages, so that a repeated request is the same, and
occurs in none of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from heartloop.core.dialogue import Message, writable

FIRST, LAST = "tag", "end"
"""The first and the last field of an answer; both hold the tag."""

_LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels, so no words; nothing that looks like something else
_LENGTH = 5  # 14 million tags: no text can contain them all
_SENTENCE = f'\n\nBegin the JSON object with "{FIRST}": "{{0}}" and end it with "{LAST}": "{{0}}".'
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
    return [*before, Message(role=last.role, content=last.content + _SENTENCE.format(tag))]


def tagged_schema(schema: Mapping[str, Any], tag: str | None) -> dict[str, Any]:
    """The schema with the tag's fields; a given tag is their only value."""
    if not schema["properties"].keys().isdisjoint((FIRST, LAST)):
        raise TypeError(f"{schema['title']} has a field {FIRST!r} or {LAST!r}; expected other names, they are the tag's")
    field = {"type": "string", "maxLength": _LENGTH} if tag is None else {"type": "string", "enum": [tag]}
    fields = {FIRST: field, **schema["properties"], LAST: field}
    return {**schema, "properties": fields, "required": list(fields)}


class Object(NamedTuple):
    start: int
    end: int
    fields: dict[str, Any] | None
    """Without the tag; `None` if the object began with it and is no answer."""


def objects_in(text: str, tag: str | None = None) -> Iterator[Object]:
    """The outermost JSON objects of a text, alone, in a code fence or in prose; with a tag, those that begin with it."""
    end, opening = 0, r'\{\s*"' if tag is None else rf'\{{\s*"{FIRST}"\s*:\s*"{re.escape(tag)}"'
    for start in (match.start() for match in islice(re.finditer(opening, text), _MAX_STARTS)):
        if start < end:
            continue
        fields: dict[str, Any] | None = None
        with contextlib.suppress(ValueError, RecursionError):  # not JSON, a field twice, or a number of thousands of digits
            fields, end = _DECODER.raw_decode(text, start)
        if fields is not None and tag is not None and (list(fields)[-1] != LAST or fields.pop(LAST) != fields.pop(FIRST)):
            fields = None
        if fields is not None or tag is not None:
            yield Object(start, end, fields)


def split_tag(request: str) -> tuple[str, str | None]:
    """The last message of a request without its sentence, and the tag that it asks for, if it does.

    >>> (request,) = asking_for("k7f2q", [Message(role="user", content="How warm was that?")])
    >>> split_tag(request.content)
    ('How warm was that?', 'k7f2q')
    """
    asked = _AT_THE_END.search(request)
    return (request, None) if asked is None else (request[: asked.start()], asked[1])


def tagged(text: str, request: str) -> str:
    """A text whose JSON objects have the tag that the request's last message asks for, if it does: for scripted models.

    >>> (request,) = asking_for("k7f2q", [Message(role="user", content="How warm was that?")])
    >>> tagged('I think {"warmth": 4}.', request.content)
    'I think {"tag": "k7f2q", "warmth": 4, "end": "k7f2q"}.'
    """
    tag = split_tag(request)[1]
    if tag is None:
        return text
    mark, done, parts = json.dumps(tag), 0, []
    for start, end, fields in objects_in(text):
        inner = text[start + 1 : end - 1]
        if fields and FIRST not in fields:
            parts += [text[done : start + 1], f'"{FIRST}": {mark}, {inner}, "{LAST}": {mark}']
            done = end - 1
    return "".join([*parts, text[done:]])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = {name: writable(value) if isinstance(value, str) else value for name, value in pairs}
    if len(fields) < len(pairs):
        raise ValueError("a field occurs twice")
    return fields


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once)  # models write raw line breaks into strings
