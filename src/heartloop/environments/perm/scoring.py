"""PERM: one reward from both ends of the empathy cycle (PERM section 2.3, Eq. 4 to 7).

Covers the harmonic mean of resonation, expression and reception, the bystander's penalty, the penalty for length, and their
sum, each part switchable. Does not cover who judges (`environments.perm`), nor what becomes of a sample that nobody could score:
it has no reward, and nothing here stands in for it.

Presets say how a judge's 1 to 5 becomes a share. `released`: score / 5, so that the lowest is 0.2 (the authors' code). `unit`:
(score - 1) / 4, which reaches 0; the paper says only that the range is [0, 1]. The same judgements have two rewards; whoever
shows one names the preset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from heartloop.core.errors import InputError

__all__ = [
    "BROKEN_FORMAT",
    "BYSTANDER_WEIGHT",
    "FREE_TOKENS",
    "LENGTH_WEIGHT",
    "PARTS",
    "PRESETS",
    "SWITCHES",
    "Part",
    "PermReward",
    "Preset",
    "broken_form",
    "harmonic_mean",
    "normalised",
    "perm_reward",
]

Part = Literal["resonation", "expression", "reception"]
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order of the cycle: understood, said, received."""

SWITCHES: tuple[str, ...] = (*PARTS, "bystander", "length")
"""What can be left out of the reward (PERM Table 2 leaves out one at a time)."""

Preset = Literal["released", "unit"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

BYSTANDER_WEIGHT = 0.5
"""lambda_bys (PERM section 3.1)."""
LENGTH_WEIGHT = 0.001
"""Reward lost for each token beyond `FREE_TOKENS` (PERM App. A.2)."""
FREE_TOKENS = 768
"""Tokens of a response that cost nothing (PERM App. A.2)."""
BROKEN_FORMAT = -0.5
"""What an answer in another format is worth: the lowest that a valid one can get without its length, by the published weight
(ours)."""

_LOWEST, _HIGHEST = 1.0, 5.0


class PermReward(NamedTuple):
    """A reward and its parts: `total` is the sum of the three others."""

    total: float
    empathy: float
    """Harmonic mean of the parts that are on, in [0, 1]."""
    bystander: float
    """At most 0: weight times (share - 1); 0 where it is off."""
    length: float
    """At most 0; 0 where it is off."""


def broken_form(bystander_weight: float = BYSTANDER_WEIGHT) -> float:
    """What an answer in another format is worth under another weight: never more than a valid one can get.

    >>> broken_form(), broken_form(0.1), broken_form(1.0)
    (-0.5, -0.5, -1.0)
    """
    return min(BROKEN_FORMAT, -bystander_weight)


def normalised(score: float, *, preset: str) -> float:
    """A judge's score of 1 to 5 as a share.

    Raises:
        InputError: an unknown preset, or a score outside [1, 5].

    >>> [normalised(3, preset=preset) for preset in PRESETS]
    [0.6, 0.5]
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
    _check("score", score, _LOWEST, _HIGHEST)
    return score / _HIGHEST if preset == "released" else (score - _LOWEST) / (_HIGHEST - _LOWEST)


def harmonic_mean(shares: Sequence[float]) -> float:
    """Of shares in [0, 1]; a share of 0 makes it 0.

    Raises:
        InputError: no share, or one outside [0, 1].

    >>> harmonic_mean([1.0, 0.5, 0.25])
    0.42857142857142855
    """
    if not shares:
        raise InputError("there is nothing to take the mean of; expected at least one part that is on")
    for share in shares:
        _check("share", share, 0.0, 1.0)
    if min(shares) == 0.0:
        return 0.0
    lowest = min(shares)  # of ratios, so that tiny shares do not overflow
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

    Args:
        resonation: of the analysis, 1 to 5; so `expression` and `reception` of the response. What is off may be `None`.
        bystander: 0 to 100; may be `None` where its weight is 0.
        tokens: of the response alone.
        parts: those that count in the mean (Table 2 leaves out one at a time).
        bystander_weight: 0 leaves the bystander out; so `length_weight` the length.

    Raises:
        InputError: a part that is on and has no score, a number out of range, an unknown preset or part, or none on.

    >>> [round(x, 4) for x in perm_reward(4, 3, 2, 70, 800)]
    [0.3718, 0.5538, -0.15, -0.032]
    """
    given = {"resonation": resonation, "expression": expression, "reception": reception}
    unknown = [part for part in parts if part not in given]
    if unknown or len(set(parts)) < len(parts):
        raise InputError(f"parts are {', '.join(parts)}; expected some of {', '.join(PARTS)}, each once")
    for what, number in (("bystander_weight", bystander_weight), ("length_weight", length_weight), ("tokens", tokens)):
        _check(what, number, 0.0, math.inf)
    shares = []
    for part in parts:
        score = given[part]
        if score is None:
            raise InputError(f"{part} has no score; expected 1 to 5, an unscored sample left out, or the part switched off")
        shares.append(normalised(score, preset=preset))
    empathy = harmonic_mean(shares)
    beside = 0.0
    if bystander_weight:
        if bystander is None:
            raise InputError("the bystander gave no score; expected 0 to 100, an unscored sample left out, or a weight of 0")
        _check("bystander", bystander, 0.0, 100.0)
        beside = bystander_weight * (bystander / 100.0 - 1.0)
    length = -length_weight * max(0, tokens - free_tokens) + 0.0  # no -0
    return PermReward(empathy + beside + length, empathy, beside + 0.0, length)


def _check(what: str, number: float, low: float, high: float) -> None:
    if not (low <= number <= high and math.isfinite(number)):
        raise InputError(f"{what} is {number!r}; expected a number from {low:g} to {high:g}")
