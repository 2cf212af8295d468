"""EIBench's scores: axis score (EIBench Eq. 1), outcome (Eq. 2), process rewards (Eq. 3), anchor rules, mean over scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heartloop.core.errors import InputError

STATE_LIMITS = (0.0, 100.0)
"""Lowest and highest value of both axes (EIBench section 3.2)."""

CHANGE_LIMIT = 10.0
"""Largest change of an axis in one turn (EIBench App. G: extreme triggers reach it)."""

STEP = 5
"""Anchors are multiples of this (EIBench section 3.2)."""

MARGIN = 5
"""Minimum distance of the start anchor from the other two (released code; the paper requires gaps without their size)."""

GAP = 10
"""The same for scenarios that are composed here or written with a model under our rules (ours)."""


class Anchors(NamedTuple):
    """Anchors of one axis, in [0, 100]: the start, a realistic success, a clear failure."""

    start: float
    success: float
    fail: float


def anchor_problem(a: Anchors, t: Anchors, gap: float = MARGIN) -> str:
    """A violation or "": a success < start < fail, t fail < start < success; multiples of 5 in [0, 100]; `gap` apart."""
    for axis, anchors in (("a", a), ("t", t)):
        shown = f"anchors of {axis} are start {anchors.start:g}, success {anchors.success:g}, fail {anchors.fail:g}"
        low, high = STATE_LIMITS
        if any(not low <= value <= high or value % STEP for value in anchors):
            return f"{shown}; expected multiples of {STEP} from {low:g} to {high:g}"
        good, bad = (-1, 1) if axis == "a" else (1, -1)
        if good * (anchors.success - anchors.start) < gap or bad * (anchors.fail - anchors.start) < gap:
            order = "success < start < fail" if axis == "a" else "fail < start < success"
            return f"{shown}; expected {order}, each at least {gap:g} from the start"
    return ""


def repaired(anchors: Anchors, better: int) -> Anchors:
    """The release's repair of one axis: multiples of 5 in [0, 100]; an end on the wrong side is set `MARGIN` beyond the start.

    `better` is -1 for a, of which less is better, and 1 for t. A start at an end of the axis keeps a gap of 0.

    >>> repaired(Anchors(start=72, success=80, fail=97), -1), repaired(Anchors(start=11, success=8, fail=0), 1)
    (Anchors(start=70, success=65, fail=95), Anchors(start=10, success=15, fail=0))
    """
    low, high = STATE_LIMITS
    start, success, fail = (min(high, max(low, STEP * round(value / STEP))) for value in anchors)
    if better * (success - start) <= 0:
        success = min(high, max(low, start + better * MARGIN))
    if better * (fail - start) >= 0:
        fail = min(high, max(low, start - better * MARGIN))
    return Anchors(int(start), int(success), int(fail))


def move(value: float, change: float) -> float:
    """The state of an axis after a turn: the change is clamped to [-10, 10], the result to [0, 100].

    >>> move(95.0, 8.0), move(50.0, -14.0)
    (100.0, 40.0)
    """
    low, high = STATE_LIMITS
    return min(high, max(low, value + min(CHANGE_LIMIT, max(-CHANGE_LIMIT, change))))


def axis_score(x: float, anchors: Anchors) -> float:
    """EIBench Eq. 1, in [-1, 1]: 0 at the start anchor, +1 at success and beyond, -1 at failure and beyond, linear between.

    >>> axis_score(50, Anchors(start=80, success=20, fail=100)), axis_score(90, Anchors(start=80, success=20, fail=100))
    (0.5, -0.5)
    """
    moved = x - anchors.start
    if moved == 0.0:
        return 0.0
    towards_success = (moved > 0) == (anchors.success > anchors.start)
    share = moved / ((anchors.success if towards_success else anchors.fail) - anchors.start)
    return float(min(1.0, share) if towards_success else -min(1.0, share))


def outcome(a: float, t: float, a_anchors: Anchors, t_anchors: Anchors, relation_weight: float = 0.5) -> float:
    """EIBench Eq. 2, in [-1, 1]: the axis scores of a final state, weighted (lambda: the relation). Reported times 100."""
    if not 0.0 <= relation_weight <= 1.0:
        raise InputError(f"relation_weight is {relation_weight:g}; expected a number from 0 to 1")
    return relation_weight * axis_score(t, t_anchors) + (1.0 - relation_weight) * axis_score(a, a_anchors)


def process_rewards(a: Sequence[float], t: Sequence[float]) -> npt.NDArray[np.float64]:
    """EIBench Eq. 3, (-da/100 + dt/100)/2 for every policy turn: shape (T,), from T + 1 states per axis."""
    if len(a) != len(t) or not len(a):
        raise InputError(f"got {len(a)} states of a and {len(t)} of t; expected T + 1 of each")
    return (-np.diff(np.asarray(a, dtype=np.float64)) + np.diff(np.asarray(t, dtype=np.float64))) / 200.0


def weighted_mean(outcomes: Mapping[str, Sequence[float]]) -> float | None:
    """The scenario-weighted mean over the scenes (EIBench Table 4): every scenario counts once; `None` without scenarios.

    >>> weighted_mean({"charm": [0.5], "defense": [-0.5, -0.5, 0.0]})
    -0.125
    """
    values = [value for scene in outcomes.values() for value in scene]
    return float(np.mean(values)) if values else None
