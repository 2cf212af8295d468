"""Emotion over the turns of a dialogue: the values, their mean over dialogues, and their lines as SVG paths.

Pure: numbers and transcripts in, numbers and path strings out. Does not cover colours or labels (`templates/`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from heartloop.dialogue import Transcript
from heartloop.environments.sage import MAX_TURNS

__all__ = ["MOST_LINES", "Frame", "Line", "emotions_of", "faint_lines", "mean_curve", "path_of"]

MOST_LINES = 400
"""Lines drawn in one panel; above it every k-th dialogue is drawn, and the panel says so."""


class Frame(NamedTuple):
    """Where a plot lies in its SVG: the box in pixels, and how many turns its x axis has."""

    left: float = 26.0
    top: float = 10.0
    width: float = 270.0
    height: float = 150.0
    turns: int = MAX_TURNS

    def x(self, turn: float) -> float:
        """Pixel of a turn."""
        return round(self.left + self.width * turn / max(1, self.turns), 1)

    def y(self, emotion: float) -> float:
        """Pixel of an emotion in [0, 100]; SVG counts downwards."""
        return round(self.top + self.height * (1.0 - emotion / 100.0), 1)


class Line(NamedTuple):
    """A path and the opacity at which it is drawn."""

    path: str
    opacity: float


def emotions_of(transcript: Transcript) -> list[float]:
    """Emotion at the start and after every judged reply; an unjudged reply adds no value.

    Empty where the environment keeps no emotion.
    """
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [state["emotion"] for state in states if "emotion" in state]


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
