"""Length of replies by turn: a line for each model, distinguished by number and dashes, not by colour alone.

Pure: numbers in, pixels out. Does not cover the means themselves (`scores`) or markup (`templates/`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.evaluation.scores import ModelScore

__all__ = ["COLOURS", "LengthLine", "Lengths", "dashes_of", "lengths_of"]

_DASHES = ("", "7 4", "2 4", "9 3 2 3")
COLOURS = 8
"""Model colours of the style sheet, after which they begin anew."""


class LengthLine(NamedTuple):
    """One model: its number in the table, its path, its dashes, where its line ends and its number stands, and its colour."""

    number: int
    score: ModelScore
    path: str
    dashes: str
    x: float
    end: float
    """Height at which the line ends."""
    y: float
    """Height of its number, moved away from its neighbours."""
    colour: int


class Lengths(NamedTuple):
    """The picture: its size, its lines, its ticks as (pixel, words)."""

    width: float
    height: float
    left: float
    right: float
    bottom: float
    turns: int
    lines: list[LengthLine]
    ticks_x: list[tuple[float, int]]
    ticks_y: list[tuple[float, int]]


def lengths_of(rows: Sequence[ModelScore], *, width: float = 1060.0, height: float = 300.0) -> Lengths | None:
    """The lines of the models with a scored dialogue; `None` without any."""
    with_lengths = [(colour, row) for colour, row in enumerate(rows) if row.reply_lengths]
    if not with_lengths:
        return None
    turns = max(len(row.reply_lengths) for _, row in with_lengths)
    most = max(at.characters for _, row in with_lengths for at in row.reply_lengths)
    step = _step(most)
    top, left, right, bottom = 12.0, 52.0, width - 44.0, height - 40.0

    def x(turn: int) -> float:
        return round(left + (right - left) * (turn / (turns - 1) if turns > 1 else 0.5), 1)

    def y(characters: float) -> float:
        return round(bottom - (bottom - top) * characters / (step * 5), 1)

    lines = []
    for number, (colour, row) in enumerate(with_lengths, start=1):
        points = [(x(turn), y(at.characters)) for turn, at in enumerate(row.reply_lengths)]
        path = "M" + "L".join(f"{px:g} {py:g}" for px, py in points)
        last_x, last_y = points[-1]
        lines.append(LengthLine(number, row, path, dashes_of(colour), last_x, last_y, last_y, colour))
    return Lengths(
        width, height, left, right, bottom, turns, _apart(lines, bottom),
        ticks_x=[(x(turn), turn + 1) for turn in range(turns)],
        ticks_y=[(y(step * n), step * n) for n in range(6)],
    )  # fmt: skip


def dashes_of(place: int) -> str:
    """Dashes of the line at a place: until both have begun anew, no two lines share colour and dashes."""
    return _DASHES[(place + place // COLOURS) % len(_DASHES)]


def _step(most: float) -> int:
    """A round fifth of an axis that takes in the largest value.

    >>> _step(260), _step(3)
    (60, 1)
    """
    size = int(10 ** math.floor(math.log10(max(1.0, most / 5))))
    return next(n * size for n in (1, 2, 3, 4, 5, 6, 8, 10, 20) if n * size * 5 >= most)


def _apart(lines: Sequence[LengthLine], bottom: float) -> list[LengthLine]:
    """Numbers that end at one turn are moved apart where they would overlap: up from the axis, each above the one below."""
    placed: list[LengthLine] = []
    for line in sorted(lines, key=lambda one: -one.y):
        taken = [other.y - 13.0 for other in placed if other.x == line.x]
        placed.append(line._replace(y=round(min([line.y, bottom, *taken]), 1)))
    return sorted(placed, key=lambda one: one.number)
