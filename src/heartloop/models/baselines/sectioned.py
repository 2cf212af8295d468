"""An answer in sections, where a prompt asks for some under headings of its own, as the role-plays of EQ-Bench3 do.

Covers finding the headings, hearing the scene without the form that follows it, and filling the sections: in the last stands
what the supporter says, in those before an analysis of the quality of what it says (`analysing`). `garbage` keeps to no form.
Does not cover what is said (`general`, `managing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heartloop.core.dialogue import Message
from heartloop.models.baselines.analysing import analysis_of
from heartloop.models.baselines.hearing import Heard, Pick

__all__ = ["in_sections", "sections_asked", "without_form"]

_ASKED = re.compile(r"^# (\S.*?)[ \t]*\n\s*<[^\n]+>[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"^--[ \t]*$", re.MULTILINE)


def sections_asked(messages: Sequence[Message]) -> list[str]:
    """Headings that the last message asks for: each stands alone on its line, and what belongs there follows in angle brackets.

    >>> sections_asked([Message(role="user", content="He laughs.\\n--\\n# I feel\\n\\n<in ten words>\\n\\n# I say\\n<a line>")])
    ['I feel', 'I say']
    """
    return _ASKED.findall(messages[-1].content) if messages and messages[-1].role == "user" else []


def without_form(messages: Sequence[Message]) -> list[Message]:
    """The messages with each scene alone, without the rule and the form below it."""
    return [message.model_copy(update={"content": _scene(message.content)}) for message in messages]


def in_sections(name: str, said: str, headings: Sequence[str], heard: Heard, pick: Pick) -> str:
    """The reply under the last heading, with an analysis under each of the others."""
    if name == "garbage":
        return said
    texts = [*(analysis_of(name, "", heard, pick) for _ in headings[:-1]), said]
    return "\n\n".join(f"# {heading}\n\n{text}" for heading, text in zip(headings, texts, strict=True))


def _scene(text: str) -> str:
    asked = _ASKED.search(text)
    if asked is None:
        return text
    rules = list(_RULE.finditer(text, 0, asked.start()))
    return text[: rules[-1].start() if rules else asked.start()].strip()
