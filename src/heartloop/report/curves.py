"""Curves over training steps: smoothed, averaged over seeds with their spread, and as SVG paths.

Pure: numbers in, numbers and path strings out. Does not cover which metrics there are (`training_metrics`), nor markup
(`templates/`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["SMOOTHING", "Band", "Chart", "Curve", "band_of", "chart_of", "smoothed"]

SMOOTHING = 0.8
"""Weight of the previous value (EIBench, Figure 4)."""

Curve = Mapping[int, float]
"""A value by step, in the order of the steps; steps without a number are missing."""


class Band(NamedTuple):
    """One metric of runs that differ only in their seed, at the steps that all of them have."""

    raw: Curve
    """Mean over the seeds."""
    mean: Curve
    """The same, smoothed."""
    low: Curve
    """Lowest of the seeds' smoothed curves."""
    high: Curve
    seeds: int


class Chart(NamedTuple):
    """A chart of some bands; ticks are (pixel, label)."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    lines: list[tuple[int, str, str, str, tuple[float, float]]]
    """For each band its place, the raw path, the smoothed path, the outline of the seeds (empty with one), and its last point."""
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    zero: float | None
    """Height of 0 where it lies inside."""


def smoothed(curve: Curve, weight: float = SMOOTHING) -> dict[int, float]:
    """The exponential moving average; it starts at the first value.

    >>> smoothed({1: 0.0, 2: 10.0, 4: 10.0})
    {1: 0.0, 2: 2.0, 4: 3.6}
    """
    values: dict[int, float] = {}
    last: float | None = None
    for step, value in curve.items():
        last = value if last is None else weight * last + (1.0 - weight) * value
        values[step] = round(last, 12)
    return values


def band_of(curves: Sequence[Curve], *, unsmoothed: bool = False) -> Band | None:
    """The mean over seeds with their lowest and highest; `None` where they have no step in common.

    Args:
        curves: one for each seed.
        unsmoothed: leave the curves as they are.
    """
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    if not steps:
        return None
    shared = [{step: curve[step] for step in steps} for curve in curves]
    soft = [curve if unsmoothed else smoothed(curve) for curve in shared]

    def over(several: Sequence[Curve], work: Callable[[list[float]], float]) -> dict[int, float]:
        return {step: work([curve[step] for curve in several]) for step in steps}

    return Band(over(shared, statistics.fmean), over(soft, statistics.fmean), over(soft, min), over(soft, max), len(curves))


def chart_of(
    bands: Sequence[tuple[int, Band]], *, last: int, first: int = 0, width: float = 330.0, height: float = 184.0
) -> Chart:
    """A chart of bands on shared axes.

    Args:
        bands: with the place of each among all arms, which decides its colour.
        last: the last step of the axis.
    """
    values = [value for _, band in bands for curve in (band.raw, band.low, band.high) for value in curve.values()]
    ticks = _ticks(min(values), max(values))
    low, high = min(ticks[0], *values), max(ticks[-1], *values)
    left, right, top, bottom = 44.0, width - 10.0, 10.0, height - 24.0

    def x(step: float) -> float:
        return round(left + (right - left) * (step - first) / max(1, last - first), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (value - low) / (high - low), 1)

    def path(curve: Curve) -> str:
        points = [f"{x(step):g} {y(value):g}" for step, value in curve.items()]
        return f"M{points[0]}" + ("L" + "L".join(points[1:]) if len(points) > 1 else "h0.01")

    lines = []
    for place, band in bands:
        outline = ""
        if band.seeds > 1:
            back = "L".join(f"{x(step):g} {y(value):g}" for step, value in reversed(list(band.low.items())))
            outline = f"{path(band.high)}L{back}Z"
        end = list(band.mean.items())[-1]
        raw = "" if band.raw == band.mean else path(band.raw)
        lines.append((place, raw, path(band.mean), outline, (x(end[0]), y(end[1]))))
    return Chart(
        width, height, left, right, top, bottom, lines,
        ticks_x=[(x(step), f"{step}") for step in _steps(first, last)],
        ticks_y=[(y(value), _words(value, ticks)) for value in ticks],
        zero=y(0.0) if low < 0.0 < high else None,
    )  # fmt: skip


_NOTHING = 1e-9
"""A smaller range counts as 0: ticks are rounded to 12 decimals."""


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round values, the first at most the lowest value and the last at least the highest.

    >>> _ticks(-0.29, 0.14), _ticks(3.0, 3.0)
    ([-0.4, -0.2, 0.0, 0.2], [2.8, 2.9, 3.0, 3.1, 3.2])
    """
    wide = high - low
    if wide <= max(abs(high) * 1e-9, _NOTHING):  # a flat line in the middle
        wide = abs(high) * 0.1 if abs(high) > _NOTHING else 1.0
        low, high = low - wide / 2, high + wide / 2
    size = 10.0 ** math.floor(math.log10(wide / 3))
    step = next(n * size for n in (1, 2, 5, 10) if wide / (n * size) <= 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) + 0.0 for n in range(first, last + 1)]


def _steps(first: int, last: int) -> list[int]:
    """Steps labelled at the axis: the first, the last, and round ones between; all where they are few.

    >>> _steps(0, 60), _steps(0, 250), _steps(0, 3)
    ([0, 20, 40, 60], [0, 100, 200, 250], [0, 1, 2, 3])
    """
    if last - first <= 8:
        return list(range(first, last + 1))
    size = next(n * 10**k for k in range(12) for n in (1, 2, 5) if (last - first) / (n * 10**k) <= 3)
    inner = [step for step in range(first, last, size) if last - step >= size / 2]
    return [*inner, last]


def _words(value: float, ticks: Sequence[float]) -> str:
    """The shortest label of a tick that differs from its neighbours'.

    >>> _words(0.2, [0.0, 0.2]), _words(1500.0, [1000.0, 1500.0]), _words(2e-6, [0.0, 2e-6])
    ('0.2', '1.5k', '2e-06')
    """
    largest = max(abs(tick) for tick in ticks)
    if largest >= 1e6:
        return f"{value / 1e6:g}M" if value else "0"
    if largest >= 1e3:
        return f"{value / 1e3:g}k" if value else "0"
    return f"{value:g}"
