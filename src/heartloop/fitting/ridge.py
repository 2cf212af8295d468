"""Ridge regression on the n-grams and counts of replies, by LSQR (Paige and Saunders 1982): no matrix of products is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack
from scipy.sparse.linalg import lsqr

from heartloop.reader.features import FeatureLayout, ReplyFeatures
from heartloop.reader.model import LinearModel

COUNTS_WEIGHT = 0.1
"""Scale of a standardised count beside the n-grams."""
_STEPS = 150
_EXACT = 1e-7

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Folds = Iterable[tuple[Mask, Mask]]
"""Masks of the rows that are fitted on and of those that are predicted."""


class Design(NamedTuple):
    layout: FeatureLayout
    center: Floats
    spread: Floats
    """Of each count, shape (counts,)."""
    matrix: Any
    """Sparse, shape (rows, buckets + counts): n-grams, and standardised counts times `COUNTS_WEIGHT`."""


def design_of(features: Sequence[ReplyFeatures], layout: FeatureLayout) -> Design:
    lengths = np.cumsum([0, *(len(row.buckets) for row in features)])
    values, buckets = np.concatenate([row.values for row in features]), np.concatenate([row.buckets for row in features])
    ngrams = csr_matrix((values.astype(np.float64), buckets, lengths), shape=(len(features), layout.buckets))
    raw = np.array([row.counts for row in features], np.float64)
    center, spread = raw.mean(0), raw.std(0)
    spread[spread < 1e-6] = 1.0
    return Design(layout, center, spread, hstack([ngrams, csr_matrix((raw - center) / spread * COUNTS_WEIGHT)], format="csr"))


def solve(matrix: Any, targets: Floats, alpha: float, weights: Floats | None = None) -> Floats:
    """The `b`, shape (columns, outputs), with the least `sum(weights * (targets - matrix @ b) ** 2) + alpha * sum(b ** 2)`."""
    root = np.ones(len(targets)) if weights is None else np.sqrt(weights)
    scaled = (diags(root) @ matrix).tocsr()
    solved = [
        lsqr(scaled, root * column, damp=np.sqrt(alpha), atol=_EXACT, btol=_EXACT, iter_lim=_STEPS)[0] for column in targets.T
    ]
    return np.column_stack(solved)


def predict_folds(matrix: Any, targets: Floats, folds: Folds, alpha: float, weights: Floats | None = None) -> Floats:
    """Predictions of the targets, shape (rows, outputs), each by a fit that has not seen the row; nan if no fold tests a row."""
    predicted = np.full_like(targets, np.nan)
    for train, test in folds:
        mean = targets[train].mean(0)
        mine = None if weights is None else weights[train]
        predicted[test] = mean + matrix[test] @ solve(matrix[train], targets[train] - mean, alpha, mine)
    return predicted


def fit(design: Design, targets: Floats, names: Sequence[str], alpha: float) -> LinearModel:
    """The fitted model of targets, shape (rows, outputs); its card is empty."""
    mean = targets.mean(0)
    return linear_of(design, solve(design.matrix, targets - mean, alpha), mean, names)


def linear_of(design: Design, solved: Floats, offset: Floats, names: Sequence[str]) -> LinearModel:
    """The linear model of a solution, shape (buckets + counts, outputs), and offsets, shape (outputs,)."""
    return LinearModel(
        design.layout,
        tuple(names),
        solved[: design.layout.buckets].astype(np.float16),
        (COUNTS_WEIGHT * solved[design.layout.buckets :]).astype(np.float32),
        design.center.astype(np.float32),
        design.spread.astype(np.float32),
        offset.astype(np.float32),
        {},
    )


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's r, rounded; 0 if one of the two is constant."""
    return round(float(np.corrcoef(first, second)[0, 1]), 3) if first.std() > 0 and second.std() > 0 else 0.0
