"""EMPA: conditions of success and failure of a dialogue (EMPA Eq. 5; released code).

Does not cover the path (`scoring`), nor how early a dialogue may end (`environment`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heartloop.environments.empa.scoring import Trajectory, check_preset

__all__ = ["NEAR", "NEGATIVE_RUN", "STAGNATION", "TAU", "Failure", "Success", "failure", "reached"]

NEAR = 0.1
"""Epsilon, as a share of |P_0| (released results; the authors' README says 0.05)."""

TAU = 0.5
"""Mean alignment above which a dialogue counts as companionship (`paper`; the value is ours, the paper prints none)."""

NEGATIVE_RUN = 5
"""Consecutive windows of negative energy that are a failure (released code)."""

STAGNATION = (5, 0.5)
"""Number of latest positions, and the standard deviation of their |P| below which there is stagnation (released code)."""

_REGRESSION = (8, 0.7, -1.0)
"""Number of latest windows; there is regression if the share of negative ones is above the second value and their sum below the
third (released code)."""


class Success(NamedTuple):
    """The energy gate and the conditions of success; `None` if the preset does not have the condition."""

    gate: bool
    """E_total >= |P_0|, required for success (EMPA Eq. 5)."""
    resolution: bool
    """|P| <= epsilon |P_0|."""
    position: bool | None
    """P . v*_0 >= -epsilon |P_0|: the distance of the start was covered in its direction (`released`)."""
    companionship: bool | None
    """Mean alignment > tau (`paper`)."""

    @property
    def reached(self) -> bool:
        """Whether the gate and at least one condition hold."""
        return self.gate and bool(self.resolution or self.position or self.companionship)


class Failure(NamedTuple):
    """The three detectors of the released code."""

    negative_run: bool
    """Whether the last five energies are all below 0."""
    stagnation: bool
    """Whether the population standard deviation of the last five |P| is below 0.5."""
    regression: bool
    """Whether more than 70 % of the last eight energies are below 0, and their sum is below -1."""

    @property
    def detected(self) -> bool:
        """A negative run, or stagnation together with regression."""
        return self.negative_run or (self.stagnation and self.regression)


def reached(path: Trajectory, *, preset: str) -> Success:
    """The conditions of success after the latest window (EMPA Eq. 5; released code).

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
    """The failure detectors over the latest judged windows; a shorter dialogue has not failed."""
    windows, share, sum_below = _REGRESSION
    positions, spread = STAGNATION
    recent = path.energy[-windows:]
    return Failure(
        negative_run=len(path.energy) >= NEGATIVE_RUN and bool((path.energy[-NEGATIVE_RUN:] < 0).all()),
        stagnation=len(path.energy) >= positions and float(path.distance[-positions:].std()) < spread,
        regression=len(recent) == windows and float((recent < 0).mean()) > share and float(recent.sum()) < sum_below,
    )
