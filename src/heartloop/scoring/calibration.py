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
    makes the variance least, `cov(label, score) / ((1 + n / N) var(score))` for n labelled and N other items.
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
    weight = _weight(y, f, g)
    powered = _interval(y - weight * f, mine, weight * g, theirs, level)
    return Calibrated(powered, _interval(y, mine, np.zeros(0), [], level), weight, n, n + others)


def labels_to_halve(
    labels: Sequence[float], scores: Sequence[float], other_scores: Sequence[float], *, level: float = 0.95
) -> int | None:
    """How many labels in all would halve the interval of `calibrated_mean`; `None` if labelling every item would not suffice.

    Further labels are taken from the other items, which thereby become fewer. Every item counts as its own cluster.
    """
    y, f, g = (np.asarray(values, dtype=float) for values in (labels, scores, other_scores))
    weight = _weight(y, f, g)
    rest = float(np.var(y - weight * f, ddof=1))
    spread = weight**2 * float(np.var(np.concatenate([f, g]), ddof=1))
    items = len(f) + len(g)

    def width(n: int) -> float:
        others = spread / (items - n) if items > n and weight else 0.0
        return float(students_t.ppf(0.5 + level / 2, n - 1)) * math.sqrt(rest / n + others)

    wanted = width(len(y)) / 2
    return next((n for n in range(len(y) + 1, items + 1) if width(n) <= wanted), None)


def _weight(y: _Floats, f: _Floats, g: _Floats) -> float:
    variance = float(np.var(np.concatenate([f, g]), ddof=1))
    if not len(g) or variance == 0.0 or len(y) < 3:
        return 0.0
    return float(np.cov(y, f, ddof=1)[0, 1]) / ((1 + len(y) / len(g)) * variance)


def _interval(x: _Floats, mine: Sequence[Hashable], z: _Floats, theirs: Sequence[Hashable], level: float) -> Interval:
    """The interval of mean(x) + mean(z), where items of one cluster count together."""
    mean = float(x.mean() + (z.mean() if len(z) else 0.0))
    shares = [(values - values.mean()) / len(values) for values in (x, z) if len(values)]
    parts, _ = by_cluster("calibrated_mean", np.concatenate(shares).tolist(), [*mine, *theirs])
    degrees = len(set(mine)) - 1
    variance = sum(part**2 for part in parts.tolist()) * (degrees + 1) / degrees
    half = float(students_t.ppf(0.5 + level / 2, degrees)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)
