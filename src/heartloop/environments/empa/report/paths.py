"""Charts of EMPA's paths: planes of two axes by model and difficulty, size against alignment of steps, steps in space.

In a plane a deficit is to the left and below, the cross is the balance, and in the zone every axis is
at least -1. Segments are grouped by the sign of their energy. All planes of a page share one frame; a path that leaves it is
clipped and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Estimate, ModelRow
from heartloop.core.text import short_number
from heartloop.environments.empa.report.measured import Measured
from heartloop.environments.empa.report.profiles import TIERS, Member
from heartloop.environments.empa.scoring import AXES
from heartloop.scoring.statistics import estimate

__all__ = [
    "PLANES",
    "SIDE",
    "ModelPaths",
    "PlaneFrame",
    "StepMeans",
    "StepPlot",
    "TierPaths",
    "frame_of",
    "model_paths",
    "step_means",
    "step_plot",
    "steps_of",
]

PLANES: tuple[tuple[str, str], ...] = (("C", "A"), ("P", "A"))
"""Horizontal and vertical axis of each plane."""
SIDE = 150.0
"""Side of a plane in pixels."""
_STEP = 10.0
"""The frame is rounded to multiples of this, in points."""
_ABOVE = 20.0
"""Points shown beyond the balance."""
_BELOW = 1.6
"""Low end of the frame as a multiple of the lowest start."""


class PlaneFrame(NamedTuple):
    """Low and high end of every axis, in points."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Distance of a value from the low end, in pixels."""
        return SIDE * (value - self.low) / (self.high - self.low)


class TierPaths(NamedTuple):
    """The dialogues of one model and one difficulty in one plane."""

    towards: str
    """Segments of positive energy, as one SVG path."""
    away: str
    """Segments of negative energy."""
    aside: str
    """Segments of energy 0."""
    starts: list[tuple[float, float]]
    ends: list[tuple[float, float, str]]
    """Ends inside the frame, each with `success`, `failure` or `else`."""


class ModelPaths(NamedTuple):
    """A model's paths by difficulty, with one plane for each pair of `PLANES`."""

    number: int
    score: ModelRow
    n: int
    left: int
    """Number of paths that leave the frame."""
    tiers: list[tuple[str, int, list[TierPaths]]]
    """Difficulty, dialogues, planes; easiest first."""


class StepMeans(NamedTuple):
    """A model's mean step size |v| in points, and mean alignment in [-1, 1], over all judged windows."""

    number: int
    """Row in the table, from 1."""
    colour: int
    score: ModelRow
    size: Estimate
    alignment: Estimate


