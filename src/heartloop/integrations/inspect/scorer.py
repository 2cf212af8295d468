"""The scorer and the metrics, read from the stored transcript: a dialogue's score in points, for every environment.

Metrics take every scored dialogue by itself (epochs are not averaged first): a success is a dialogue, not a mean of some. Inspect
counts the unscored ones beside them (`unscored_samples`). Does not cover the score itself (`environments`, `scoring`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from statistics import fmean
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from heartloop.core.dialogue import Transcript
from heartloop.environments.spec import Scale
from heartloop.evaluation.scores import bounds_of
from heartloop.integrations.inspect.samples import KEY, score_of
from heartloop.scoring.statistics import Interval, mean_interval

__all__ = ["SCORER", "failure", "interval", "mean", "metrics_of", "points", "success"]

SCORER = "points"
"""Name of the scorer below."""


def metrics_of(scale: Scale, options: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The metrics below by name with their arguments, in the order in which they are shown.

    Args:
        options: of the environment; they may set the bounds of success and failure.
    """
    metrics: dict[str, dict[str, float]] = {"mean": {}, "interval": {}}
    if not scale.by_end:
        success_at, failure_below = bounds_of({"options": options}, scale)
        metrics |= {"success": {"at": success_at}, "failure": {"below": failure_below}}
    return metrics


def _points(scores: list[SampleScore]) -> list[float]:
    return [score.score.as_float() for score in scores]


@metric(name="mean", scores="unreduced")
def mean() -> Metric:
    """Mean score over scored dialogues, in points; nan without one."""

    def compute(scores: list[SampleScore]) -> float:
        return fmean(_points(scores)) if scores else nan

    return compute


@metric(name="interval", scores="unreduced")
def interval() -> Metric:
    """95 % t interval of the mean over scenarios, so that epochs do not narrow it; nan without two scenarios."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        scenarios = [score.sample_id for score in scores]
        bounds = mean_interval(_points(scores), clusters=scenarios) if scores else Interval(nan, nan, nan)
        return {"low": bounds.low, "high": bounds.high}

    return compute


@metric(name="success", scores="unreduced")
def success(at: float) -> Metric:
    """Number of dialogues with at least so many points."""

    def compute(scores: list[SampleScore]) -> int:
        return sum(points >= at for points in _points(scores))

    return compute


@metric(name="failure", scores="unreduced")
def failure(below: float) -> Metric:
    """Number of dialogues with fewer points."""

    def compute(scores: list[SampleScore]) -> int:
        return sum(points < below for points in _points(scores))

    return compute


@scorer(metrics=[mean(), interval()])
def points() -> Scorer:
    """The score in points; unscored where an instrument failed or a limit stopped the sample."""

    async def score(state: TaskState, target: Target) -> Score:
        stored = state.store.get(KEY)
        if stored is None:  # the solver did not finish
            return Score.unscored(
                reason="not_finished",
                explanation="The dialogue did not finish: an error, or a limit on messages, tokens or time, stopped it.",
            )
        return score_of(Transcript.model_validate(stored))

    return score
