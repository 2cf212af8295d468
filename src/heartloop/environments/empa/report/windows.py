"""A judged window of EMPA as the browser shows it: levels with their quotes found in what was said, energy, the director's call.

Pure: a transcript in, JSON values out, with every text made printable. A place is a turn, whether it is the reply or the person's
message, and the first and last character, counted as the browser counts them (UTF-16). Does not cover whether a judgement is
right, nor how it looks (`panel.js`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.empa.scoring import AXES, form_keys
from heartloop.environments.quotes import spans_of

__all__ = ["journey"]


def journey(transcript: Transcript) -> dict[str, Any]:
    """Start, distance and windows of an EMPA dialogue; nothing where no start is kept."""
    if not set(AXES) <= transcript.start.keys():
        return {}
    start = [transcript.start[axis] for axis in AXES]
    said = [printable(turn.reply) for turn in transcript.turns]
    answered = [printable(transcript.opening or ""), *(printable(turn.message or "") for turn in transcript.turns)]
    windows = [_window(turn, said, answered) for turn in transcript.turns]
    return {
        "start": [short_number(value) for value in start],
        "window": int(found) if (found := transcript.facts.get("window", "1")).isdecimal() else 1,
        "lacking": round(float(np.linalg.norm(start)), 2),
        "windows": windows,
    }


def _window(turn: Turn, said: Sequence[str], answered: Sequence[str]) -> dict[str, Any] | None:
    """What was judged after a turn; `None` where nothing was."""
    levels = turn.evidence.get("levels")
    if turn.state is None or not isinstance(levels, Mapping):
        return None
    quotes, reasons = (printable_texts(turn.evidence.get(name)) for name in ("quotes", "reasons"))
    claims = []
    for key in form_keys():
        level = levels.get(key)
        if not isinstance(level, int) or not level:
            continue
        quote = quotes.get(key, "")
        claims.append([key, level, quote, reasons.get(key, ""), _places(quote, turn.index, said, answered)])
    numbers = [turn.evidence.get(name) for name in ("energy", "alignment", "total")]
    found: dict[str, Any] = {
        "at": [short_number(turn.state.get(axis, 0.0)) for axis in AXES],
        "claims": claims,
        "numbers": [round(value, 2) if isinstance(value, (int, float)) and abs(value) < 1e9 else None for value in numbers],
    }
    act = turn.evidence.get("director")
    if isinstance(act, Mapping):
        found["act"] = [printable_texts(act).get(name, "") for name in ("function", "argument", "note", "reason")]
    return found


def _places(quote: str, turn: int, said: Sequence[str], answered: Sequence[str]) -> list[list[Any]]:
    """Where a quote stands: in the latest reply that has it, else in the latest message of the person before it."""
    if not quote:
        return []
    for kind, texts in (("reply", said[: turn + 1]), ("message", answered[: turn + 1])):
        for at in range(len(texts) - 1, -1, -1):
            if spans := spans_of(quote, texts[at]):
                place = at if kind == "reply" else at - 1  # message -1 is the opening
                return [[kind, place, utf16_place(texts[at], first), utf16_place(texts[at], last)] for first, last in spans]
    return []
