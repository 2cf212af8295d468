"""What a scripted supporter makes of memory, where the system prompt holds notes of earlier talks, as daily conversation's does.

Covers one thing out of a note or a noted day, brought in by `listener` and `coach` where it has words in common with what was
just said; the others bring in nothing. They know nothing of what a memory is to the query, so they are sometimes wrong. Does not
cover the rest of what is said (`general`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.dialogue import Message
from heartloop.models.baselines.hearing import Pick, fill, phrases, section

__all__ = ["asked_to_remember", "with_memory"]

_THINGS = re.compile(  # with what follows a whole one
    r"\b(the|his|her|their|a|an)\s+((?:[a-z'-]{3,}\s)?[^\W\d_]{4,})(?=[.,;:!?]|\s(?:of|in|at|for|on|to|with|and|from|that|who|by|is|was)\b)"
)
_STEM = 5  # letters by which two words count as the same


class _Kept(NamedTuple):
    """A line of memory."""

    kind: str
    """`notes` or `days`, as the phrases have it."""
    text: str


def asked_to_remember(messages: Sequence[Message]) -> bool:
    """Whether the system prompt holds notes of earlier talks."""
    return bool(section(_role(messages), "earlier talks"))


def with_memory(name: str, said: str, messages: Sequence[Message], last: str, pick: Pick) -> str:
    """What is said, with one thing remembered after its first sentence where this supporter remembers and something fits."""
    table = phrases()["remember"]
    if name not in table["who"]:
        return said
    kept = _nearest(_role(messages), last)
    thing = _thing(kept.text, last) if kept is not None else ""
    if kept is None or not thing:
        return said
    first, *rest = re.split(r"(?<=[.!?])\s+", said, maxsplit=1)
    return " ".join([first, fill(pick.one(table[kept.kind]), thing=thing), *rest])


def _role(messages: Sequence[Message]) -> str:
    return next((message.content for message in messages if message.role == "system"), "")


def _nearest(role: str, last: str) -> _Kept | None:
    """The line of memory with most words in common with the last message; `None` where none has one."""
    lines = [
        _Kept(kind, line)
        for kind, heading in (("notes", "earlier talks"), ("days", "noted"))
        for line in re.findall(r"^- [^:]+: (.+)$", section(role, heading), re.MULTILINE)
    ]
    heard = _stems(last)
    best = max(lines, key=lambda kept: len(_stems(kept.text) & heard), default=None)
    return best if best is not None and _stems(best.text) & heard else None


def _stems(text: str) -> frozenset[str]:
    """Words that tell something, cut short."""
    common = frozenset(phrases()["words"]["not_things"].split()) | frozenset(phrases()["remember"]["common"].split())
    return frozenset(word[:_STEM] for word in re.findall(r"[^\W\d_]{4,}", text.lower()) if word not in common)


def _thing(text: str, last: str) -> str:
    """Something that the line names and the message does not, turned to "you"; empty where there is none."""
    heard = _stems(last)
    common = frozenset(phrases()["remember"]["common"].split())
    for article, words in _THINGS.findall(text):
        told = words.lower().split()
        if not common & set(told) and not _stems(words) & heard:
            return f"{'your' if article in ('his', 'her', 'their') else 'the'} {words}"
    return ""
