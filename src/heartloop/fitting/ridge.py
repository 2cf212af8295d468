"""Ridge regression on the features of replies, in its dual form.

`w = X' (X X' + alpha I)^-1 (y - mean)`: exact, deterministic, and quick where there are fewer rows than n-grams. The same kernel
serves every fold of a cross-validation. Counts are standardised and scaled by `COUNTS_WEIGHT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from heartloop.reader.features import Features, Layout
from heartloop.reader.linear import LinearModel

__all__ = ["COUNTS_WEIGHT", "Design", "design_of", "dual_of", "fit", "linear_of", "predict_folds"]

COUNTS_WEIGHT = 0.1
"""Scale of a standardised count beside the n-grams."""


class Design(NamedTuple):
    """The features of all rows, and their kernel."""

    ngrams: Any
    """Sparse matrix, shape (rows, buckets)."""
    counts: NDArray[np.float64]
    """Standardised, shape (rows, counts)."""
    center: NDArray[np.float64]
    spread: NDArray[np.float64]
    kernel: NDArray[np.float64]
    """Shape (rows, rows)."""


def design_of(features: Sequence[Features], layout: Layout) -> Design:
    """The design of rows with these features."""
    lengths = np.cumsum([0, *(len(row.buckets) for row in features)])
    values, buckets = np.concatenate([row.values for row in features]), np.concatenate([row.buckets for row in features])
    ngrams = csr_matrix((values.astype(np.float64), buckets, lengths), shape=(len(features), layout.buckets))
    raw = np.array([row.counts for row in features], np.float64)
    center, spread = raw.mean(0), raw.std(0)
    spread[spread < 1e-6] = 1.0
    counts = (raw - center) / spread
    kernel = np.asarray((ngrams @ ngrams.T).todense()) + COUNTS_WEIGHT**2 * counts @ counts.T
    return Design(ngrams, counts, center, spread, kernel)


def dual_of(kernel: NDArray[np.float64], targets: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """`(kernel + alpha I)^-1 targets`, shape (rows, outputs)."""
    factor = cho_factor(kernel + alpha * np.eye(len(kernel)), lower=True, overwrite_a=True, check_finite=False)
    solved: NDArray[np.float64] = cho_solve(factor, targets, check_finite=False)
    return solved


def predict_folds(
    kernel: NDArray[np.float64],
    targets: NDArray[np.float64],
    folds: Iterable[tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    alpha: float,
) -> NDArray[np.float64]:
    """Predictions of the targets, shape (rows, outputs), each by a fit that has not seen the row; nan where no fold tests a row.

    Args:
        folds: pairs of masks over the rows: what is fitted on, what is predicted.
    """
    predicted = np.full_like(targets, np.nan)
    for train, test in folds:
        mean = targets[train].mean(0)
        dual = dual_of(kernel[np.ix_(train, train)], targets[train] - mean, alpha)
        predicted[test] = mean + kernel[np.ix_(test, train)] @ dual
    return predicted


def fit(
    design: Design,
    targets: NDArray[np.float64],
    names: Sequence[str],
    layout: Layout,
    alpha: float,
    card: Mapping[str, Any],
    rows: NDArray[np.bool_] | None = None,
) -> LinearModel:
    """The fitted model.

    Args:
        targets: shape (rows, outputs).
        names: of the outputs.
        rows: mask of the rows to fit on; default all.
    """
    chosen = np.ones(len(targets), bool) if rows is None else rows
    mean = targets[chosen].mean(0)
    dual = np.zeros_like(targets)
    dual[chosen] = dual_of(design.kernel[np.ix_(chosen, chosen)], targets[chosen] - mean, alpha)
    return linear_of(design, dual, mean, names, layout, card)


def linear_of(
    design: Design,
    dual: NDArray[np.float64],
    mean: NDArray[np.float64],
    names: Sequence[str],
    layout: Layout,
    card: Mapping[str, Any],
) -> LinearModel:
    """The linear model of a dual solution, shape (rows, outputs), of targets less their mean, shape (outputs,)."""
    return LinearModel(
        layout,
        tuple(names),
        (design.ngrams.T @ dual).astype(np.float16),
        (COUNTS_WEIGHT**2 * design.counts.T @ dual).astype(np.float32),
        design.center.astype(np.float32),
        design.spread.astype(np.float32),
        mean.astype(np.float32),
        card,
    )
