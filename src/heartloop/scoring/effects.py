"""Effects on a score: paired shifts under a perturbation (EMPA section 4, Tables 5 and 6), and the distance of two groups.

Departures: scorers have different units, so a shift is also given in standard deviations of the unperturbed score, and a tie,
which the paper calls a near-zero change without a bound, is a change below 1 % of that standard deviation. Intervals are t
intervals over clusters; the paper's bootstrap resamples pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import EXACT_UP_TO, Interval, by_cluster, cluster_means, mean_interval, permutation_p

TIE = 0.01
"""Changes smaller than this share of the scorer's standard deviation are ties (ours)."""


class Shift(NamedTuple):
    """A score's change over n pairs, perturbed minus original, in the score's own unit unless stated otherwise."""

    n: int
    mean: float
    median: float
    low: float
    """Ends of the 95 % interval of the mean; nan for one cluster."""
    high: float
    decrease_rate: float
    """Share of all pairs that fall and are no tie."""
    tie_rate: float
    p: float
    """Wilcoxon's, two-sided, over pairs as if they were independent."""
    standardised: float
    """Mean over `scale`; nan where that is 0."""
    sensitivity: float
    """Mean size of the change over `scale`; nan where that is 0 (EMPA Figure 5b, standardised by us)."""
    clusters: int
    cluster_mean: float
    """Of the clusters' means; likewise the ends of its interval, and Wilcoxon's p."""
    cluster_low: float
    cluster_high: float
    cluster_p: float


def shift(
    original: Sequence[float],
    perturbed: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    scale: float | None = None,
) -> Shift:
    """The shift of a score over pairs, by default each of its own cluster.

    `scale` is the score's standard deviation without perturbation; by default that of `original` (n - 1).

    >>> change = shift([2.0, 4.0, 6.0, 4.0], [1.0, 4.0, 3.0, 5.0])
    >>> change.mean, change.median, change.decrease_rate, change.tie_rate
    (-0.75, -0.5, 0.5, 0.25)
    """
    if not original or len(original) != len(perturbed):
        raise UseError(f"shift got {len(original)} and {len(perturbed)} values; expected pairs, at least one")
    before_n, after_n = np.asarray(original, dtype=np.float64), np.asarray(perturbed, dtype=np.float64)
    if not (np.isfinite(before_n).all() and np.isfinite(after_n).all()):
        raise UseError("shift got a score that is not finite; leave unscored pairs out")
    if scale is None:
        scale = float(before_n.std(ddof=1)) if len(before_n) > 1 else 0.0
    change_n = after_n - before_n
    tied_n = np.abs(change_n) <= max(TIE * scale, 1e-9 * max(1.0, float(np.abs(before_n).max())))
    change_n[tied_n & (np.abs(change_n) < 1e-9)] = 0.0
    changes: list[float] = change_n.tolist()
    interval = mean_interval(changes, clusters=clusters)
    by_cluster = cluster_means(changes, clusters)
    over_clusters = mean_interval(by_cluster)
    return Shift(
        n=len(changes),
        mean=interval.mean,
        median=float(np.median(change_n)),
        low=interval.low,
        high=interval.high,
        decrease_rate=float(np.mean((change_n < 0) & ~tied_n)),
        tie_rate=float(np.mean(tied_n)),
        p=wilcoxon_p(changes),
        standardised=interval.mean / scale if scale > 0 else math.nan,
        sensitivity=float(np.abs(change_n).mean()) / scale if scale > 0 else math.nan,
        clusters=len(by_cluster),
        cluster_mean=over_clusters.mean,
        cluster_low=over_clusters.low,
        cluster_high=over_clusters.high,
        cluster_p=wilcoxon_p(by_cluster),
    )


def wilcoxon_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test; differences of 0 are left out, and p is 1 if all are 0.

    Exact, also with ties, up to `EXACT_UP_TO` differences other than 0; beyond that by the normal approximation with a
    correction for ties.

    >>> wilcoxon_p([1.0, 2.0, 3.0])  # of 8 patterns of signs, two have the rank sum of 0 on one side
    0.25
    """
    if not differences or not all(map(math.isfinite, differences)):
        raise UseError(f"wilcoxon_p got {len(differences)} values, or one that is not finite; expected finite ones, at least one")
    moved = [value for value in differences if value != 0.0]
    if not moved:
        return 1.0
    from scipy.stats import rankdata, wilcoxon  # a third of a second to import

    if len(moved) <= EXACT_UP_TO:  # scipy's own exact method with ties takes seconds
        return permutation_p((rankdata(np.abs(moved)) * np.sign(moved)).tolist())
    return float(wilcoxon(moved, method="asymptotic").pvalue)


def standardised_distance(
    mine: Sequence[float],
    theirs: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    other_clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """The difference of two means over the root mean square of both standard deviations (Cohen's d with equal weights).

    The 95 % interval is a percentile bootstrap in which clusters are drawn, separately on each side, always with the same random
    numbers; with few clusters it is too narrow. Its ends are nan with one cluster on a side. `None` with fewer than two values on
    a side, or where no value differs from its mean.

    >>> standardised_distance([1.0, 3.0], [0.0, 2.0]).mean
    0.7071067811865475
    """
    if min(len(mine), len(theirs)) < 2:
        return None
    sides = []
    for values, labels in ((mine, clusters), (theirs, other_clusters)):
        sums, sizes = by_cluster("standardised_distance", values, labels)
        squares, _ = by_cluster("standardised_distance", [value * value for value in values], labels)
        sides.append(np.stack([sizes, sums, squares], axis=1))
    mean = _distance(*(side.sum(axis=0) for side in sides))
    if np.isnan(mean):
        return None
    if min(len(side) for side in sides) < 2:
        return Interval(float(mean), float("nan"), float("nan"))
    draw = np.random.default_rng(0)
    drawn = [draw.multinomial(len(side), np.full(len(side), 1 / len(side)), size=2_000) @ side for side in sides]
    low, high = np.nanquantile(_distance(*drawn), [0.025, 0.975])
    return Interval(float(mean), float(low), float(high))


def _distance(mine: NDArray[Any], theirs: NDArray[Any]) -> Any:
    """From the last axis: count, sum, sum of squares; nan without spread."""
    n, total, squares = np.moveaxis(np.stack([mine, theirs]), -1, 0)
    means = total / n
    rest = squares - n * means * means
    rest = np.where(rest < 1e-9 * np.maximum(squares, 1e-300), 0.0, rest)  # rounding, not spread
    pooled = np.sqrt((rest / np.maximum(n - 1, 1)).sum(axis=0) / 2)
    return (means[0] - means[1]) / np.where(pooled > 0, pooled, np.nan)
