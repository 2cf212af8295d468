"""Score against tokens: where each model's point, interval and name lie in the picture.

Pure: numbers in, pixels out. A point carries the number of its line in the table behind the picture, so that it is told
apart without colour; a name stands beside it where there is room. Does not cover the sums (`scores`) or markup (`templates/`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Mark", "Point", "Scatter", "scatter"]

_RADIUS = 9.0
_LETTER = 6.3  # pixels; a mean letter of 12 px sans-serif
_LINE = 14.0
_SPREAD = 6.0
"""Where the largest number of tokens is so many times the median or more, the axis is logarithmic."""
_LONGEST_NAME = 24


class Point(NamedTuple):
    """A model in the picture: `number` is its line in the table; tokens are completion tokens a dialogue, the mean."""

    number: int
    name: str
    tokens: float
    mean: float
    low: float | None
    high: float | None
    colour: int


class Mark(NamedTuple):
    """A point in pixels; `label` is empty where its name found no room or would not tell it apart."""

    point: Point
    x: float
    y: float
    low: float | None
    high: float | None
    label: str
    label_x: float
    label_y: float
    anchor: str


class Scatter(NamedTuple):
    """The picture: its size, its marks, its ticks as (pixel, words), and whether the token axis is logarithmic."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    logarithmic: bool
    marks: list[Mark]
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, int]]
    start: float


def scatter(
    points: Sequence[Point],
    *,
    start: float,
    lowest: float = 0.0,
    highest: float = 100.0,
    width: float = 1060.0,
    height: float = 380.0,
    names: bool = True,
) -> Scatter:
    """The picture of some models.

    Args:
        points: scores in [lowest, highest], tokens from 0; on a logarithmic axis fewer than 1 token counts as 1.
        start: points before the first reply, drawn as a line.
        names: whether to write names beside points; without, the table tells which number is whose.
    """
    left, top, right, bottom = 40.0, 14.0, width - 26.0, height - 42.0
    tokens = [point.tokens for point in points]
    most = max(tokens, default=0.0)
    logarithmic = most >= _SPREAD * max(1.0, statistics.median(tokens)) if tokens else False
    ticks = _decades(min(tokens), most) if logarithmic else _steps(most, 4 if width < 500 else 8)
    first, last = (math.log10(ticks[0]), math.log10(ticks[-1])) if logarithmic else (0.0, ticks[-1])

    def x(value: float) -> float:
        at = math.log10(max(1.0, value)) if logarithmic else value
        return round(left + (right - left) * (at - first) / ((last - first) or 1.0), 1)

    def y(value: float) -> float:
        return round(top + (bottom - top) * (highest - value) / (highest - lowest), 1)

    at = {point: (x(point.tokens), y(point.mean)) for point in points}
    taken = [(px - _RADIUS, py - _RADIUS, px + _RADIUS, py + _RADIUS) for px, py in at.values()]
    names_short = [_short(point.name) for point in points]
    marks: list[Mark] = []
    for point, short in zip(points, names_short, strict=True):
        px, py = at[point]
        name = short if names and names_short.count(short) == 1 else ""
        label, label_x, label_y, anchor = _place(name, px, py, (left, top, right, bottom), taken)
        low = None if point.low is None else y(point.low)
        high = None if point.high is None else y(point.high)
        marks.append(Mark(point, px, py, low, high, label, label_x, label_y, anchor))
    return Scatter(
        width, height, left, top, right, bottom, logarithmic, marks,
        ticks_x=[(x(tick), _thousands(tick)) for tick in ticks],
        ticks_y=[(y(value), value) for value in _levels(lowest, highest)],
        start=y(start),
    )  # fmt: skip


_Box = tuple[float, float, float, float]


def _place(name: str, px: float, py: float, frame: _Box, taken: list[_Box]) -> tuple[str, float, float, str]:
    """The first of right, left, above, below at which the name covers nothing; what it covers then is taken."""
    if not name:
        return "", px, py, "middle"
    wide, gap = _LETTER * len(name), _RADIUS + 5.0
    for box, anchor, at in (
        ((px + gap, py - _LINE / 2, px + gap + wide, py + _LINE / 2), "start", px + gap),
        ((px - gap - wide, py - _LINE / 2, px - gap, py + _LINE / 2), "end", px - gap),
        ((px - wide / 2, py - gap - _LINE, px + wide / 2, py - gap), "middle", px),
        ((px - wide / 2, py + gap, px + wide / 2, py + gap + _LINE), "middle", px),
    ):
        inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]
        if inside and not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
            taken.append(box)
            return name, round(at, 1), round((box[1] + box[3]) / 2 + 4.2, 1), anchor
    return "", px, py, "middle"


def _short(name: str) -> str:
    """The name without its service; of a long one both ends, since versions stand at the end.

    >>> _short("service/a-model-with-a-very-long-name-and-a-date-2026")
    'a-model-with…-a-date-2026'
    """
    last = name.rsplit("/", 1)[-1] or name
    half = _LONGEST_NAME // 2
    return last if len(last) <= _LONGEST_NAME else f"{last[:half]}…{last[-half:]}"


def _steps(most: float, wanted: int) -> list[float]:
    """Round numbers from 0 to just above the largest.

    >>> _steps(456, 8)
    [0, 100, 200, 300, 400, 500]
    """
    rough = max(most, 1.0) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    step = max(1.0, step)
    return [round(step * n) for n in range(math.ceil(max(most, 1.0) / step) + 1)]


def _levels(lowest: float, highest: float) -> list[int]:
    """Even steps from the lowest to the highest points that meet 0.

    >>> _levels(0, 100), _levels(-100, 100)
    ([0, 20, 40, 60, 80, 100], [-100, -50, 0, 50, 100])
    """
    steps = 4 if lowest < 0 else 5
    return [round(lowest + (highest - lowest) * n / steps) for n in range(steps + 1)]


def _decades(least: float, most: float) -> list[float]:
    """Powers of ten around the values.

    >>> _decades(30, 4000)
    [10, 100, 1000, 10000]
    """
    low, high = math.floor(math.log10(max(1.0, least))), math.ceil(math.log10(max(10.0, most)))
    return [10**power for power in range(low, max(high, low + 1) + 1)]


def _thousands(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")
