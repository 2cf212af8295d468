"""The mean of human labels from a few labels and many automatic scores: prediction-powered inference.

Angelopoulos, Bates, Fannjiang, Jordan and Zrnic, "Prediction-powered inference" (2023), with the tuned weight of "PPI++" (2023),
equation for the mean; standard errors are over clusters (scenarios), which is ours. Valid where the labelled items are a random
sample of all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import t as students_t

from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.scoring.statistics import Interval, by_cluster

_Floats = npt.NDArray[np.float64]
_LEAST_WEIGHTED = 5
"""Labelled scenarios from which on scores are used: with fewer, estimating their weight costs more than they bring (ours)."""


class Calibrated(NamedTuple):
    """Estimates of the mean label over all items, in the unit of the labels: from labels and scores, and from labels alone."""

    powered: Interval
    labels_only: Interval
    weight: float
    """Labels per unit of score that a score is trusted with: 0 where the scores tell nothing about the labels."""
    labelled: int
    items: int


def calibrated_mean(
    labels: Sequence[float],
    scores: Sequence[float],
    other_scores: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    other_clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Calibrated:
    """The mean label over labelled and other items.

    The estimate is `mean(labels) + weight * (mean of all other scores - mean of the labelled scores)`. The weight is the one that
    makes the variance least, `cov(label, score) / ((1 + n / N) var(score))` for n labelled and N other items; 0 below five
    labelled scenarios. The interval is that of a regression estimate (Cochran 1977, Sampling Techniques, chapter 7; ours): two
    degrees of freedom are used up, and the error of the weight counts by the distance of the mean scores. Without this it would
    cover 90 to 94 % at five labels, and 88 % at ten of skewed scores.
    `scores`, shape (n,), are in any unit; `other_scores`, shape (N,), may be empty. By default each item is its own cluster.
    """
    n, others = len(labels), len(other_scores)
    if len(scores) != n or (clusters is not None and len(clusters) != n):
        raise UseError(f"calibrated_mean: {n} labels and {len(scores)} scores; expected as many, and a cluster for each")
    if other_clusters is not None and len(other_clusters) != others:
        raise UseError(f"calibrated_mean: {others} other scores and {len(other_clusters)} clusters; expected as many")
    mine: list[Hashable] = list(clusters) if clusters is not None else [("labelled", i) for i in range(n)]
    theirs: list[Hashable] = list(other_clusters) if other_clusters is not None else [("other", i) for i in range(others)]
    if len(set(mine)) < 2:
        raise UseError(f"calibrated_mean: labels of {amount(len(set(mine)), 'scenario')}; expected at least two scenarios")
    y, f, g = (np.asarray(values, dtype=float) for values in (labels, scores, other_scores))
    labelled = len(set(mine))
    mean = float(y.mean())
    alone = _interval(mean, (y - mean) / n, mine, labelled=labelled, fitted=1, level=level)
    weight = _weight(y, f, g) if labelled >= _LEAST_WEIGHTED else 0.0
    if weight == 0.0:
        return Calibrated(alone, alone, 0.0, n, n + others)
    spread = f - f.mean()
    leverage = 1 / n + (g.mean() - f.mean()) * spread / float(np.sum(spread**2))
    x, z = y - weight * f, weight * g
    parts = np.concatenate([leverage * (x - x.mean()), (z - z.mean()) / others])
    mean = float(x.mean() + z.mean())
    powered = _interval(mean, parts, [*mine, *theirs], labelled=labelled, fitted=2, level=level)
    return Calibrated(powered, alone, weight, n, n + others)


def labels_to_halve(
    labels: Sequence[float], scores: Sequence[float], other_scores: Sequence[float], *, level: float = 0.95
) -> int | None:
    """How many labels in all would halve the interval of `calibrated_mean`; `None` if labelling every item would not suffice.

    Further labels are taken from the other items, which thereby become fewer. Every item counts as its own cluster.
    """
    y, f, g = (np.asarray(values, dtype=float) for values in (labels, scores, other_scores))
    weight = _weight(y, f, g)
    fitted = 2 if weight else 1  # parameters
    rest = float(np.var(y - weight * f, ddof=fitted))
    spread = weight**2 * float(np.var(np.concatenate([f, g]), ddof=1))
    items = len(f) + len(g)

    def width(n: int) -> float:
        others = spread / (items - n) if items > n and weight else 0.0
        return float(students_t.ppf(0.5 + level / 2, n - fitted)) * math.sqrt(rest / n + others)

    wanted = width(len(y)) / 2
    return next((n for n in range(len(y) + 1, items + 1) if width(n) <= wanted), None)


def _weight(y: _Floats, f: _Floats, g: _Floats) -> float:
    variance = float(np.var(np.concatenate([f, g]), ddof=1))
    if not len(g) or variance == 0.0 or len(y) < _LEAST_WEIGHTED:
        return 0.0
    return float(np.cov(y, f, ddof=1)[0, 1]) / ((1 + len(y) / len(g)) * variance)


def _interval(mean: float, parts: _Floats, clusters: Sequence[Hashable], *, labelled: int, fitted: int, level: float) -> Interval:
    """The t interval of an estimate whose error is the sum of `parts`, those of one cluster together.

    `labelled` is the number of clusters with a label, `fitted` that of the parameters estimated from them.
    """
    sums, _ = by_cluster("calibrated_mean", parts.tolist(), clusters)
    degrees = labelled - fitted
    half = float(students_t.ppf(0.5 + level / 2, degrees)) * math.sqrt(float(np.sum(sums**2)) * labelled / degrees)
    return Interval(mean, mean - half, mean + half)
