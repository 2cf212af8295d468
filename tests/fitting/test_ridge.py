"""Ridge regression, compared with scikit-learn's, and folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from heartloop.fitting.ridge import COUNTS_WEIGHT, Floats, design_of, fit, predict_folds, solve
from heartloop.reader.features import Context, FeatureLayout, features_of

LAYOUT = FeatureLayout(bits=10)
HERE = Context(("I am here.",))
WORDS = ["kind", "cruel", "chair", "boat", "listen", "never", "stay", "go"]
DRAW = np.random.default_rng(1)
REPLIES = [" ".join(DRAW.choice(WORDS, 6)) for _ in range(40)]
TARGETS = np.array([[reply.count("kind") - reply.count("cruel"), len(reply) / 10] for reply in REPLIES], float)
COSTS = DRAW.uniform(0.5, 9.0, 40)
FEATURES = [features_of(reply, HERE, LAYOUT) for reply in REPLIES]
DESIGN = design_of(FEATURES, LAYOUT)


@pytest.mark.parametrize("costs", [None, COSTS], ids=["alike", "by cost"])
def test_it_is_the_ridge_of_scikit_learn(costs: Floats | None) -> None:
    dense = DESIGN.matrix.toarray()
    train = np.arange(40) < 30
    mean = TARGETS[train].mean(0)
    mine = None if costs is None else costs[train]
    other = Ridge(alpha=2.0, fit_intercept=False).fit(dense[train], TARGETS[train] - mean, sample_weight=mine)
    np.testing.assert_allclose(solve(DESIGN.matrix[train], TARGETS[train] - mean, 2.0, mine), other.coef_.T, atol=1e-5)
    predicted = predict_folds(DESIGN.matrix, TARGETS, [(train, ~train)], 2.0, costs)
    np.testing.assert_allclose(predicted[~train], mean + other.predict(dense[~train]), atol=1e-5)
    assert np.isnan(predicted[train]).all()


def test_counts_are_standardised_and_scaled_and_one_that_never_changes_is_nothing() -> None:
    counts = DESIGN.matrix[:, LAYOUT.buckets :].toarray()
    raw = np.array([row.counts for row in FEATURES])
    varied = raw.std(0) > 1e-6
    np.testing.assert_allclose(counts.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(counts[:, varied].std(0), COUNTS_WEIGHT, rtol=1e-4)
    np.testing.assert_allclose(counts[:, ~varied], 0, atol=1e-6)
    assert 0 < varied.sum() < len(varied)


def test_a_fold_does_not_see_what_it_predicts() -> None:
    train = np.arange(40) % 2 == 0
    changed = TARGETS.copy()
    changed[~train] = 1e6
    first, second = (predict_folds(DESIGN.matrix, targets, [(train, ~train)], 1.0) for targets in (TARGETS, changed))
    np.testing.assert_array_equal(first, second)


def test_a_fitted_model_predicts_from_the_text_what_the_solution_predicts() -> None:
    model = fit(DESIGN, TARGETS, ("kindness", "length"), 1.0)
    mean = TARGETS.mean(0)
    predicted = mean + DESIGN.matrix @ solve(DESIGN.matrix, TARGETS - mean, 1.0)
    once = np.array([model.predict(reply, HERE) for reply in REPLIES])
    np.testing.assert_allclose(once, predicted, atol=5e-3)  # half precision
