"""EMPA's paths as pictures: planes of two axes for every model and difficulty, size against alignment, steps in space.

Pure: computed dialogues in, pixels and numbers out. In a plane what is lacking lies to the left and below, the balance is the
cross, the zone is where every axis is at least -1; segments are distinguished by the sign of their energy. All planes of a page
share one frame; a path that leaves it is cut at its edge and counted. Does not cover the picture in space
or one dialogue (`panel.js`).
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
from heartloop.scoring.estimates import estimate

__all__ = [
    "PLANES",
    "SIDE",
    "Drive",
    "Facing",
    "ModelPaths",
    "PlaneFrame",
    "TierPaths",
    "drives",
    "facing",
    "frame_of",
    "model_paths",
    "steps_of",
]

PLANES: tuple[tuple[str, str], ...] = (("C", "A"), ("P", "A"))
"""Axis across and axis up of each plane; A stands up in both, so that they share their height."""
SIDE = 150.0
"""Pixels of a plane's side."""
_STEP = 10.0
"""Points between the lines of a grid."""
_ABOVE = 20.0
"""Points shown beyond the balance."""
_BELOW = 1.6
"""The frame goes so many times as far down as the deepest start."""


class PlaneFrame(NamedTuple):
    """Points at the low and the high end of every axis."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Pixels of a point, from the low end."""
        return SIDE * (value - self.low) / (self.high - self.low)


class TierPaths(NamedTuple):
    """The dialogues of one model and one difficulty in one plane."""

    towards: str
    """Segments of positive energy, as one path."""
    away: str
    """Of negative energy."""
    aside: str
    """Steps without energy."""
    starts: list[tuple[float, float]]
    ends: list[tuple[float, float, str]]
    """Where dialogues ended inside the frame, and how: `success`, `failure` or `else`."""


class ModelPaths(NamedTuple):
    """A model's paths: by difficulty, each with a plane for every pair of `PLANES`."""

    number: int
    score: ModelRow
    n: int
    left: int
    """Paths that leave the frame."""
    tiers: list[tuple[str, int, list[TierPaths]]]
    """Difficulty, dialogues, planes; easiest first."""


class Drive(NamedTuple):
    """A model's steps: their mean size |v| in points, their mean alignment in [-1, 1], over all judged windows."""

    number: int
    """Its line in the table, from 1."""
    colour: int
    score: ModelRow
    size: Estimate
    alignment: Estimate


class Facing(NamedTuple):
    """Size against alignment in pixels, for a picture of `width` x `height`."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    marks: list[tuple[Drive, float, float, tuple[float, float] | None, tuple[float, float] | None]]
    """Drive, its pixel, ends of both intervals in pixels."""


def frame_of(found: Sequence[Measured]) -> PlaneFrame:
    """One frame for every plane, by where dialogues start and not by where the worst of them go."""
    deepest = min((float(m.path.position[0].min()) for m in found), default=-_STEP)
    return PlaneFrame(_STEP * math.floor(_BELOW * deepest / _STEP), _ABOVE)


def model_paths(members: Sequence[Member], frame: PlaneFrame) -> list[ModelPaths]:
    """The paths of every model with a computed dialogue."""
    pictures = []
    for number, row, found in members:
        tiers = []
        for tier in dict.fromkeys([*TIERS, *sorted({m.fact("difficulty") for m in found})]):
            mine = [m for m in found if m.fact("difficulty") == tier]
            if mine:
                tiers.append((tier, len(mine), [_tier(mine, frame, across, up) for across, up in PLANES]))
        left = sum(bool(((m.path.position < frame.low) | (m.path.position > frame.high)).any()) for m in found)
        if tiers:
            pictures.append(ModelPaths(number, row, len(found), left, tiers))
    return pictures


def _tier(found: Sequence[Measured], frame: PlaneFrame, across: str, up: str) -> TierPaths:
    columns = [list(map(str, AXES)).index(across), list(map(str, AXES)).index(up)]
    drawn: dict[int, list[str]] = {1: [], -1: [], 0: []}
    starts: list[tuple[float, float]] = []
    ends: list[tuple[float, float, str]] = []
    for m in found:
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
            drawn[sign].append(step if last == sign else f"M{x0:g} {y0:g}{step}")
            last = sign
        starts.append(pixels[0])
        if frame.low <= at[-1].min() and at[-1].max() <= frame.high:
            stop = m.dialogue.stop
            ends.append((*pixels[-1], stop if stop in ("success", "failure") else "else"))
    return TierPaths("".join(drawn[1]), "".join(drawn[-1]), "".join(drawn[0]), sorted(set(starts)), ends)


def drives(members: Sequence[Member]) -> list[Drive]:
    """Size and alignment of the steps of every model, in the order of the leaderboard."""
    drawn: list[Drive] = []
    for number, row, found in members:
        scenarios = [m.dialogue.scenario for m in found for _ in m.path.energy]
        size = estimate([float(s) for m in found for s in np.linalg.norm(m.path.increment, axis=1)], scenarios, n=len(found))
        alignment = estimate([float(cos) for m in found for cos in m.path.alignment], scenarios, n=len(found))
        if size is not None and alignment is not None:
            drawn.append(Drive(len(drawn) + 1, number, row, size, alignment))
    return drawn


def facing(found: Sequence[Drive], *, width: float = 1060.0, height: float = 400.0) -> Facing:
    """The picture of `drives`: size across from 0, alignment up from -1 to 1."""
    left, top, right, bottom = 44.0, 14.0, width - 20.0, height - 44.0
    sizes = [drive.size.mean if drive.size.high is None else drive.size.high for drive in found]
    most = max(1, math.ceil(max(sizes, default=0.0)))  # 1 where no step has a size

    def x(value: float) -> float:
        return round(left + (right - left) * value / most, 1)

    def y(value: float) -> float:
        return round(top + (bottom - top) * (1.0 - value) / 2.0, 1)

    marks = []
    for drive in found:
        wide = None if drive.size.low is None or drive.size.high is None else (x(drive.size.low), x(drive.size.high))
        high = (
            None
            if drive.alignment.low is None or drive.alignment.high is None
            else (y(drive.alignment.low), y(drive.alignment.high))
        )
        marks.append((drive, x(drive.size.mean), y(drive.alignment.mean), wide, high))
    return Facing(
        width, height, left, top, right, bottom,
        ticks_x=[(x(value), f"{value}") for value in range(most + 1)],
        ticks_y=[(y(value), f"{value:+g}" if value else "0") for value in (-1.0, -0.5, 0.0, 0.5, 1.0)],
        marks=marks,
    )  # fmt: skip


def steps_of(found: Sequence[Measured | None]) -> list[list[Any] | None]:
    """For the browser, by place on the page: difficulty, start and steps as one flat list, and the sign of each step's energy.

    Points are whole in both presets; other ones are kept to two decimals. `None` is a dialogue without a path.
    """
    return [
        None if m is None else [m.fact("difficulty"), _flat(m), "".join("0+-"[int(np.sign(e))] for e in m.path.energy)]
        for m in found
    ]


def _flat(m: Measured) -> list[float | int]:
    values = [*m.path.position[0].tolist(), *m.path.increment.ravel().tolist()]
    return [short_number(value) for value in values]
