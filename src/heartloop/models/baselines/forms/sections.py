"""An answer in sections, where the last message asks for some under headings (the role-plays of EQ-Bench3).

Covers finding the headings, reading the scene without the form below it, and filling the sections: the last holds the reply, the
others an analysis (`two_parts`). `garbage` ignores the form. Does not cover the reply (`general`, `managing`, `counsellor`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heartloop.core.dialogue import Message
from heartloop.models.baselines.forms.two_parts import analyses_of
from heartloop.models.baselines.text import Context, Pick

__all__ = ["in_sections", "requested_sections", "without_form"]

_HEADING = re.compile(r"^# (\S.*?)[ \t]*\n\s*<[^\n]+>[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"^--[ \t]*$", re.MULTILINE)


def requested_sections(messages: Sequence[Message]) -> list[str]:
    """Headings that the last message asks for: each alone on its line, followed by a description in angle brackets.

    >>> scene = "He laughs.\\n--\\n# I feel\\n\\n<in ten words>\\n\\n# I say\\n<a line>"
    >>> requested_sections([Message(role="user", content=scene)])
    ['I feel', 'I say']
    """
    return _HEADING.findall(messages[-1].content) if messages and messages[-1].role == "user" else []


def without_form(messages: Sequence[Message]) -> list[Message]:
    """The messages without the forms, and the rules above them, that follow each scene."""
    return [message.model_copy(update={"content": _scene(message.content)}) for message in messages]


def in_sections(name: str, reply: str, headings: Sequence[str], context: Context, pick: Pick) -> str:
    """The reply under the last heading, with an analysis under each of the others."""
    if name == "garbage":
        return reply
    analyses = analyses_of(name, context, pick)
    texts = [*(analyses[place % len(analyses)] for place in range(len(headings) - 1)), reply]
    return "\n\n".join(f"# {heading}\n\n{text}" for heading, text in zip(headings, texts, strict=True))


def _scene(text: str) -> str:
    form = _HEADING.search(text)
    if form is None:
        return text
    rules = list(_RULE.finditer(text, 0, form.start()))
    return text[: rules[-1].start() if rules else form.start()].strip()
