"""A dialogue as one block of text for a user simulator or judge; later turns are only appended.

Shared by the LLM users of all environments. Covers quoting, so that a line of a message cannot be read as another turn, and
detecting that an answer speaks for the other side. Does not cover the prompts (each environment).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat, starmap, zip_longest

__all__ = ["alternating_text", "dialogue_text", "quoted", "speaks_for"]

_BREAK = re.compile(r"\s*[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")


def quoted(text: str) -> str:
    """A message with its further lines indented, so that none of them can be read as a turn or a state.

    >>> quoted("No.\\nPerson: yes")
    'No.\\n    | Person: yes'
    """
    text = text.strip()
    if len(text.splitlines()) < 2:  # the usual case; splits like the pattern and is ten times as fast
        return text
    return _BREAK.sub("\n    | ", text)


def dialogue_text(turns: Iterable[tuple[str, str]]) -> str:
    """One line per turn, `Speaker: words`; an empty message is silence.

    >>> print(dialogue_text([("You", "Well?"), ("Zeynep", "")]))
    You: Well?
    Zeynep: (silence)
    """
    return "\n".join(starmap(_line, turns))


def alternating_text(first: tuple[str, Iterable[str]], second: tuple[str, Iterable[str]]) -> str:
    """The alternating messages of two speakers, one line per turn.

    >>> print(alternating_text(("You", ["Well?", "So?"]), ("Zeynep", ["Hm."])))
    You: Well?
    Zeynep: Hm.
    You: So?
    """
    pairs = zip_longest(*(zip(repeat(speaker), messages) for speaker, messages in (first, second)))
    return dialogue_text(turn for pair in pairs for turn in pair if turn is not None)


@lru_cache(maxsize=4096)  # every turn renders the dialogue again, with the same earlier messages
def _line(speaker: str, text: str) -> str:
    return f"{speaker}: {quoted(text) or '(silence)'}"


def speaks_for(text: str, *others: str) -> bool:
    """Whether a line of an answer is marked as spoken by one of `others`, or by an assistant.

    >>> speaks_for("Hm.\\nNPC: I see.", "NPC"), speaks_for("Ask the NPC: it knows.", "NPC")
    (True, False)
    """
    return _speaker_pattern(others).search(text) is not None


@lru_cache(maxsize=4096)
def _speaker_pattern(others: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(name) for name in ("npc", "assistant", "supporter", "partner", "ai", "chatbot", *others) if name)
    return re.compile(rf"^\s*\**({names})\**\s*[:：]", re.IGNORECASE | re.MULTILINE)
