"""Intervals, paired tests and correlations for few, clustered measurements.

The unit of evidence is the scenario, whose repeats stay together.
The t interval over clusters covers more with few scenarios than the percentile bootstrap, BCa and bootstrap-t, which
benchmarks/coverage.py simulates for the score distributions of the embedded user (benchmarks/results/coverage.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Estimate
from heartloop.core.errors import UseError

EXACT_UP_TO = 13
"""Up to this number of clusters with a difference, all sign patterns are enumerated; beyond it, patterns are drawn at random."""
_ROUNDING = 1e-9  # sums whose difference is below this share of the summands' total size are equal
_COCHRAN = 25.0
"""The t interval needs more clusters than this times their squared skewness (Cochran 1977, Sampling Techniques, section 2.15)."""

_Floats = np.ndarray[Any, np.dtype[np.float64]]


class Shape(StrEnum):
    """How the clusters are distributed, and so how far an interval can be trusted."""

    NEAR_NORMAL = "near normal"
    SKEWED = "skewed"
    """Too skewed for this number of clusters: the interval covers less than its level says."""
    CONSTANT = "constant"
    """All clusters are equal: the interval has no width, which does not show that the next cluster is equal, too."""
    SINGLE = "one cluster"


class Interval(NamedTuple):
    """A mean with the ends of its interval; the ends are nan for one cluster."""

    mean: float
    low: float
    high: float
    shape: Shape = Shape.NEAR_NORMAL

    def of(self, n: int) -> Estimate:
        """An estimate from n values, without ends where they are nan."""
        return Estimate(n, self.mean, None if math.isnan(self.low) else self.low, None if math.isnan(self.high) else self.high)

    def words(self, digits: int = 2) -> str:
        return self.of(0).words(digits)


def mean_interval(
    values: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    within: tuple[float, float] | None = None,
) -> Interval:
    """The mean of all values with its t interval over clusters.

    The standard error is that of a ratio estimate, which for clusters of equal size is the standard error of the mean of cluster
    means (Cochran 1977, equation 6.13; the cluster-robust error CR1 of a regression on a constant): with c clusters of sums s and
    sizes n, sqrt(c / (c - 1) * sum((s - mean * n)^2)) / sum(n), and c - 1 degrees of freedom.

    `shape` is `SKEWED` where c is at most 25 times the squared skewness of the clusters, by Cochran's rule, and the skewness is
    more than 1.96 times its standard error in a normal sample; without the second condition a third of normal samples of ten
    clusters would be marked.

    Args:
        clusters: the cluster of each value (its scenario), shape (n,); by default every value is its own cluster.
        within: lowest and highest possible value. An end beyond is moved to it, unless a value lies beyond, too.

    >>> mean_interval([50.0, 50.0, 50.0])
    Interval(mean=50.0, low=50.0, high=50.0, shape=<Shape.CONSTANT: 'constant'>)
    >>> low, high = mean_interval([40.0, 50.0, 60.0])[1:3]  # 50 -+ 4.303 * 10 / sqrt(3)
    >>> round(low, 2), round(high, 2)
    (25.16, 74.84)
    """
    check_share("level", level)
    sums_c, sizes_c = by_cluster("mean_interval", values, clusters)
    n, c = float(sizes_c.sum()), len(sums_c)
    mean = float(sums_c.sum()) / n
    if c == 1:
        return Interval(mean, math.nan, math.nan, Shape.SINGLE)
    residuals_c = sums_c - mean * sizes_c
    size = float(np.abs(sums_c).max())
    if float(np.abs(residuals_c).max()) <= _ROUNDING * size:
        return Interval(mean, mean, mean, Shape.CONSTANT)
    error = math.sqrt(c / (c - 1) * float(np.sum(residuals_c**2))) / n
    reach = t_quantile(0.5 + level / 2.0, c - 1) * error
    low, high = mean - reach, mean + reach
    if within is not None:
        low, high = max(low, min(within[0], *values)), min(high, max(within[1], *values))
    return Interval(mean, low, high, Shape.SKEWED if _skewed(residuals_c) else Shape.NEAR_NORMAL)


def _skewed(residuals_c: _Floats) -> bool:
    c = len(residuals_c)
    if c < 3:
        return False  # two clusters are always symmetric
    deviations_c = (residuals_c - residuals_c.mean()) / np.abs(residuals_c).max()
    moment = float(np.mean(deviations_c**3)) / float(np.mean(deviations_c**2)) ** 1.5
    skewness = moment * math.sqrt(c * (c - 1)) / (c - 2)
    error = math.sqrt(6.0 * c * (c - 1) / ((c - 2) * (c + 1) * (c + 3)))
    return bool(c <= _COCHRAN * skewness**2 and abs(skewness) > 1.96 * error)


def t_quantile(share: float, df: float) -> float:
    """Quantile of Student's t with `df` degrees of freedom, which may be fractional or infinite.

    >>> round(t_quantile(0.975, 9), 3), round(t_quantile(0.975, float("inf")), 3)
    (2.262, 1.96)
    """
    from scipy.special import stdtrit  # a quarter of a second to import

    return NormalDist().inv_cdf(share) if math.isinf(df) else float(stdtrit(df, share))


def share_interval(successes: int, n: int, *, clusters: int | None = None, level: float = 0.95) -> Interval:
    """A share with Wilson's interval, in [0, 1]; it covers also with few trials and shares near 0 or 1 (Wilson 1927).

    `clusters` are independent things behind the trials, such as scenarios behind dialogues with repeats. The interval is that of
    the same share over so many trials: right where repeats end alike, too wide where they differ.

    >>> [round(value, 3) for value in share_interval(9, 10)[:3]]
    [0.9, 0.596, 0.982]
    """
    check_share("level", level)
    if not 0 <= successes <= n or n < 1:
        raise UseError(f"share_interval got {successes} of {n}; expected at least one trial, and from 0 to as many successes")
    if clusters is not None and not 1 <= clusters <= n:
        raise UseError(f"share_interval got {clusters} clusters of {n} trials; expected from 1 to as many clusters as trials")
    from scipy.special import ndtri  # a quarter of a second to import

    share, n, z = successes / n, clusters or n, -float(ndtri((1.0 - level) / 2.0))
    centre = share + z**2 / (2.0 * n)
    reach = z * math.sqrt(share * (1.0 - share) / n + z**2 / (4.0 * n**2))
    low, high = ((centre + sign * reach) / (1.0 + z**2 / n) for sign in (-1.0, 1.0))
    return Interval(share, low if successes else 0.0, high if share < 1.0 else 1.0)  # exact ends without rounding


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """Mean of b - a over pairs with its `mean_interval`.

    >>> paired_difference([40.0, 50.0], [43.0, 53.0])[:3]
    (3.0, 3.0, 3.0)
    """
    if len(a) != len(b):
        raise UseError(f"paired_difference got {len(a)} and {len(b)} values; expected pairs")
    return mean_interval([y - x for x, y in zip(a, b, strict=True)], clusters=clusters, level=level)


def permutation_p(
    differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None, draws: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p of the sign-flip permutation test over clusters, for a mean difference of zero.

    Under the null hypothesis each cluster's difference has either sign with equal probability. All sign patterns are enumerated
    for up to `EXACT_UP_TO` clusters with a difference other than 0; beyond that, `draws` patterns are drawn and p is never 0.
    With n clusters p is at least 2 / 2^n.

    >>> permutation_p([1.0, 2.0, 3.0])  # of 8 patterns, two reach a sum of 6
    0.25
    """
    from scipy.stats import permutation_test  # a third of a second to import

    sums_c, _ = by_cluster("permutation_p", differences, clusters)
    total = float(np.abs(sums_c).sum()) or 1.0
    whole_c = np.rint(sums_c / (_ROUNDING * total))  # whole numbers, whose sums have no rounding errors
    whole_c = whole_c[whole_c != 0.0]
    if len(whole_c) < 2:
        return 1.0
    patterns = np.inf if len(whole_c) <= EXACT_UP_TO else draws
    batch = max(1, min(1_000, 1_000_000 // len(whole_c)))  # patterns in memory at once
    result = permutation_test(
        (whole_c,), np.sum, permutation_type="samples", n_resamples=patterns, batch=batch, vectorized=True, rng=seed
    )
    return float(result.pvalue)


def cluster_means(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> list[float]:
    """The mean of each cluster, in the order of first appearance.

    >>> cluster_means([1.0, 5.0, 3.0], ["a", "b", "a"])
    [2.0, 5.0]
    """
    sums_c, sizes_c = by_cluster("cluster_means", values, clusters)
    return [float(mean) for mean in sums_c / sizes_c]


def cohens_dz(differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> float:
    """Paired effect size: mean over standard deviation (n - 1) of the clusters' mean differences (Cohen's d_z).

    0 where all clusters are 0; infinite where all share another value; nan for one cluster.

    >>> cohens_dz([1.0, 2.0, 3.0])
    2.0
    """
    means_c = np.array(cluster_means(differences, clusters))
    if len(means_c) == 1:
        return float("nan")
    mean, spread = float(means_c.mean()), float(means_c.std(ddof=1))
    if spread <= _ROUNDING * float(np.abs(means_c).max()):
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / spread


def rank_biserial(differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> float:
    """Matched-pairs rank-biserial correlation of the clusters' mean differences, in [-1, 1].

    Clusters are ranked by the size of their difference (ties share the mean rank, zeros are left out). The value is the rank sum
    of the positive differences minus that of the negative ones, over their total (Kerby 2014); 1: every difference is positive.

    >>> rank_biserial([1.0, -2.0, 3.0, 4.0])  # ranks 1, 3, 4 against 2
    0.6
    """
    means_c = np.array(cluster_means(differences, clusters))
    means_c = means_c[means_c != 0.0]
    if not len(means_c):
        return 0.0
    from scipy.stats import rankdata  # a third of a second to import

    ranks_c = rankdata(np.abs(means_c))
    return float((ranks_c * np.sign(means_c)).sum() / ranks_c.sum())


def check_share(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise UseError(f"{name} is {value!r}; expected a number between 0 and 1")


def by_cluster(name: str, values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[_Floats, _Floats]:
    """Sum and size of each cluster, shapes (c,), in the order of first appearance."""
    if not values:
        raise UseError(f"{name} got no values; expected at least one")
    if clusters is not None and len(clusters) != len(values):
        raise UseError(f"{name} got {len(values)} values and {len(clusters)} clusters; expected as many")
    labels = range(len(values)) if clusters is None else clusters
    index = {label: position for position, label in enumerate(dict.fromkeys(labels))}
    places = [index[label] for label in labels]
    sums_c, sizes_c = np.bincount(places, weights=values), np.bincount(places)
    return sums_c.astype(np.float64), sizes_c.astype(np.float64)


def pearson_interval(a: Sequence[float], b: Sequence[float], *, level: float = 0.95) -> Interval:
    """Pearson's r with its interval by Fisher's z, `tanh(atanh(r) ± z / sqrt(n - 3))`.

    The ends are nan below four pairs, and all three are nan where one side does not vary.

    >>> [round(value, 3) for value in pearson_interval([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])[:3]]
    [0.8, -0.28, 0.986]
    """
    if len(a) != len(b) or len(a) < 2:
        raise UseError(f"pearson_interval: {len(a)} and {len(b)} values; expected as many on both sides, at least two")
    if len(set(a)) == 1 or len(set(b)) == 1:
        return Interval(math.nan, math.nan, math.nan)
    from scipy.stats import pearsonr  # a third of a second to import

    result = pearsonr(a, b)
    low, high = result.confidence_interval(level) if len(a) > 3 else (math.nan, math.nan)
    return Interval(float(result.statistic), float(low), float(high))


def pearson_if_known(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """`pearson_interval` for a report: `None` below three pairs, where r says nothing, and where one side does not vary.

    >>> pearson_if_known([1, 2], [1, 2]) is None, pearson_if_known([1, 1, 1], [1, 2, 3]) is None
    (True, True)
    """
    found = pearson_interval(a, b) if len(a) >= 3 else None
    return None if found is None or math.isnan(found.mean) else found


def estimate(
    values: Sequence[float], clusters: Sequence[Hashable], *, n: int | None = None, within: tuple[float, float] | None = None
) -> Estimate | None:
    """Mean and interval over clusters, which are scenarios; `None` without a value. `n`: dialogues, where values are windows."""
    if not len(values):
        return None
    return mean_interval(values, clusters=clusters, within=within).of(len(values) if n is None else n)
