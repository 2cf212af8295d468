"""A reply that takes up a note of earlier dialogues, where the system prompt holds such notes (daily conversation).

Covers `listener` and `coach`, which mention one thing of a note or a noted day that shares words with the last message; the other
baselines mention none. They do not know what the note means to this message, so they are sometimes wrong. Does not cover the rest
of the reply (`general`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.dialogue import Message
from heartloop.models.baselines.text import Pick, fill, phrases, section

__all__ = ["has_notes", "with_note"]

_THINGS = re.compile(  # the lookahead excludes half of a longer phrase
    r"\b(the|his|her|their|a|an)\s+((?:[a-z'-]{3,}\s)?[^\W\d_]{4,})(?=[.,;:!?]|\s(?:of|in|at|for|on|to|with|and|from|that|who|by|is|was)\b)"
)
_STEM = 5  # letters by which two words count as equal


class _Note(NamedTuple):
    """A line of the notes."""

    kind: str
    """`notes` or `days`: a table of the phrases."""
    text: str


def has_notes(messages: Sequence[Message]) -> bool:
    """Whether the system prompt holds notes of earlier dialogues."""
    return bool(section(_role(messages), "earlier talks"))


def with_note(name: str, reply: str, messages: Sequence[Message], last: str, pick: Pick) -> str:
    """The reply with a mention of a note after its first sentence, where this baseline uses notes and one fits."""
    table = phrases()["remember"]
    if name not in table["who"]:
        return reply
    note = _nearest(_role(messages), last)
    thing = _thing(note.text, last) if note is not None else ""
    if note is None or not thing:
        return reply
    first, *rest = re.split(r"(?<=[.!?])\s+", reply, maxsplit=1)
    return " ".join([first, fill(pick.one(table[note.kind]), thing=thing), *rest])


def _role(messages: Sequence[Message]) -> str:
    return next((message.content for message in messages if message.role == "system"), "")


def _nearest(role: str, last: str) -> _Note | None:
    """The note that shares most words with the last message; `None` where none shares one."""
    lines = [
        _Note(kind, line)
        for kind, heading in (("notes", "earlier talks"), ("days", "noted"))
        for line in re.findall(r"^- [^:]+: (.+)$", section(role, heading), re.MULTILINE)
    ]
    stems = _stems(last)
    best = max(lines, key=lambda note: len(_stems(note.text) & stems), default=None)
    return best if best is not None and _stems(best.text) & stems else None


def _stems(text: str) -> frozenset[str]:
    """First letters of the content words."""
    common = frozenset(phrases()["words"]["not_things"].split()) | frozenset(phrases()["remember"]["common"].split())
    return frozenset(word[:_STEM] for word in re.findall(r"[^\W\d_]{4,}", text.lower()) if word not in common)


def _thing(text: str, last: str) -> str:
    """A thing that the note names and the message does not, turned to "you"; empty without one."""
    stems = _stems(last)
    common = frozenset(phrases()["remember"]["common"].split())
    for article, words in _THINGS.findall(text):
        if not common & set(words.lower().split()) and not _stems(words) & stems:
            return f"{'your' if article in ('his', 'her', 'their') else 'the'} {words}"
    return ""
