"""A `Chart` block in pixels: points, lines or bars over one pair of axes, with intervals.

Pure: a block in, numbers out. Does not cover markup (`templates/blocks.html`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from heartloop.core.blocks import Chart
from heartloop.report.lengths import dashes_of

__all__ = ["Drawn", "DrawnSeries", "Mark", "drawn"]

_TICKS = 5


class Mark(NamedTuple):
    """A point; `low` and `high` are the ends of its interval."""

    x: float
    y: float
    low: float | None
    high: float | None


class DrawnSeries(NamedTuple):
    """A series; `path` is empty where its points are not joined."""

    name: str
    colour: int
    marks: list[Mark]
    path: str
    dashes: str


class Drawn(NamedTuple):
    """The chart: its frame, its series, and ticks as (pixel, words)."""

    width: float
    height: float
    left: float
    right: float
    bottom: float
    zero: float
    """Height from which bars rise."""
    bar: float
    """Width of a bar."""
    series: list[DrawnSeries]
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]


def drawn(chart: Chart, *, width: float = 720.0, height: float = 320.0) -> Drawn:
    """The chart in pixels."""
    left, top, right, bottom = 52.0, 14.0, width - 20.0, height - 44.0
    values = [value for one in chart.series for p in one.points for value in (p.y, p.low, p.high) if value is not None]
    low = chart.low if chart.low is not None else min([0.0, *values])
    high = chart.high if chart.high is not None else max([*values, low + 1.0])
    places = [p.x for one in chart.series for p in one.points]
    words = list(dict.fromkeys(str(p) for p in places if chart.form == "bars" or isinstance(p, str)))
    numbers = [float(p) for p in places if not isinstance(p, str)]
    first = chart.x_low if chart.x_low is not None else min(numbers, default=0.0)
    last = chart.x_high if chart.x_high is not None else max(numbers, default=1.0)
    slot = (right - left) / max(1, len(words))

    def x(value: float | str) -> float:
        if words:
            return left + slot * (words.index(str(value)) + 0.5)
        return left + (right - left) * (min(last, max(first, float(value))) - first) / ((last - first) or 1.0)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (min(high, max(low, value)) - low) / (high - low), 1)

    bar = round(0.8 * slot / max(1, len(chart.series)), 1)
    series = []
    for place, one in enumerate(chart.series):
        beside = bar * (place - (len(chart.series) - 1) / 2) if chart.form == "bars" else 0.0
        marks = [
            Mark(round(x(p.x) + beside, 1), y(p.y), None if p.low is None else y(p.low), None if p.high is None else y(p.high))
            for p in one.points
        ]
        path = "M" + "L".join(f"{mark.x:g} {mark.y:g}" for mark in marks) if chart.form == "lines" and marks else ""
        series.append(DrawnSeries(one.name, place if one.model is None else one.model, marks, path, dashes_of(place)))
    step = _step((high - low) / _TICKS)
    ticks_y = [(y(n * step), f"{n * step:g}") for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    across = _step((last - first) / 8 or 1.0)
    ticks_x = (
        [(round(x(word), 1), word) for word in words]
        if words
        else [
            (round(x(n * across), 1), f"{n * across:g}") for n in range(math.ceil(first / across), math.floor(last / across) + 1)
        ]
    )
    return Drawn(width, height, left, right, bottom, y(max(low, min(high, 0.0))), bar, series, ticks_x, ticks_y)


def _step(size: float) -> float:
    """The round number at or above a size.

    >>> _step(0.3), _step(17)
    (0.5, 20.0)
    """
    unit = 10.0 ** math.floor(math.log10(size))
    return next(factor * unit for factor in (1.0, 2.0, 5.0, 10.0) if factor * unit >= size * (1 - 1e-9))
