"""JSON data of one EMPA dialogue for the browser: levels with the places of their quotes, energies, director calls.

Texts are made printable. A place is `reply` or `message` (of the user), the turn, and the first and last character,
counted in UTF-16 units as in the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.empa.scoring import AXES, form_keys

__all__ = ["journey"]


def journey(transcript: Transcript) -> dict[str, Any]:
    """Start, distance and windows of an EMPA dialogue; empty if the transcript has no start."""
    if not set(AXES) <= transcript.start.keys():
        return {}
    start = [transcript.start[axis] for axis in AXES]
    replies = [printable(turn.reply) for turn in transcript.turns]
    messages = [printable(transcript.opening or ""), *(printable(turn.message or "") for turn in transcript.turns)]
    windows = [_window(turn, replies, messages) for turn in transcript.turns]
    return {
        "start": [short_number(value) for value in start],
        "window": int(size) if (size := transcript.facts.get("window", "1")).isdecimal() else 1,
        "lacking": round(float(np.linalg.norm(start)), 2),
        "windows": windows,
    }


def _window(turn: Turn, replies: Sequence[str], messages: Sequence[str]) -> dict[str, Any] | None:
    """The judgement after a turn; `None` if there is none."""
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
        claims.append([key, level, quote, reasons.get(key, ""), _places(quote, turn.index, replies, messages)])
    numbers = [turn.evidence.get(name) for name in ("energy", "alignment", "total")]
    window: dict[str, Any] = {
        "at": [short_number(turn.state.get(axis, 0.0)) for axis in AXES],
        "claims": claims,
        "numbers": [round(value, 2) if isinstance(value, (int, float)) and abs(value) < 1e9 else None for value in numbers],
    }
    act = turn.evidence.get("director")
    if isinstance(act, Mapping):
        window["act"] = [printable_texts(act).get(name, "") for name in ("function", "argument", "note", "reason")]
    return window


def _places(quote: str, turn: int, replies: Sequence[str], messages: Sequence[str]) -> list[list[Any]]:
    """Places of a quote: in the latest reply that contains it, else in the latest message of the user before it."""
    if not quote:
        return []
    for kind, texts in (("reply", replies[: turn + 1]), ("message", messages[: turn + 1])):
        for at in range(len(texts) - 1, -1, -1):
            if spans := spans_of(quote, texts[at]):
                place = at if kind == "reply" else at - 1  # message -1 is the opening
                return [[kind, place, utf16_place(texts[at], first), utf16_place(texts[at], last)] for first, last in spans]
    return []
