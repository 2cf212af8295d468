"""How far two groups of values lie apart, in standard deviations.

Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heartloop.scoring.statistics import Interval

__all__ = ["standardised_distance"]

_Floats = NDArray[Any]


def standardised_distance(
    mine: Sequence[float],
    theirs: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    other_clusters: Sequence[Hashable] | None = None,
    rounds: int = 2_000,
) -> Interval | None:
    """The difference of two means over the root mean square of both standard deviations (Cohen's d with equal weights).

    The 95 % interval is a percentile bootstrap in which clusters are drawn, separately on each side, always with the same random
    numbers; with few clusters it is too narrow. Its ends are nan with one cluster on a side.

    Args:
        clusters: along `mine`, what is drawn whole; by default each value.
        other_clusters: along `theirs`.

    Returns:
        `None` with fewer than two values on a side, or where no value differs from its mean.

    >>> standardised_distance([1.0, 3.0], [0.0, 2.0]).mean
    0.7071067811865475
    """
    if min(len(mine), len(theirs)) < 2:
        return None
    sides = [_sums(mine, clusters), _sums(theirs, other_clusters)]
    mean = _distance(*(side.sum(axis=0) for side in sides))
    if np.isnan(mean):
        return None
    if min(len(side) for side in sides) < 2:
        return Interval(float(mean), float("nan"), float("nan"))
    draw = np.random.default_rng(0)
    drawn = [draw.multinomial(len(side), np.full(len(side), 1 / len(side)), size=rounds) @ side for side in sides]
    low, high = np.nanquantile(_distance(*drawn), [0.025, 0.975])
    return Interval(float(mean), float(low), float(high))


def _sums(values: Sequence[float], clusters: Sequence[Hashable] | None) -> _Floats:
    """Count, sum and sum of squares of each cluster."""
    keys = range(len(values)) if clusters is None else clusters
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    sums = np.zeros((len(place), 3))
    for value, key in zip(values, keys, strict=True):
        sums[place[key]] += (1.0, value, value * value)
    return sums


def _distance(mine: _Floats, theirs: _Floats) -> Any:
    """From the last axis: count, sum, sum of squares; nan without spread."""
    means, spreads = [], []
    for side in (mine, theirs):
        n, total, squares = np.moveaxis(side, -1, 0)
        mean = total / n
        rest = squares - n * mean * mean
        rest = np.where(rest < 1e-9 * np.maximum(squares, 1e-300), 0.0, rest)  # rounding, not spread
        means.append(mean)
        spreads.append(rest / np.maximum(n - 1, 1))
    pooled = np.sqrt((spreads[0] + spreads[1]) / 2)
    return (means[0] - means[1]) / np.where(pooled > 0, pooled, np.nan)