class StepPlot(NamedTuple):
    """Step size against alignment in pixels, for a chart of `width` x `height`."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    marks: list[tuple[StepMeans, float, float, tuple[float, float] | None, tuple[float, float] | None]]
    """Means of a model, their pixel, ends of both intervals in pixels."""


def frame_of(dialogues: Sequence[Measured]) -> PlaneFrame:
    """The frame of all planes, set by the starts, so that a bad dialogue does not widen it."""
    lowest = min((float(m.path.position[0].min()) for m in dialogues), default=-_STEP)
    return PlaneFrame(_STEP * math.floor(_BELOW * lowest / _STEP), _ABOVE)


def model_paths(members: Sequence[Member], frame: PlaneFrame) -> list[ModelPaths]:
    """The paths of each model that has a dialogue."""
    models = []
    for number, row, mine in members:
        tiers = []
        for tier in dict.fromkeys([*TIERS, *sorted({m.fact("difficulty") for m in mine})]):
            in_tier = [m for m in mine if m.fact("difficulty") == tier]
            if in_tier:
                tiers.append((tier, len(in_tier), [_tier(in_tier, frame, across, up) for across, up in PLANES]))
        left = sum(bool(((m.path.position < frame.low) | (m.path.position > frame.high)).any()) for m in mine)
        if tiers:
            models.append(ModelPaths(number, row, len(mine), left, tiers))
    return models


def _tier(dialogues: Sequence[Measured], frame: PlaneFrame, across: str, up: str) -> TierPaths:
    columns = [list(map(str, AXES)).index(across), list(map(str, AXES)).index(up)]
    segments: dict[int, list[str]] = {1: [], -1: [], 0: []}
    starts: list[tuple[float, float]] = []
    ends: list[tuple[float, float, str]] = []
    for m in dialogues:
        at = m.path.position[:, columns]
        pixels = [(round(frame.at(x), 1), round(SIDE - frame.at(y), 1)) for x, y in at.tolist()]
        last = None
        for n, energy in enumerate(m.path.energy.tolist()):
            (x0, y0), (x1, y1) = pixels[n], pixels[n + 1]
            if (x0, y0) == (x1, y1):
                continue
            sign = (energy > 0) - (energy < 0)
            dx, dy = f"{x1 - x0:.3g}", f"{y1 - y0:.3g}"
            step = f"l{dx}{'' if dy.startswith('-') else ' '}{dy}"
            segments[sign].append(step if last == sign else f"M{x0:g} {y0:g}{step}")
            last = sign
        starts.append(pixels[0])
        if frame.low <= at[-1].min() and at[-1].max() <= frame.high:
            stop = m.dialogue.stop
            ends.append((*pixels[-1], stop if stop in ("success", "failure") else "else"))
    return TierPaths("".join(segments[1]), "".join(segments[-1]), "".join(segments[0]), sorted(set(starts)), ends)


def step_means(members: Sequence[Member]) -> list[StepMeans]:
    """Mean size and alignment of the steps by model, in the order of the leaderboard."""
    means: list[StepMeans] = []
    for number, row, mine in members:
        scenarios = [m.dialogue.scenario for m in mine for _ in m.path.energy]
        size = estimate([float(s) for m in mine for s in np.linalg.norm(m.path.increment, axis=1)], scenarios, n=len(mine))
        alignment = estimate([float(cos) for m in mine for cos in m.path.alignment], scenarios, n=len(mine), within=(-1.0, 1.0))
        if size is not None and alignment is not None:
            means.append(StepMeans(len(means) + 1, number, row, size, alignment))
    return means


def step_plot(means: Sequence[StepMeans], *, width: float = 1060.0, height: float = 400.0) -> StepPlot:
    """The chart of `step_means`: size from 0 on the x axis, alignment from -1 to 1 on the y axis."""
    left, top, right, bottom = 44.0, 14.0, width - 20.0, height - 44.0
    sizes = [mean.size.mean if mean.size.high is None else mean.size.high for mean in means]
    most = max(1, math.ceil(max(sizes, default=0.0)))  # 1 if all steps are 0

    def x(value: float) -> float:
        return round(left + (right - left) * value / most, 1)

    def y(value: float) -> float:
        return round(top + (bottom - top) * (1.0 - value) / 2.0, 1)

    marks = []
    for mean in means:
        size, alignment = mean.size, mean.alignment
        wide = None if size.low is None or size.high is None else (x(size.low), x(size.high))
        high = None if alignment.low is None or alignment.high is None else (y(alignment.low), y(alignment.high))
        marks.append((mean, x(size.mean), y(alignment.mean), wide, high))
    return StepPlot(
        width, height, left, top, right, bottom,
        ticks_x=[(x(value), f"{value}") for value in range(most + 1)],
        ticks_y=[(y(value), f"{value:+g}" if value else "0") for value in (-1.0, -0.5, 0.0, 0.5, 1.0)],
        marks=marks,
    )  # fmt: skip


def steps_of(dialogues: Sequence[Measured | None]) -> list[list[Any] | None]:
    """By index on the page: difficulty, start and steps as one flat list, and the sign of each step's energy.

    Numbers that are not whole are rounded to two decimals. `None` is a dialogue without a path.
    """
    return [
        None if m is None else [m.fact("difficulty"), _flat(m), "".join("0+-"[int(np.sign(e))] for e in m.path.energy)]
        for m in dialogues
    ]


def _flat(m: Measured) -> list[float | int]:
    values = [*m.path.position[0].tolist(), *m.path.increment.ravel().tolist()]
    return [short_number(value) for value in values]
