"""Both axes of EIBench in one plane: where dialogues began, where they went, and how near they came to their anchors.

Pure: transcripts in, paths out. Every axis is counted from its own anchors (EIBench Eq. 1), so that all dialogues share one
plane: the start in the middle, success at the upper right, failure at the lower left. Across is the relation, up the negative
emotion turned round (up: less of it). Does not cover one dialogue in its own units, which the browser draws the same way round
(`static/dialogue.js`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.environments.eibench.environment import anchors_of
from heartloop.environments.eibench.scoring import axis_score

__all__ = ["SIDE", "Plane", "axis_course", "plane_of"]

SIDE = 180.0
"""Pixels of a plane's side, a frame of `MARGIN` around it left aside."""
MARGIN = 24.0
_MOST = 150
"""Paths drawn in one plane; above it every k-th dialogue is drawn."""


class Plane(NamedTuple):
    """The dialogues of one model."""

    n: int
    drawn: int
    paths: list[str]
    ends: list[tuple[float, float]]
    """Pixels at which dialogues ended, as drawn."""
    mean: tuple[float, float]
    """Mean final axis scores of all of them, a then t, in [-1, 1]."""
    mean_at: tuple[float, float]


def plane_of(dialogues: Sequence[Transcript]) -> Plane | None:
    """The plane of some dialogues; `None` where none of them has anchors."""
    courses = [course for dialogue in dialogues if (course := axis_course(dialogue))]
    if not courses:
        return None
    shown = courses[:: -(-len(courses) // _MOST)]
    mean = (statistics.fmean(c[-1][0] for c in courses), statistics.fmean(c[-1][1] for c in courses))
    paths = ["M" + "L".join(f"{x:g} {y:g}" for x, y in map(_pixel, course)) for course in shown]
    return Plane(len(courses), len(shown), paths, [_pixel(course[-1]) for course in shown], mean, _pixel(mean))


def axis_course(dialogue: Transcript) -> list[tuple[float, float]]:
    """Axis scores of a and t, each in [-1, 1], at the start and after every judged reply; empty without anchors."""
    anchors = anchors_of(dialogue)
    if anchors is None:
        return []
    states = [dialogue.start, *(turn.state for turn in dialogue.turns if turn.state is not None)]
    return [(axis_score(s["a"], anchors[0]), axis_score(s["t"], anchors[1])) for s in states if {"a", "t"} <= s.keys()]


def _pixel(scores: tuple[float, float]) -> tuple[float, float]:
    a, t = scores
    return (round(MARGIN + SIDE * (t + 1.0) / 2.0, 1), round(MARGIN + SIDE * (1.0 - a) / 2.0, 1))
