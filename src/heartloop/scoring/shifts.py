"""Effects of a perturbation on a score: paired shifts, shares that fall or tie, Wilcoxon's test (EMPA section 4, Tables 5 and 6).

Covers one scorer and one perturbation over pairs. Does not cover what is perturbed (`heartloop.validity`), nor differences
between models (`statistics`).

Ours: scorers have different units, so a shift is also given in standard deviations of the unperturbed score, and a tie, which the
paper calls a near-zero change without a bound, is a change below 1 % of that standard deviation. Intervals are t
intervals over clusters; the paper's bootstrap resamples pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import EXACT_UP_TO, cluster_means, mean_interval, permutation_p

__all__ = ["TIE", "Shift", "shift", "wilcoxon_p"]

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
    """Share of all pairs that fall and are no tie, in [0, 1]."""
    tie_rate: float
    """Share of pairs that tie, in [0, 1]."""
    p: float
    """Wilcoxon's, two-sided, over pairs as if they were independent."""
    standardised: float
    """Mean over `scale`; nan where that is 0."""
    sensitivity: float
    """Mean size of the change over `scale`; nan where that is 0 (EMPA Figure 5b, standardised by us)."""
    clusters: int
    cluster_mean: float
    """Mean of the clusters' means."""
    cluster_low: float
    cluster_high: float
    cluster_p: float
    """Wilcoxon's over the clusters' means."""


def shift(
    original: Sequence[float],
    perturbed: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    scale: float | None = None,
) -> Shift:
    """The shift of a score over pairs.

    Args:
        original, perturbed: the score of each pair, shape (n,).
        clusters: the cluster of each pair (its scenario), shape (n,); by default every pair is its own cluster.
        scale: the score's standard deviation without perturbation; by default that of `original` (n - 1).

    Raises:
        UseError: no pairs, lengths that differ, or a score that is not finite.

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

    Raises:
        UseError: no differences, or one that is not finite.

    >>> wilcoxon_p([1.0, 2.0, 3.0])  # of 8 patterns of signs, two have the rank sum of 0 on one side
    0.25
    """
    if not differences or not all(map(math.isfinite, differences)):
        raise UseError(f"wilcoxon_p got {len(differences)} values, or one that is not finite; expected finite ones, at least one")
    moved = [value for value in differences if value != 0.0]
    if not moved:
        return 1.0
    from scipy.stats import rankdata, wilcoxon  # a third of a second to import

    if len(moved) <= EXACT_UP_TO:  # scipy's exact method with ties takes seconds
        ranks = rankdata(np.abs(moved))
        return permutation_p([float(rank) * math.copysign(1.0, value) for rank, value in zip(ranks, moved, strict=True)])
    return float(wilcoxon(moved, method="asymptotic").pvalue)
