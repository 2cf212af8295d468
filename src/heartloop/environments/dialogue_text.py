"""How a dialogue is told to a simulator model: one block of text that only ever grows at its end.

Shared by the LLM users of all environments. Covers quoting, so that no message can pass for a turn of its own, and the test
whether an answer speaks for the other side. Does not cover what is asked about the dialogue (each environment's prompts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat, starmap, zip_longest

__all__ = ["alternating_text", "dialogue_text", "quoted", "speaks_for"]

_BREAK = re.compile(r"\s*[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")


def quoted(text: str) -> str:
    """A message whose further lines are indented, so that none of them can pass for a turn or a state of its own.

    >>> quoted("No.\\nPerson: yes")
    'No.\\n    | Person: yes'
    """
    text = text.strip()
    if len(text.splitlines()) < 2:  # as nearly every message; it splits where the pattern does, and is ten times as fast
        return text
    return _BREAK.sub("\n    | ", text)


def dialogue_text(turns: Iterable[tuple[str, str]]) -> str:
    """One line a turn, `Speaker: words`; an empty message is silence.

    >>> print(dialogue_text([("You", "Well?"), ("Zeynep", "")]))
    You: Well?
    Zeynep: (silence)
    """
    return "\n".join(starmap(_line, turns))


def alternating_text(first: tuple[str, Iterable[str]], second: tuple[str, Iterable[str]]) -> str:
    """Two speakers with their messages, one after the other.

    >>> print(alternating_text(("You", ["Well?", "So?"]), ("Zeynep", ["Hm."])))
    You: Well?
    Zeynep: Hm.
    You: So?
    """
    pairs = zip_longest(*(zip(repeat(speaker), messages) for speaker, messages in (first, second)))
    return dialogue_text(turn for pair in pairs for turn in pair if turn is not None)


@lru_cache(maxsize=4096)  # a talk is told anew every turn, its messages stay
def _line(speaker: str, text: str) -> str:
    return f"{speaker}: {quoted(text) or '(silence)'}"


def speaks_for(text: str, *others: str) -> bool:
    """Whether a line of an answer is put into the mouth of one of the others, or of an assistant by whatever name.

    >>> speaks_for("Hm.\\nNPC: I see.", "NPC"), speaks_for("Ask the NPC: it knows.", "NPC")
    (True, False)
    """
    return _putting(others).search(text) is not None


@lru_cache(maxsize=4096)
def _putting(others: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(name) for name in ("npc", "assistant", "supporter", "partner", "ai", "chatbot", *others) if name)
    return re.compile(rf"^\s*\**({names})\**\s*[:：]", re.IGNORECASE | re.MULTILINE)
