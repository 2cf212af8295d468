"""Intervals for means of few, clustered measurements.

Covers the percentile bootstrap over clusters (scenarios). Does not cover tests between models: they come
with `heartloop compare`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from heartloop.errors import UseError

__all__ = ["Interval", "bootstrap_interval"]


class Interval(NamedTuple):
    """A mean with the ends of its interval; the ends are nan where one cluster gives no spread to resample."""

    mean: float
    low: float
    high: float


def bootstrap_interval(
    values: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile-bootstrap interval of the mean, resampling whole clusters.

    Args:
        values: measurements, shape (n,).
        clusters: what each value belongs to (the scenario), shape (n,); by default every value is its own.
            A cluster's repeats travel together, so that repeating a scenario does not feign more evidence.
        level: coverage in (0, 1).

    Raises:
        UseError: no value, lengths that differ, or a level outside (0, 1).

    >>> bootstrap_interval([50.0, 50.0, 50.0])
    Interval(mean=50.0, low=50.0, high=50.0)
    """
    if not values:
        raise UseError("bootstrap_interval got no values; expected at least one")
    if clusters is not None and len(clusters) != len(values):
        raise UseError(f"bootstrap_interval got {len(values)} values and {len(clusters)} clusters; expected as many")
    if not 0.0 < level < 1.0:
        raise UseError(f"level is {level!r}; expected a number between 0 and 1")
    labels = list(range(len(values))) if clusters is None else list(clusters)
    index = {label: position for position, label in enumerate(dict.fromkeys(labels))}
    sums_c = np.zeros(len(index))
    sizes_c = np.zeros(len(index))
    for label, value in zip(labels, values, strict=True):
        sums_c[index[label]] += value
        sizes_c[index[label]] += 1
    mean = float(sums_c.sum() / sizes_c.sum())
    if len(index) == 1:
        return Interval(mean, float("nan"), float("nan"))
    draws_r_c = np.random.default_rng(seed).integers(0, len(index), size=(resamples, len(index)))
    means_r = sums_c[draws_r_c].sum(axis=1) / sizes_c[draws_r_c].sum(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means_r, [tail, 1.0 - tail])
    return Interval(mean, float(low), float(high))
