"""The score over the turns of a dialogue: its mean over dialogues, and the lines as SVG paths.

Pure: numbers in, numbers and path strings out. Does not cover the values of one dialogue (`measures`), nor colours or
labels (`templates/`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["MOST_LINES", "Frame", "Line", "faint_lines", "mean_curve", "path_of"]

MOST_LINES = 400
"""Lines drawn in one panel; above it every k-th dialogue is drawn, and the panel says so."""


class Frame(NamedTuple):
    """Where a plot lies in its SVG: the box in pixels, how many turns its x axis has, and the points at its floor and ceiling."""

    left: float = 26.0
    top: float = 10.0
    width: float = 270.0
    height: float = 150.0
    turns: int = 10
    low: float = 0.0
    high: float = 100.0

    def x(self, turn: float) -> float:
        """Pixel of a turn."""
        return round(self.left + self.width * turn / max(1, self.turns), 1)

    def y(self, points: float) -> float:
        """Pixel of some points; SVG counts downwards."""
        return round(self.top + self.height * (self.high - points) / (self.high - self.low), 1)


class Line(NamedTuple):
    """A path and the opacity at which it is drawn."""

    path: str
    opacity: float


def mean_curve(curves: Sequence[Sequence[float]], turns: int) -> list[float]:
    """Mean at turn 0 .. turns; a dialogue that ended earlier is carried forward at its last value.

    >>> mean_curve([[40, 50, 60], [40, 30]], 3)
    [40.0, 40.0, 45.0, 45.0]
    """
    filled = [curve for curve in curves if curve]
    if not filled:
        return []
    return [statistics.fmean(curve[min(turn, len(curve) - 1)] for curve in filled) for turn in range(turns + 1)]


def path_of(curve: Sequence[float], frame: Frame) -> str:
    """An SVG path in relative steps, which is short.

    >>> path_of([40, 50], Frame(left=0, top=0, width=100, height=100, turns=10))
    'M0 60l10-10'
    """
    if not curve:
        return ""
    points = [(frame.x(turn), frame.y(value)) for turn, value in enumerate(curve)]
    steps = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        dx, dy = f"{x1 - x0:.3g}", f"{y1 - y0:.3g}"
        steps.append(f"l{dx}{'' if dy.startswith('-') else ' '}{dy}")
    return "".join(steps)


def faint_lines(curves: Sequence[Sequence[float]], frame: Frame) -> list[Line]:
    """One line for each distinct course, the more opaque the more dialogues took it, as if they were drawn one by one."""
    stride = -(-len(curves) // MOST_LINES)
    drawn = curves[:: max(1, stride)]
    courses = Counter(path_of(curve, frame) for curve in drawn if curve)
    one = min(0.4, max(0.09, 8.0 / max(1, len(drawn))))
    return [Line(path, round(1.0 - (1.0 - one) ** times, 2)) for path, times in courses.items()]
