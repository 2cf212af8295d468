"""The baseline `counsellor`: what was written for this line of this person.

Covers the replies in `written/counsellor.jsonl` (data card: data/counsellor/README.md), keyed by the line that they answer. A
dialogue is of a known person if its first message, or else its system prompt, contains the first line written for that person.
Where nothing was written for the last message, or it was said already, the reply is the reflector's: so it is in every dialogue
with another person. Does not cover the wording of the reflector (`general`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from heartloop.models.baselines.general import reflector
from heartloop.models.baselines.text import Context, Pick

__all__ = ["Written", "counsellor", "written_for", "written_scenarios"]


class Written(NamedTuple):
    """What was written for a line."""

    reply: str
    analysis: str
    """For an answer in two parts; empty where the reply is the whole answer."""


def counsellor(context: Context, pick: Pick) -> str:
    """The written reply; the reflector's where there is none."""
    written = written_for(context)
    return reflector(context, pick) if written is None else written.reply


def written_for(context: Context) -> Written | None:
    """What was written for the last message, or for opening the dialogue; `None` without it, or where it was said already.

    The last message may begin with an acknowledgement: of the lines that it contains the longest counts.
    """
    lines = _lines_of(context)
    text = context.last or context.prompt
    known = max((line for line in lines if line in text), key=len, default=None)
    if known is None or any(lines[known].reply in reply for reply in context.replies):
        return None
    return lines[known]


def _lines_of(context: Context) -> Mapping[str, Written]:
    """The lines of the person in this dialogue; none of an unknown person."""
    people = _people()
    if context.messages and context.messages[0] in people:
        return people[context.messages[0]]
    for text in (*context.messages[:1], context.prompt):
        opening = next((opening for opening in people if opening in text), None)
        if opening is not None:
            return people[opening]
    return {}


def written_scenarios() -> frozenset[str]:
    """Ids of the scenarios whose lines have written replies."""
    return frozenset(_scenarios())


@functools.cache
def _people() -> Mapping[str, Mapping[str, Written]]:
    """The lines of each person, by the first one, which opens the dialogue or tells the policy its role."""
    return {next(iter(lines)): lines for lines in _scenarios().values()}


@functools.cache
def _scenarios() -> Mapping[str, Mapping[str, Written]]:
    """The lines of each scenario."""
    scenarios: dict[str, dict[str, Written]] = {}
    for text in (resources.files(__package__) / "written" / "counsellor.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        scenarios.setdefault(row["scenario"], {})[row["line"]] = Written(row["reply"], row.get("analysis", ""))
    return scenarios
