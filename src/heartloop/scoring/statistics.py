"""Intervals for means of few, clustered measurements, and agreement between judges and rankings.

Covers the percentile bootstrap over clusters (scenarios), the mean Pearson correlation of judges (RLVER Table 5) and
Spearman's rho between rankings (SAGE Table 1, EIBench Table 5). Does not cover tests between models: they come with
`heartloop compare`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heartloop.errors import UseError

__all__ = ["Interval", "SpearmanMatrix", "bootstrap_interval", "mean_pairwise_pearson", "spearman_matrix"]


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


class SpearmanMatrix(NamedTuple):
    """Spearman's rho between every two of r rankings, and how many entries each value rests on."""

    names: tuple[str, ...]
    rho_r_r: npt.NDArray[np.float64]
    n_r_r: npt.NDArray[np.int64]

    def between(self, first: str, second: str) -> float:
        """The value for two rankings by name."""
        return float(self.rho_r_r[self.names.index(first), self.names.index(second)])


def mean_pairwise_pearson(judges_by_models: npt.ArrayLike) -> float:
    """Agreement of judges: Pearson's r between every two of them over the models, averaged over the pairs.

    Args:
        judges_by_models: scores, shape (j, m): a row a judge, a column a model.

    Raises:
        UseError: fewer than two judges or models, a score that is no finite number, or a judge who gives all models the
            same, to whom r is not defined.

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
    """Spearman's rho between rankings, each pair over the entries both hold; ties share their mean rank.

    Args:
        table: score by entry (a model) by ranking. An entry left out of one ranking, such as a model that would be judged
            by itself, is left out of that ranking's pairs only.

    Raises:
        UseError: fewer than two rankings, a pair with fewer than two common entries, a score that is no finite number, or
            a ranking that puts all common entries level.

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
            raise UseError(f"{name} holds a score that is no finite number; leave that entry out")
        if min(scores) == max(scores):
            raise UseError(f"{name} scores everything {scores[0]:g}; a correlation needs scores that differ")
