"""SAGE's emotion, a number in [0, 100]: bands, update, summary (SAGE App. E, Table 2).

Departures: Appendix C counts a failure at "at most 10", Table 2 at "below 10"; we use "below", as in the definition of band F
(e < 10). The change is clamped to the published range; the released code does not clamp it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from heartloop.core.errors import UseError

Band = Literal["S", "A", "B", "C", "F"]

START = 40.0
"""Emotion before the first reply (SAGE code and logs)."""
CHANGE_LIMIT = 10.0
"""Largest absolute change of one turn (SAGE App. E)."""
SUCCESS_AT = 100.0
FAILURE_BELOW = 10.0
_LOWER_BOUNDS: tuple[tuple[float, Band], ...] = ((SUCCESS_AT, "S"), (70.0, "A"), (40.0, "B"), (FAILURE_BELOW, "C"))


class EmotionSummary(NamedTuple):
    """Number and mean of final emotions, in [0, 100] (nan if n is 0), and counts of success and failure."""

    n: int
    mean: float
    success: int
    failure: int


def band(emotion: float) -> Band:
    """The band of an emotion in [0, 100]: S at 100, A from 70, B from 40, C from 10, F below.

    >>> band(100), band(99.5), band(40), band(9.9)
    ('S', 'A', 'B', 'F')
    """
    if not 0.0 <= emotion <= 100.0:
        raise UseError(f"emotion is {emotion!r}; expected a number from 0 to 100")
    return next((name for bound, name in _LOWER_BOUNDS if emotion >= bound), "F")


def step(emotion: float, change: float) -> float:
    """Emotion after one turn: the change is clamped to ±10, the result to [0, 100].

    >>> step(40, 25), step(4, -10), step(95, 10)
    (50.0, 0.0, 100.0)
    """
    band(emotion)
    if not float("-inf") < change < float("inf"):
        raise UseError(f"change of emotion is {change!r}; expected a finite number")
    clamped = max(-CHANGE_LIMIT, min(CHANGE_LIMIT, change))
    return max(0.0, min(100.0, float(emotion) + clamped))


def summarise(finals: Sequence[float], *, success_at: float = SUCCESS_AT, failure_below: float = FAILURE_BELOW) -> EmotionSummary:
    """Mean final emotion, and counts of success (at least `success_at`) and failure (below `failure_below`).

    >>> summarise([100, 40, 5])
    EmotionSummary(n=3, mean=48.333333333333336, success=1, failure=1)
    >>> summarise([100, 40, 5], success_at=40)
    EmotionSummary(n=3, mean=48.333333333333336, success=2, failure=1)
    """
    if not 0.0 <= failure_below < success_at <= 100.0:
        raise UseError(
            f"success is counted from {success_at!r} and failure below {failure_below!r}; "
            "expected numbers from 0 to 100 with failure below success"
        )
    for final in finals:
        band(final)
    success, failure = sum(final >= success_at for final in finals), sum(final < failure_below for final in finals)
    mean = sum(finals) / len(finals) if finals else float("nan")
    return EmotionSummary(len(finals), mean, success, failure)
