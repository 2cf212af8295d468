"""How long replies are, turn by turn: a line a model, told apart by number and dashes, not by colour alone.

Pure: numbers in, pixels out. Does not cover the means themselves (`scores`) or markup (`templates/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.analysis.card import ModelScore

__all__ = ["LengthLine", "Lengths", "lengths_of"]

_DASHES = ("", "7 4", "2 4", "9 3 2 3")


class LengthLine(NamedTuple):
    """One model: its number in the table, its path, its dashes, where its number stands, and its colour."""

    number: int
    score: ModelScore
    path: str
    dashes: str
    x: float
    y: float
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


def lengths_of(rows: Sequence[ModelScore], *, width: float = 760.0, height: float = 260.0) -> Lengths | None:
    """The lines of the models with a scored dialogue; `None` without any."""
    told = [(colour, row) for colour, row in enumerate(rows) if row.reply_lengths]
    if not told:
        return None
    turns = max(len(row.reply_lengths) for _, row in told)
    most = max(at.characters for _, row in told for at in row.reply_lengths)
    step = next(unit for unit in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**7) if unit * 5 >= most)
    top, left, right, bottom = 12.0, 52.0, width - 34.0, height - 40.0

    def x(turn: int) -> float:
        return round(left + (right - left) * (turn / (turns - 1) if turns > 1 else 0.5), 1)

    def y(characters: float) -> float:
        return round(bottom - (bottom - top) * characters / (step * 5), 1)

    lines = []
    for number, (colour, row) in enumerate(told, start=1):
        points = [(x(turn), y(at.characters)) for turn, at in enumerate(row.reply_lengths)]
        path = "M" + "L".join(f"{px:g} {py:g}" for px, py in points)
        lines.append(LengthLine(number, row, path, _DASHES[(number - 1) % len(_DASHES)], *points[-1], colour))
    return Lengths(
        width, height, left, right, bottom, turns, _apart(lines),
        ticks_x=[(x(turn), turn + 1) for turn in range(turns)],
        ticks_y=[(y(step * n), step * n) for n in range(6)],
    )  # fmt: skip


def _apart(lines: Sequence[LengthLine]) -> list[LengthLine]:
    """Numbers that end at one turn are moved apart, downwards, where they would overlap."""
    placed: list[LengthLine] = []
    for line in sorted(lines, key=lambda one: one.y):
        below = [other.y + 13.0 for other in placed if other.x == line.x]
        placed.append(line._replace(y=round(max([line.y, *below]), 1)))
    return sorted(placed, key=lambda one: one.number)
