"""How a dialogue is told to a simulator model: one block of text that only ever grows at its end.

Shared by the LLM users of all environments. Covers quoting, so that no message can pass for a turn of its own, and the test
whether an answer speaks for the other side. Does not cover what is asked about the dialogue (each environment's prompts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["quoted", "speaks_for", "told"]

_BREAK = re.compile(r"\s*[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")


def quoted(text: str) -> str:
    """A message whose further lines are indented, so that none of them can pass for a turn or a state of its own.

    >>> quoted("No.\\nPerson: yes")
    'No.\\n    | Person: yes'
    """
    return _BREAK.sub("\n    | ", text.strip())


def told(turns: Iterable[tuple[str, str]]) -> str:
    """One line a turn, `Speaker: words`; an empty message is silence.

    >>> print(told([("You", "Well?"), ("Zeynep", "")]))
    You: Well?
    Zeynep: (silence)
    """
    return "\n".join(f"{speaker}: {quoted(text) or '(silence)'}" for speaker, text in turns)


def speaks_for(text: str, *others: str) -> bool:
    """Whether a line of an answer is put into the mouth of one of the others, or of an assistant by whatever name.

    >>> speaks_for("Hm.\\nNPC: I see.", "NPC"), speaks_for("Ask the NPC: it knows.", "NPC")
    (True, False)
    """
    names = "|".join(re.escape(name) for name in ("npc", "assistant", "supporter", "partner", "ai", "chatbot", *others) if name)
    return re.search(rf"^\s*\**({names})\**\s*[:：]", text, re.IGNORECASE | re.MULTILINE) is not None
