"""Ridge regression in its dual form, and folds."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

from heartloop.fitting.fits import COUNTS_WEIGHT, design_of, fit, predict_folds
from heartloop.reader.features import Context, FeatureLayout, features_of

LAYOUT = FeatureLayout(bits=10)
WORDS = ["kind", "cruel", "chair", "boat", "listen", "never", "stay", "go"]
DRAW = np.random.default_rng(1)
REPLIES = [" ".join(DRAW.choice(WORDS, 6)) for _ in range(40)]
TARGETS = np.array([[reply.count("kind") - reply.count("cruel"), len(reply) / 10] for reply in REPLIES], float)
DESIGN = design_of([features_of(reply, Context(("I am here.",)), LAYOUT) for reply in REPLIES], LAYOUT)


def test_the_dual_solution_is_the_primal_one() -> None:
    matrix = np.hstack([DESIGN.ngrams.toarray(), COUNTS_WEIGHT * DESIGN.counts])
    train = np.arange(40) < 30
    mean = TARGETS[train].mean(0)
    primal = Ridge(alpha=2.0, fit_intercept=False).fit(matrix[train], TARGETS[train] - mean)
    predicted = predict_folds(DESIGN.kernel, TARGETS, [(train, ~train)], 2.0)
    assert np.allclose(predicted[~train], mean + primal.predict(matrix[~train]))
    assert np.isnan(predicted[train]).all()


def test_a_fold_does_not_see_what_it_predicts() -> None:
    train = np.arange(40) % 2 == 0
    changed = TARGETS.copy()
    changed[~train] = 1e6
    folds = [(train, ~train)]
    same = predict_folds(DESIGN.kernel, TARGETS, folds, 1.0), predict_folds(DESIGN.kernel, changed, folds, 1.0)
    assert np.array_equal(same[0], same[1], equal_nan=True)


def test_a_saved_fit_predicts_what_the_kernel_predicts() -> None:
    model = fit(DESIGN, TARGETS, ("kindness", "length"), 1.0)
    everything = np.ones(40, bool)
    predicted = predict_folds(DESIGN.kernel, TARGETS, [(everything, everything)], 1.0)
    once = np.array([model.predict(reply, Context(("I am here.",))) for reply in REPLIES])
    assert np.allclose(once, predicted, atol=5e-3)  # half precision
