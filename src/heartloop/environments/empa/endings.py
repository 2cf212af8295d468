"""EMPA: when a path has arrived, and when it has failed (EMPA Eq. 5; released code).

Covers success with its gate and the failure detectors. Does not cover the path (`energy`), nor how early a dialogue may end
(`environments.empa`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heartloop.environments.empa.scoring import Trajectory, check_preset

__all__ = ["NEAR", "NEGATIVE_RUN", "STAGNATION", "TAU", "Failure", "Success", "failure", "reached"]

NEAR = 0.1
"""Epsilon, as a share of |P_0| (released results; the authors' README says 0.05)."""

TAU = 0.5
"""Mean alignment above which a dialogue counts as companionship (`paper`; ours, the paper prints no value)."""

NEGATIVE_RUN = 5
"""Windows of negative energy in a row that are a failure (released code)."""

STAGNATION = (5, 0.5)
"""Positions looked back on, and the spread of |P| below which they stand still (released code)."""

_REGRESSION = (8, 0.7, -1.0)
"""Windows looked back on, the share of negative ones above which, and the sum below which they go back (released code)."""


class Success(NamedTuple):
    """The energy gate and the ways through it; `None` where the preset does not know one."""

    gate: bool
    """E_total >= |P_0|: without it nothing counts (EMPA Eq. 5)."""
    resolution: bool
    """|P| <= epsilon |P_0|."""
    position: bool | None
    """P . v*_0 >= -epsilon |P_0|: as far as the start lay, whatever was gained beside (`released`)."""
    companionship: bool | None
    """Mean alignment > tau (`paper`)."""

    @property
    def reached(self) -> bool:
        """Whether the gate and one way through it are open."""
        return self.gate and bool(self.resolution or self.position or self.companionship)


class Failure(NamedTuple):
    """The three detectors of the released code."""

    negative_run: bool
    """The last five energies are all below 0."""
    stagnation: bool
    """The spread (population) of the last five |P| is below 0.5."""
    regression: bool
    """Of the last eight energies more than 70 % are below 0, and their sum is below -1."""

    @property
    def detected(self) -> bool:
        """A negative run, or standing still while going back."""
        return self.negative_run or (self.stagnation and self.regression)


def reached(path: Trajectory, *, preset: str) -> Success:
    """Whether a dialogue has succeeded by now (EMPA Eq. 5; released code). How early it may end is the environment's rule.

    Raises:
        InputError: an unknown preset.
    """
    check_preset(preset)
    first, last = path.position[0], path.position[-1]
    r0 = float(np.linalg.norm(first))
    ahead = -float(last @ first) / r0 if r0 > 0 else 0.0
    return Success(
        gate=bool(len(path.energy)) and path.total >= r0,
        resolution=float(np.linalg.norm(last)) <= NEAR * r0,
        position=ahead >= -NEAR * r0 if preset == "released" else None,
        companionship=bool(len(path.alignment)) and float(path.alignment.mean()) > TAU if preset == "paper" else None,
    )


def failure(path: Trajectory) -> Failure:
    """Whether a dialogue has failed by now, over the latest judged windows; too short a dialogue has not."""
    back, share, sum_below = _REGRESSION
    standing, spread = STAGNATION
    recent = path.energy[-back:]
    return Failure(
        negative_run=len(path.energy) >= NEGATIVE_RUN and bool((path.energy[-NEGATIVE_RUN:] < 0).all()),
        stagnation=len(path.energy) >= standing and float(path.distance[-standing:].std()) < spread,
        regression=len(recent) == back and float((recent < 0).mean()) > share and float(recent.sum()) < sum_below,
    )
