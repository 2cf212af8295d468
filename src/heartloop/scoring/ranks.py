"""Ranks of several models on the same dialogues: groups and simultaneous rank intervals, corrected for the number of comparisons.

Groups and intervals come from one family of paired t tests, so that they cannot contradict each other. The rank interval of a
model counts the models that are significantly better and worse (Al Mohamad, Goeman and van Zwet 2022, Biometrics 78). A bootstrap
of the ranks would cover too little for models that are about as good (Xie, Singh and Zhang 2009, JASA 104);
benchmarks/results/coverage.md has both simulated.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import check_share, mean_interval, t_quantile


class Rank(NamedTuple):
    """A model's rank group, from 1, and the ends of its rank interval among k models."""

    group: int
    best: int
    """1 + the number of models that are significantly better."""
    worst: int
    """k - the number of models that are significantly worse."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p (Holm 1979), in the order given.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    if wrong := [p for p in p_values if not 0.0 <= p <= 1.0]:
        raise UseError(f"holm got p {wrong[0]!r}; expected numbers from 0 to 1")
    order = np.argsort(p_values, kind="stable")  # not statsmodels: its `multipletests` collects garbage at every call
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * np.arange(len(order), 0, -1)))
    return [float(p) for p in adjusted]


def paired_p(differences: Sequence[float], *, clusters: Sequence[Hashable] | None = None) -> float:
    """Two-sided p of the t test over clusters that belongs to `statistics.mean_interval`; 1 for one cluster.

    If all n clusters share a value other than 0, t is infinite and shows nothing: scores in steps do this by chance. p is then
    the smallest of the sign-flip test, 2 / 2^n (ours); 1 if all are 0.

    >>> round(paired_p([1.0, 2.0, 3.0]), 4)  # t = 2 / (1 / sqrt(3)) = 3.464 with 2 degrees of freedom
    0.0742
    >>> paired_p([5.0, 5.0, 5.0])
    0.25
    """
    from scipy.special import stdtr  # a quarter of a second to import

    seen = mean_interval(differences, clusters=clusters)
    if math.isnan(seen.low):
        return 1.0
    reach = seen.high - seen.mean
    df = len(set(clusters)) - 1 if clusters is not None else len(differences) - 1
    if reach == 0.0:
        return 0.5**df if seen.mean else 1.0
    return float(2.0 * stdtr(df, -abs(seen.mean) / reach * t_quantile(0.975, df)))


def ranks(
    values_m_n: Sequence[Sequence[float]], *, clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> list[Rank]:
    """Rank group and rank interval of each model, in the order given.

    All pairs of models are tested (`paired_p`) with Holm's correction. In order of falling mean, a model that is significantly
    below the first model of the current group starts the next group: so no model of a group is significantly below its first; two
    others may still differ. With probability `level`, no two equal models are separated, and all rank intervals together contain
    the true ranks.
    `values_m_n` are measurements of the same n dialogues, in the same order; higher is better.

    >>> [tuple(rank) for rank in ranks([[40.0, 42.0, 41.0], [70.0, 73.0, 71.0], [71.0, 70.0, 72.0]])]
    [(2, 3, 3), (1, 1, 2), (1, 1, 2)]
    """
    check_share("level", level)
    if len({len(values) for values in values_m_n}) > 1:
        raise UseError("ranks got models with different numbers of values; expected the same dialogues for each")
    values = [np.asarray(mine, dtype=np.float64) for mine in values_m_n]
    pairs = list(combinations(range(len(values)), 2))
    tests = holm([paired_p((values[a] - values[b]).tolist(), clusters=clusters) for a, b in pairs])
    means = [float(mine.mean()) if len(mine) else 0.0 for mine in values]
    above: list[set[int]] = [set() for _ in values]
    """By model, those that are significantly better."""
    for (a, b), p in zip(pairs, tests, strict=True):
        if p < 1.0 - level:
            worse, better = (a, b) if means[a] < means[b] else (b, a)
            above[worse].add(better)
    groups, first, group = [0] * len(values), -1, 0
    for model in sorted(range(len(values)), key=lambda m: -means[m]):
        if first < 0 or first in above[model]:
            first, group = model, group + 1
        groups[model] = group
    below = [sum(model in mine for mine in above) for model in range(len(values))]
    return [Rank(groups[m], 1 + len(above[m]), len(values) - below[m]) for m in range(len(values))]
