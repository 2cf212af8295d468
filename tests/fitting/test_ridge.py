"""Ridge regression, compared with scikit-learn's, and folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from heartloop.fitting.ridge import Floats, design_of, fit, predict_folds, solve
from heartloop.reader.features import Context, FeatureLayout, features_of

LAYOUT = FeatureLayout(bits=10)
HERE = Context(("I am here.",))
DRAW = np.random.default_rng(1)
REPLIES = [" ".join(DRAW.choice(["kind", "cruel", "chair", "boat", "listen", "never", "stay", "go"], 6)) for _ in range(40)]
TARGETS = np.array([[reply.count("kind") - reply.count("cruel"), len(reply) / 10] for reply in REPLIES], float)
DESIGN = design_of([features_of(reply, HERE, LAYOUT) for reply in REPLIES], LAYOUT)
MATRIX = DESIGN.matrix


@pytest.mark.parametrize("costs", [None, DRAW.uniform(0.5, 9.0, 40)], ids=["alike", "by cost"])
def test_it_is_the_ridge_of_scikit_learn(costs: Floats | None) -> None:
    train = np.arange(40) < 30
    mean = TARGETS[train].mean(0)
    other = Ridge(alpha=2.0, fit_intercept=False)
    other.fit(MATRIX.toarray()[train], TARGETS[train] - mean, None if costs is None else costs[train])
    predicted = predict_folds(MATRIX, TARGETS, [(train, ~train)], 2.0, costs)
    np.testing.assert_allclose(predicted[~train], mean + other.predict(MATRIX.toarray()[~train]), atol=1e-5)
    assert np.isnan(predicted[train]).all()


def test_a_fold_does_not_see_what_it_predicts() -> None:
    train = np.arange(40) % 2 == 0
    changed = np.where(train[:, None], TARGETS, 1e6)
    first, second = (predict_folds(MATRIX, targets, [(train, ~train)], 1.0) for targets in (TARGETS, changed))
    np.testing.assert_array_equal(first, second)


def test_a_fitted_model_predicts_from_the_text_what_the_solution_predicts() -> None:
    model, mean = fit(DESIGN, TARGETS, ("kindness", "length"), 1.0), TARGETS.mean(0)
    predicted = mean + MATRIX @ solve(MATRIX, TARGETS - mean, 1.0)
    np.testing.assert_allclose([model.predict(reply, HERE) for reply in REPLIES], predicted, atol=5e-3)  # half precision
