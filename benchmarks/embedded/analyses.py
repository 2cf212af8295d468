"""From judged analyses to the weights that judge them: `python -m benchmarks.embedded.analyses`

`level` is ridge on n-grams and counts; the messages of the scenarios are added as analyses of level 1, since copied words show
nothing. `about` is least squares on the overlaps, which separates each analysis from the same text read with another person's
scenario; 0 is the median of analyses of other people, and 1 what one in twenty of them passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.embedded.examples import JUDGED, read_lines, readings, scenarios_by_id
from heartloop.environments.reading import LAYOUT, OVERLAPS, combined
from heartloop.environments.records import half_of
from heartloop.fitting.ridge import Floats, Mask, correlation, design_of, fit, predict_folds
from heartloop.reader.features import COUNTS, Context, ReplyFeatures, features_of
from heartloop.reader.model import SHIPPED, LinearModel

ALPHA = 1.0
STRETCH = 1.8
"""Most by which predictions are stretched, so that they spread as judged levels do."""
FOLDS = 5
_CHANCE = 0.05  # share of analyses of somebody else that count in full
_OVERLAPS = [COUNTS.index(name) for name in OVERLAPS]


class JudgedAnalysis(NamedTuple):
    environment: str
    scenario: Any
    context: Context
    text: str
    level: float


def read_analyses(folder: Path = JUDGED) -> list[JudgedAnalysis]:
    """The judged analyses of the tuning half."""
    readers = {name: reading.analysis for name, reading in readings().items() if reading.analysis is not None}
    contexts = {row["id"]: row for row in read_lines(folder / "contexts.jsonl")}
    analyses: list[JudgedAnalysis] = []
    for row in read_lines(folder / "analyses.jsonl"):
        context = contexts[row["context"]]
        if half_of(context["scenario"]) == "tuning":
            scenario = scenarios_by_id(context["set"])[context["scenario"]]
            read_in = readers[context["environment"]].context(scenario)
            level = float(np.mean([*row["judged"].values()]))
            analyses.append(JudgedAnalysis(context["environment"], scenario, read_in, row["analysis"], level))
    return analyses


def fit_analyses(analyses: Sequence[JudgedAnalysis]) -> LinearModel:
    people = list({one.scenario.id: one for one in analyses}.values())
    draw = np.random.default_rng(0)
    numbers = {one.scenario.id: n for n, one in enumerate(people)}
    place = draw.integers(0, FOLDS, len(people))
    others = []
    for one in analyses:
        unlike = [other for other in people if other.scenario.stratum != one.scenario.stratum]
        others.append(unlike[int(draw.integers(len(unlike)))])
    own = [features_of(one.text, one.context, LAYOUT) for one in analyses]
    other = [features_of(one.text, somebody.context, LAYOUT) for one, somebody in zip(analyses, others, strict=True)]
    copied = [features_of(one.context.messages[-1], one.context, LAYOUT) for one in people]
    fold = np.array([place[numbers[one.scenario.id]] for one in analyses])

    judged = np.array([one.level for one in analyses])
    targets = np.concatenate([judged, np.ones(len(people))])[:, None]
    folds = np.concatenate([fold, place])
    design = design_of([*own, *copied], LAYOUT)
    held_out = predict_folds(design.matrix, targets, ((folds != k, folds == k) for k in range(FOLDS)), ALPHA)[: len(own), 0]
    stretch = min(STRETCH, float(judged.std() / held_out.std()))
    center = float(judged.mean())

    about = np.zeros((len(own), 2))
    for k in range(FOLDS):
        weights, offset = _overlap_weights(own, other, fold != k)
        for n in np.flatnonzero(fold == k):
            about[n] = [offset + features[n].counts[_OVERLAPS] @ weights for features in (own, other)]
    levels = center + (held_out - center) * stretch
    final, of_others = (np.array([*map(combined, levels, shares)]) for shares in about.T)

    model = fit(design, targets, ("level", "about"), ALPHA)
    weights, offset = _overlap_weights(own, other, np.ones(len(own), bool))
    ngrams, counts = (np.hstack([part * stretch, np.zeros_like(part)]) for part in (model.ngrams, model.counts))
    counts[_OVERLAPS, 1] = weights * model.spread[_OVERLAPS]
    offsets = [center + (float(model.offset[0]) - center) * stretch, offset + float(weights @ model.center[_OVERLAPS])]
    card: dict[str, Any] = {
        "analyses": len(analyses),
        "scenarios": len(people),
        "stretch": round(stretch, 2),
        "held_out": {
            "level_r": correlation(levels, judged),
            "r": correlation(final, judged),
            "length_r": correlation(np.array([len(one.text.split()) for one in analyses]), judged),
            "mean_by_level": {str(n): round(float(final[np.round(judged) == n].mean()), 2) for n in range(1, 6)},
            "mean_of_somebody_else": round(float(of_others.mean()), 2),
        },
    }
    return model._replace(ngrams=ngrams, counts=counts, offset=np.array(offsets, np.float32), card=card).rounded()


def _overlap_weights(own: Sequence[ReplyFeatures], other: Sequence[ReplyFeatures], rows: Mask) -> tuple[Floats, float]:
    x = np.array([features.counts[_OVERLAPS] for kept, one, two in zip(rows, own, other, strict=True) if kept
                  for features in (one, two)], np.float64)  # fmt: skip
    target = np.tile([1.0, 0.0], len(x) // 2)
    centered = x - x.mean(0)
    weights = np.linalg.solve(centered.T @ centered + 1e-3 * np.eye(len(_OVERLAPS)), centered.T @ (target - 0.5))
    somebody_else = x[1::2] @ weights
    zero, one = np.quantile(somebody_else, [0.5, 1.0 - _CHANCE])
    scale = 1.0 / float(one - zero)
    return weights * scale, -float(zero) * scale


def main() -> None:
    analyses = read_analyses()
    for name, reading in readings().items():
        if reading.analysis is not None:
            model = fit_analyses([one for one in analyses if one.environment == name])
            content = model.to_bytes(SHIPPED)
            reading.analysis.weights.write_bytes(content)
            print(reading.analysis.weights.name, model.hash, len(content), "bytes", model.card)


if __name__ == "__main__":
    main()
