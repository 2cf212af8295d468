"""A mean with its interval over people, and the scale that a bar of it is drawn on.

Pure: numbers in, numbers out. Does not cover how an interval comes about (`scoring.statistics`), nor how a bar looks
(`templates/macros.html`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from heartloop.scoring.statistics import bootstrap_interval

__all__ = ["Estimate", "Scale", "estimate"]


class Estimate(NamedTuple):
    """A mean with its 95 % interval over people; `low` and `high` are `None` where one person gives none."""

    n: int
    """Dialogues."""
    mean: float
    low: float | None
    high: float | None


class Scale(NamedTuple):
    """Ends of a bar, and where its broken line stands."""

    low: float
    high: float
    neutral: float


def estimate(values: Sequence[float], clusters: Sequence[Hashable], *, n: int | None = None) -> Estimate | None:
    """Mean and interval over clusters, which are people; `None` without a value.

    Args:
        n: dialogues, where a value is a window and not a dialogue.
    """
    if not len(values):
        return None
    mean, low, high = bootstrap_interval(values, clusters=clusters)
    without = low != low  # nan: one cluster
    return Estimate(len(values) if n is None else n, mean, None if without else low, None if without else high)
