"""An analysis before the response, where the system prompt asks for both (PERM).

Covers an analysis as good as the baseline: `listener` names mixed feelings and what set them off, `coach` a feeling and the
topic, `fixer` the topic, `silent` nothing, the others a label. Feelings are read by a word list (`phrases.toml`). `garbage`
ignores the form. Does not cover the responses (`general`, `managing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heartloop.appraisal.lexicon import weight_of
from heartloop.appraisal.words import words_of
from heartloop.core.dialogue import Message
from heartloop.models.baselines.general import in_one_turn
from heartloop.models.baselines.text import Context, Pick, fill, phrases, section

__all__ = ["analysis_of", "in_two_parts", "wants_two_parts"]


def wants_two_parts(messages: Sequence[Message]) -> bool:
    """Whether the system prompt asks for an analysis and a response, each under its heading."""
    role = next((message.content for message in messages if message.role == "system"), "")
    return all(re.search(rf"^# {heading}$", role, re.MULTILINE) for heading in ("Analysis", "Response"))


def in_two_parts(name: str, reply: str, messages: Sequence[Message], context: Context, pick: Pick) -> str:
    """The reply under the heading of the response, after an analysis; the dialogue has one turn (`in_one_turn`)."""
    if name == "garbage":
        return reply
    response = in_one_turn(name, reply, pick)
    role = next(message.content for message in messages if message.role == "system")
    return f"# Analysis\n{analysis_of(name, section(role, 'happened'), context, pick)}\n\n# Response\n{response}"


def analysis_of(name: str, happened: str, context: Context, pick: Pick) -> str:
    """The baseline's analysis of what happened and of the last message."""
    first, second = _feelings(f"{happened} {context.last}")
    kinds = phrases()["analysis"]
    frames: Sequence[str] = kinds[name if name in kinds else "others"]
    details = [*_details(context.last, happened), kinds["nothing"], kinds["nothing"]]
    return fill(pick.one(frames), a=first[0], c=first[1], b=second[0], d=second[1], r=details[0], s=details[1])


def _feelings(text: str) -> list[Sequence[str]]:
    """The two rows of feelings whose words occur most; each row is a pair of close synonyms."""
    low = text.lower()
    rows = phrases()["named"]
    ranked = sorted(rows, key=lambda row: -sum(re.search(rf"\b{re.escape(word)}", low) is not None for word in row["words"]))
    return [row["feelings"] for row in ranked[:2]]


def _details(message: str, happened: str) -> list[str]:
    """The most specific short piece of the message and of what happened, each quoted."""
    details = []
    for text in (message, happened):
        pieces = [piece.strip(" ,\"'“”") for piece in re.split(r"[.!?;:]\s+|,\s+(?:and|but|so)\s+|[.!?]$", text)]
        fit = [piece for piece in pieces if 4 <= len(piece.split()) <= 14]
        if fit:
            details.append(f'"{max(fit, key=_specificity)}"')
    return details


def _specificity(piece: str) -> float:
    return sum(weight_of(word) for word in words_of(piece))
