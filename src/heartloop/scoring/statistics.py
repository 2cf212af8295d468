"""Intervals, paired tests, sample sizes and agreement for few, clustered measurements.

Covers the percentile bootstrap over clusters (scenarios), two models on the same dialogues (difference, sign-flip permutation
test, effect sizes), the number of scenarios needed to detect a difference, rank groups, the mean Pearson correlation of judges
(RLVER Table 5) and Spearman's rho between rankings (SAGE Table 1, EIBench Table 5). The unit of evidence is the scenario
throughout: its repeats are resampled together. There is no correction for multiple comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heartloop.core.errors import UseError

__all__ = [
    "EXACT_UP_TO", "Interval", "SpearmanMatrix", "bootstrap_interval", "cluster_means", "cohens_dz", "mean_pairwise_pearson",
    "paired_difference", "permutation_p", "rank_biserial", "rank_groups", "sample_size_for", "sign_agreement", "spearman_matrix",
]  # fmt: skip

EXACT_UP_TO = 20
"""Up to this number of clusters with a difference, all sign patterns are enumerated; beyond it, patterns are drawn at random."""
_DRAWN_AT_ONCE = 1_000
_ROUNDING = 1e-9
"""Sums whose difference is below this share of the summands' total size are equal."""

_Floats = np.ndarray[Any, np.dtype[np.float64]]


class Interval(NamedTuple):
    """A mean with the ends of its interval; the ends are nan for one cluster."""

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
        clusters: the cluster of each value (its scenario), shape (n,); by default every value is its own cluster. A cluster's
            repeats are resampled together, so that repeats do not count as more evidence.
        level: coverage in (0, 1).

    Raises:
        UseError: no values, lengths that differ, or a level outside (0, 1).

    >>> bootstrap_interval([50.0, 50.0, 50.0])
    Interval(mean=50.0, low=50.0, high=50.0)
    """
    _check_share("level", level)
    sums_c, sizes_c = _by_cluster("bootstrap_interval", values, clusters)
    mean = float(sums_c.sum() / sizes_c.sum())
    if len(sums_c) == 1:
        return Interval(mean, float("nan"), float("nan"))
    draws_r_c = np.random.default_rng(seed).integers(0, len(sums_c), size=(resamples, len(sums_c)))
    means_r = sums_c[draws_r_c].sum(axis=1) / sizes_c[draws_r_c].sum(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means_r, [tail, 1.0 - tail])
    return Interval(mean, float(low), float(high))


def paired_difference(
    a: Sequence[float],
    b: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean of b - a over pairs with its `bootstrap_interval`.

    Args:
        a, b: the two measurements of each pair, shape (n,).
        clusters: the scenario of each pair, shape (n,).

    Raises:
        UseError: no pairs, lengths that differ, or a level outside (0, 1).

    >>> paired_difference([40.0, 50.0], [43.0, 53.0])
    Interval(mean=3.0, low=3.0, high=3.0)
    """
    if len(a) != len(b):
        raise UseError(f"paired_difference got {len(a)} and {len(b)} values; expected pairs")
    differences = [y - x for x, y in zip(a, b, strict=True)]
    return bootstrap_interval(differences, clusters=clusters, level=level, resamples=resamples, seed=seed)


