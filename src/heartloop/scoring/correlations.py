"""Correlations with intervals.

Pure: numbers in, numbers out. Does not cover agreement over many raters (`statistics.mean_pairwise_pearson`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import Interval

__all__ = ["pearson_if_known", "pearson_interval"]


def pearson_interval(a: Sequence[float], b: Sequence[float], *, level: float = 0.95) -> Interval:
    """Pearson's r with its interval by Fisher's z, `tanh(atanh(r) ± z / sqrt(n - 3))`.

    The ends are nan below four pairs, and all three are nan where one side does not vary.

    Args:
        a: values, shape (n,); n at least 2.
        b: values of the same things, shape (n,).
        level: coverage in (0, 1).

    Raises:
        UseError: lengths that differ, or fewer than two pairs.

    >>> [round(value, 3) for value in pearson_interval([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])[:3]]
    [0.8, -0.28, 0.986]
    """
    if len(a) != len(b) or len(a) < 2:
        raise UseError(f"pearson_interval: {len(a)} and {len(b)} values; expected as many on both sides, at least two")
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Interval(math.nan, math.nan, math.nan)
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1.0, 1.0))
    if len(x) < 4:
        return Interval(r, math.nan, math.nan)
    if abs(r) == 1.0:
        return Interval(r, r, r)
    half = float(norm.ppf(0.5 + level / 2)) / math.sqrt(len(x) - 3)
    return Interval(r, math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))


def pearson_if_known(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """`pearson_interval` for a report: `None` below three pairs, where r says nothing, and where one side does not vary.

    >>> pearson_if_known([1, 2], [1, 2]) is None, pearson_if_known([1, 1, 1], [1, 2, 3]) is None
    (True, True)
    """
    found = pearson_interval(a, b) if len(a) >= 3 else None
    return None if found is None or math.isnan(found.mean) else found
