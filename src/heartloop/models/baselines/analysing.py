"""The analysis that a scripted supporter writes before its response, where the system prompt asks for both, as PERM's does.

Covers an analysis of the quality of what each supporter then says: `listener` names mixed feelings and a particular that set them
off, `coach` a feeling and the matter, `fixer` the matter, `silent` nothing, the others a label. Feelings are read off the words
of what happened and of what was said, by a list (`phrases.toml`). `garbage` keeps to no form. Does not cover the responses
(`general`, `managing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heartloop.appraisal.lexicon import weight_of
from heartloop.appraisal.words import words_of
from heartloop.core.dialogue import Message
from heartloop.models.baselines.general import at_once
from heartloop.models.baselines.hearing import Heard, Pick, fill, phrases, section

__all__ = ["analysis_of", "asked_to_analyse", "in_two_parts"]


def asked_to_analyse(messages: Sequence[Message]) -> bool:
    """Whether the system prompt asks for an analysis and a response under headings of their own."""
    role = next((message.content for message in messages if message.role == "system"), "")
    return all(re.search(rf"^# {heading}$", role, re.MULTILINE) for heading in ("Analysis", "Response"))


def in_two_parts(name: str, said: str, messages: Sequence[Message], heard: Heard, pick: Pick) -> str:
    """The response under its heading, with an analysis before it.

    A supporter that says one fixed sentence a turn picks one of them, as there is no second turn; no response stays empty.
    """
    if name == "garbage":
        return said
    response = at_once(name, said, pick)
    role = next(message.content for message in messages if message.role == "system")
    return f"# Analysis\n{analysis_of(name, section(role, 'happened'), heard, pick)}\n\n# Response\n{response}"


def analysis_of(name: str, happened: str, heard: Heard, pick: Pick) -> str:
    """What a supporter makes of what happened and of what was said last."""
    first, second = _feelings(f"{happened} {heard.last}")
    kinds = phrases()["analysis"]
    frames: Sequence[str] = kinds[name if name in kinds else "others"]
    details = [*_details(heard.last, happened), kinds["nothing"], kinds["nothing"]]
    return fill(pick.one(frames), a=first[0], c=first[1], b=second[0], d=second[1], r=details[0], s=details[1])


def _feelings(text: str) -> list[Sequence[str]]:
    """The two rows of feelings whose words occur most, each by two near names."""
    low = text.lower()
    rows = phrases()["named"]
    ranked = sorted(rows, key=lambda row: -sum(re.search(rf"\b{re.escape(word)}", low) is not None for word in row["words"]))
    return [row["feelings"] for row in ranked[:2]]


def _details(said: str, happened: str) -> list[str]:
    """One piece of what was said and one of what happened, quoted: of those short enough to be named, the most particular."""
    found = []
    for text in (said, happened):
        pieces = [piece.strip(" ,\"'“”") for piece in re.split(r"[.!?;:]\s+|,\s+(?:and|but|so)\s+|[.!?]$", text)]
        fit = [piece for piece in pieces if 4 <= len(piece.split()) <= 14]
        if fit:
            found.append(f'"{max(fit, key=_told)}"')
    return found


def _told(piece: str) -> float:
    """How much it tells to name this piece."""
    return sum(weight_of(word) for word in words_of(piece))
