"""PERM's reward (PERM section 2.3, Eq. 4 to 7).

The preset defines how a grade of 1 to 5 becomes a share. `released`: grade / 5, at least 0.2 (the authors' code). `unit`: (grade
- 1) / 4, at least 0; the paper only says that the range is [0, 1]. A reward is always reported with its preset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from heartloop.core.errors import InputError

Part = Literal["resonation", "expression", "reception"]
PARTS: tuple[Part, ...] = get_args(Part)
SWITCHES: tuple[str, ...] = (*PARTS, "bystander", "length")
"""Parts that can be left out of the reward (PERM Table 2 leaves out one at a time)."""
PRESETS = ("released", "unit")

BYSTANDER_WEIGHT = 0.5
LENGTH_WEIGHT = 0.001
"""Penalty per token above `FREE_TOKENS` (PERM App. A.2)."""
FREE_TOKENS = 768
"""Tokens without penalty (PERM App. A.2)."""
LENGTHS = ("response", "answer")
"""What the penalty counts. The paper does not say; the released code counts the whole answer, the analysis included."""
BROKEN_FORMAT = -0.5
"""Reward of an answer in invalid form (ours): the lowest of a valid one at the published weight, before the length penalty."""

_LOWEST, _HIGHEST = 1.0, 5.0


class PermReward(NamedTuple):
    """`total` is the sum of the three others."""

    total: float
    empathy: float
    """Harmonic mean of the parts that count, in [0, 1]."""
    bystander: float
    """Weight times (share - 1), at most 0; 0 if left out."""
    length: float
    """At most 0; 0 if left out."""


def broken_form(bystander_weight: float = BYSTANDER_WEIGHT) -> float:
    """The reward of an answer in invalid form: at most the lowest of a valid one, before the length penalty.

    >>> broken_form(), broken_form(0.1), broken_form(1.0)
    (-0.5, -0.5, -1.0)
    """
    return min(BROKEN_FORMAT, -bystander_weight)


def normalised(score: float, *, preset: str) -> float:
    """A grade of 1 to 5 as a share in [0, 1].

    >>> [normalised(3, preset=preset) for preset in PRESETS]
    [0.6, 0.5]
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
    _check("score", score, _LOWEST, _HIGHEST)
    return score / _HIGHEST if preset == "released" else (score - _LOWEST) / (_HIGHEST - _LOWEST)


def harmonic_mean(shares: Sequence[float]) -> float:
    """The harmonic mean of shares in [0, 1]; 0 if a share is 0.

    >>> harmonic_mean([1.0, 0.5, 0.25])
    0.42857142857142855
    """
    if not shares:
        raise InputError("got no share; expected at least one part of the reward")
    for share in shares:
        _check("share", share, 0.0, 1.0)
    if min(shares) == 0.0:
        return 0.0
    lowest = min(shares)  # ratios avoid overflow with tiny shares
    return lowest * len(shares) / sum(lowest / share for share in shares)


def perm_reward(
    resonation: float | None,
    expression: float | None,
    reception: float | None,
    bystander: float | None,
    tokens: int,
    *,
    preset: str = PRESETS[0],
    parts: Sequence[Part] = PARTS,
    bystander_weight: float = BYSTANDER_WEIGHT,
    length_weight: float = LENGTH_WEIGHT,
    free_tokens: int = FREE_TOKENS,
) -> PermReward:
    """r = H(res, exp, rec) + lambda_bys (bys/100 - 1) - lambda_len max(tokens - 768, 0) (PERM Eq. 4 to 7).

    Grades are 1 to 5, `None` only if they are not in `parts`; `bystander` is 0 to 100, or `None` if its weight is 0; `tokens` are
    those that `LENGTHS` names. A weight of 0 leaves its term out.

    >>> [round(x, 4) for x in perm_reward(4, 3, 2, 70, 800)]
    [0.3718, 0.5538, -0.15, -0.032]
    """
    given = {"resonation": resonation, "expression": expression, "reception": reception}
    if any(part not in given for part in parts) or len(set(parts)) < len(parts):
        raise InputError(f"parts are {', '.join(parts)}; expected some of {', '.join(PARTS)}, each once")
    for what, number in (("bystander_weight", bystander_weight), ("length_weight", length_weight), ("tokens", tokens)):
        _check(what, number, 0.0, math.inf)
    shares = []
    for part in parts:
        if (score := given[part]) is None:
            raise InputError(f"{part} is None; expected a grade from 1 to 5, or `parts` without it")
        shares.append(normalised(score, preset=preset))
    empathy, penalty = harmonic_mean(shares), 0.0
    if bystander_weight:
        if bystander is None:
            raise InputError("bystander is None; expected a grade from 0 to 100, or a weight of 0")
        _check("bystander", bystander, 0.0, 100.0)
        penalty = bystander_weight * (bystander / 100.0 - 1.0)
    length = -length_weight * max(0, tokens - free_tokens) + 0.0  # no -0
    return PermReward(empathy + penalty + length, empathy, penalty + 0.0, length)


def _check(what: str, number: float, low: float, high: float) -> None:
    if not (low <= number <= high and math.isfinite(number)):
        raise InputError(f"{what} is {number!r}; expected a number from {low:g} to {high:g}")