def permutation_p(
    differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None, draws: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p of the sign-flip permutation test over clusters, for a mean difference of zero.

    Under the null hypothesis each cluster's difference has either sign with equal probability. All sign patterns are enumerated
    for up to `EXACT_UP_TO` clusters with a difference other than 0; beyond that, `draws` patterns are drawn and p is (hits + 1)
    / (draws + 1), which is never 0. With n clusters p is at least 2 / 2^n.

    Raises:
        UseError: no differences, or another number of clusters.

    >>> permutation_p([1.0, 2.0, 3.0])  # of 8 patterns, two reach a sum of 6
    0.25
    """
    sums_c, _ = _by_cluster("permutation_p", differences, clusters)
    slack = _ROUNDING * float(np.abs(sums_c).sum())
    sums_c = sums_c[np.abs(sums_c) > slack]
    if not len(sums_c):
        return 1.0
    observed = abs(float(sums_c.sum())) - slack
    if len(sums_c) <= EXACT_UP_TO:
        totals = sums_c[:1]  # the first sign is fixed: the other half of the patterns mirrors these
        for value in sums_c[1:]:
            totals = np.concatenate([totals + value, totals - value])
        return float(np.mean(np.abs(totals) >= observed))
    random, hits = np.random.default_rng(seed), 0
    for start in range(0, draws, _DRAWN_AT_ONCE):
        shape = (min(_DRAWN_AT_ONCE, draws - start), len(sums_c))
        signs_r_c = 2.0 * random.integers(0, 2, size=shape, dtype=np.int8) - 1.0
        hits += int(np.sum(np.abs(signs_r_c @ sums_c) >= observed))
    return (hits + 1) / (draws + 1)


def cluster_means(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> list[float]:
    """The mean of each cluster, in the order of first appearance.

    Raises:
        UseError: no values, or another number of clusters.

    >>> cluster_means([1.0, 5.0, 3.0], ["a", "b", "a"])
    [2.0, 5.0]
    """
    sums_c, sizes_c = _by_cluster("cluster_means", values, clusters)
    return [float(mean) for mean in sums_c / sizes_c]


def cohens_dz(differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> float:
    """Paired effect size: mean over standard deviation (n - 1) of the clusters' mean differences (Cohen's d_z).

    0 where all clusters are 0; infinite where all share another value; nan for one cluster.

    Raises:
        UseError: no differences, or another number of clusters.

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

    Raises:
        UseError: no differences, or another number of clusters.

    >>> rank_biserial([1.0, -2.0, 3.0, 4.0])  # ranks 1, 3, 4 against 2
    0.6
    """
    means_c = np.array(cluster_means(differences, clusters))
    means_c = means_c[means_c != 0.0]
    if not len(means_c):
        return 0.0
    _, place_c, counts = np.unique(np.abs(means_c), return_inverse=True, return_counts=True)
    ranks_c = (np.cumsum(counts) - (counts - 1) / 2.0)[place_c]
    return float((ranks_c * np.sign(means_c)).sum() / ranks_c.sum())


def sample_size_for(difference: float, sd: float, *, power: float = 0.8, level: float = 0.95) -> int:
    """Number of clusters (scenarios) needed to detect a paired difference, at least 2.

    Normal approximation: n = ((z(1 - (1 - level)/2) + z(power)) * sd / difference)^2, rounded up, where z are quantiles of the
    standard normal and `sd` is the standard deviation of the clusters' differences. Slightly too low below 30.

    Raises:
        UseError: a difference of 0, a negative sd, a value that is not finite, or a power or level outside (0, 1).

    >>> sample_size_for(5.0, 10.0)  # ((1.960 + 0.842) * 2)^2 = 31.4
    32
    """
    _check_share("power", power)
    _check_share("level", level)
    if not math.isfinite(difference) or difference == 0.0:
        raise UseError(f"difference is {difference!r}; expected a finite number other than 0")
    if not (math.isfinite(sd) and sd >= 0.0):
        raise UseError(f"sd is {sd!r}; expected a finite number of at least 0")
    normal = NormalDist()
    factor = normal.inv_cdf(1.0 - (1.0 - level) / 2.0) + normal.inv_cdf(power)
    return max(2, math.ceil((factor * sd / difference) ** 2))


def rank_groups(
    values_m_n: Sequence[Sequence[float]],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[int]:
    """Rank group of each model, from 1, in the order given.

    In order of falling mean, a model whose paired interval to the first model of the current group excludes 0 starts the next
    group. So no model of a group is significantly below its first; two others may still differ.

    Args:
        values_m_n: for each model its measurements of the same n dialogues, in the same order.
        clusters: the scenario of each dialogue, shape (n,).

    Raises:
        UseError: models with different numbers of values, no values, or a level outside (0, 1).

    >>> rank_groups([[40.0, 42.0], [70.0, 73.0], [71.0, 70.0]])
    [2, 1, 1]
    """
    if len({len(values) for values in values_m_n}) > 1:
        raise UseError("rank_groups got models with different numbers of values; expected the same dialogues for each")
    order = sorted(range(len(values_m_n)), key=lambda m: -sum(values_m_n[m]))
    groups, first, group = [0] * len(order), -1, 0
    for model in order:
        if first >= 0:
            gap = paired_difference(
                values_m_n[model], values_m_n[first], clusters=clusters, level=level, resamples=resamples, seed=seed
            )
        if first < 0 or gap.low > 0.0:  # nan (one cluster) is not above 0
            first, group = model, group + 1
        groups[model] = group
    return groups


def _check_share(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise UseError(f"{name} is {value!r}; expected a number between 0 and 1")


def _by_cluster(name: str, values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[_Floats, _Floats]:
    """Sum and size of each cluster, shapes (c,), in the order of first appearance."""
    if not values:
        raise UseError(f"{name} got no values; expected at least one")
    if clusters is not None and len(clusters) != len(values):
        raise UseError(f"{name} got {len(values)} values and {len(clusters)} clusters; expected as many")
    labels = list(range(len(values))) if clusters is None else list(clusters)
    index = {label: position for position, label in enumerate(dict.fromkeys(labels))}
    sums_c, sizes_c = np.zeros(len(index)), np.zeros(len(index))
    for label, value in zip(labels, values, strict=True):
        sums_c[index[label]] += value
        sizes_c[index[label]] += 1
    return sums_c, sizes_c


def sign_agreement(a: Sequence[float], b: Sequence[float]) -> float:
    """Share of pairs with the same sign: both above 0, both 0, or both below 0 (RLVER's agreement of a judge).

    Args:
        a, b: the two measurements of each pair, shape (n,).

    Raises:
        UseError: no pair, or lengths that differ.

    >>> sign_agreement([5.0, 0.0, -3.0, 2.0], [1.0, 0.0, 4.0, 0.0])
    0.5
    """
    if not a or len(a) != len(b):
        raise UseError(f"sign_agreement got {len(a)} and {len(b)} values; expected pairs, at least one")
    return float(np.mean(np.sign(a) == np.sign(b)))


class SpearmanMatrix(NamedTuple):
    """Spearman's rho between every two of r rankings, and the number of entries behind each value."""

    names: tuple[str, ...]
    rho_r_r: npt.NDArray[np.float64]
    n_r_r: npt.NDArray[np.int64]

    def between(self, first: str, second: str) -> float:
        """Rho of two rankings by name."""
        return float(self.rho_r_r[self.names.index(first), self.names.index(second)])


def mean_pairwise_pearson(judges_by_models: npt.ArrayLike) -> float:
    """Agreement of judges: Pearson's r over the models, averaged over all pairs of judges.

    Args:
        judges_by_models: scores, shape (j, m).

    Raises:
        UseError: fewer than two judges or models, a score that is not finite, or a judge with the same score for all models, for
            which r is undefined.

    >>> round(mean_pairwise_pearson([[1, 2, 3], [2, 4, 6], [3, 2, 1]]), 4)  # r: 1, -1, -1
    -0.3333
    """
    scores_j_m = np.asarray(judges_by_models, dtype=np.float64)
    if scores_j_m.ndim != 2 or min(scores_j_m.shape) < 2:
        raise UseError(f"mean_pairwise_pearson got shape {scores_j_m.shape}; expected at least two judges by two models")
    _varied({f"judge {row}": list(scores) for row, scores in enumerate(scores_j_m.tolist(), start=1)})
    r_j_j: npt.NDArray[np.float64] = np.asarray(np.corrcoef(scores_j_m))
    return float(r_j_j[np.triu_indices(len(r_j_j), k=1)].mean())


def spearman_matrix(table: Mapping[str, Mapping[str, float]]) -> SpearmanMatrix:
    """Spearman's rho between rankings, each pair over its common entries; ties share their mean rank.

    Args:
        table: score by entry (a model) by ranking. An entry missing from a ranking, such as a model that would judge itself, is
            left out of that ranking's pairs only.

    Raises:
        UseError: fewer than two rankings, a pair with fewer than two common entries, a score that is not finite, or a ranking
            with the same score for all common entries.

    >>> spearman_matrix({"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 10, "y": 30, "z": 20}}).between("a", "b")
    0.5
    """
    from scipy.stats import rankdata  # a third of a second to import

    names = tuple(table)
    if len(names) < 2:
        raise UseError(f"spearman_matrix got {len(names)} rankings; expected at least two")
    rho_r_r = np.eye(len(names))
    n_r_r = np.diag([len(table[name]) for name in names])
    for i, j in combinations(range(len(names)), 2):
        common = [entry for entry in table[names[i]] if entry in table[names[j]]]
        pair = {name: [float(table[name][entry]) for entry in common] for name in (names[i], names[j])}
        if len(common) < 2:
            raise UseError(f"rankings {names[i]!r} and {names[j]!r} share {len(common)} entries; expected at least two")
        _varied(pair)
        rho_r_r[i, j] = rho_r_r[j, i] = np.corrcoef(*(rankdata(scores) for scores in pair.values()))[0, 1]
        n_r_r[i, j] = n_r_r[j, i] = len(common)
    return SpearmanMatrix(names, rho_r_r, n_r_r)


def _varied(rows: Mapping[str, Sequence[float]]) -> None:
    for name, scores in rows.items():
        if not np.isfinite(scores).all():
            raise UseError(f"{name} has a score that is not finite; expected finite scores: leave that entry out")
        if min(scores) == max(scores):
            raise UseError(f"{name} has the same score {scores[0]:g} for all entries; expected scores that differ")
