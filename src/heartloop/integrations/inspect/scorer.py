"""Scorers and metrics, read from the stored transcript: final emotion (SAGE), outcome (EIBench), EPM-Q (EMPA), reward (PERM),
average (daily), rubric score (EQ-Bench3).

Metrics see every scored dialogue by itself (epochs are not averaged away first): a success is a dialogue, not a mean of some.
Inspect counts the unscored ones beside them (`unscored_samples`). Does not cover the score itself (`environments`, `scoring`).
Outcomes, EPM-Q, rewards and rubric scores have no task of their own here yet: their scorers name what an exported run was
scored by.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from statistics import fmean

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from heartloop.core.dialogue import Transcript
from heartloop.environments.sage.scoring import FAILURE_BELOW, SUCCESS_AT
from heartloop.evaluation.measures import scale_of
from heartloop.integrations.inspect.samples import KEY, score_of
from heartloop.scoring.statistics import Interval, bootstrap_interval

__all__ = [
    "METRICS", "SCORERS", "average", "emotion", "epmq", "failure", "interval", "mean", "outcome", "reward", "rubric", "success",
]  # fmt: skip

SCORERS: Mapping[str, str] = {
    "sage": "emotion", "eibench": "outcome", "empa": "epmq", "perm": "reward", "daily": "average", "eqbench": "rubric",
}  # fmt: skip
"""What a dialogue's score is called, by environment."""

_SCALES = {environment: scale_of(environment) for environment in SCORERS}

METRICS: Mapping[str, Mapping[str, dict[str, float]]] = {
    environment: {
        "mean": {},
        "interval": {},
        **({} if scale.by_end else {"success": {"at": scale.success_at}, "failure": {"below": scale.failure_below}}),
    }
    for environment, scale in _SCALES.items()
}
"""Names of the metrics below with their options, in the order in which they are shown, by environment."""


def _points(scores: list[SampleScore]) -> list[float]:
    return [score.score.as_float() for score in scores]


@metric(name="mean", scores="unreduced")
def mean() -> Metric:
    """Mean score over scored dialogues, in points; nan without one."""

    def worked_out(scores: list[SampleScore]) -> float:
        return fmean(_points(scores)) if scores else nan

    return worked_out


@metric(name="interval", scores="unreduced")
def interval() -> Metric:
    """95 % bootstrap interval of the mean, drawing people, so that epochs feign no certainty; nan for one person or none."""

    def worked_out(scores: list[SampleScore]) -> dict[str, float]:
        finals = _points(scores)
        people = [score.sample_id for score in scores]
        found = bootstrap_interval(finals, clusters=people) if finals else Interval(nan, nan, nan)
        return {"low": found.low, "high": found.high}

    return worked_out


@metric(name="success", scores="unreduced")
def success(at: float = SUCCESS_AT) -> Metric:
    """How many dialogues ended with so many points or more: in thanks (emotion 100), or with both axes at their success."""

    def worked_out(scores: list[SampleScore]) -> int:
        return sum(points >= at for points in _points(scores))

    return worked_out


@metric(name="failure", scores="unreduced")
def failure(below: float = FAILURE_BELOW) -> Metric:
    """How many dialogues ended below so many points: the person left (emotion below 10), or stands worse than at the start."""

    def worked_out(scores: list[SampleScore]) -> int:
        return sum(points < below for points in _points(scores))

    return worked_out


@scorer(metrics=[mean(), interval(), success(), failure()])
def emotion() -> Scorer:
    """Final emotion; unscored where an instrument failed or a limit cut the sample."""
    return _reader()


@scorer(metrics=[mean(), interval(), success(**METRICS["eibench"]["success"]), failure(**METRICS["eibench"]["failure"])])
def outcome() -> Scorer:
    """Outcome in [-100, 100]; unscored as for `emotion`."""
    return _reader()


@scorer(metrics=[mean(), interval()])
def epmq() -> Scorer:
    """EPM-Q, from 0; whether a talk succeeded is how it ended, which no score tells. Unscored as for `emotion`."""
    return _reader()


@scorer(metrics=[mean(), interval(), success(**METRICS["perm"]["success"]), failure(**METRICS["perm"]["failure"])])
def reward() -> Scorer:
    """Reward times 100; unscored as for `emotion`."""
    return _reader()


@scorer(metrics=[mean(), interval(), success(**METRICS["eqbench"]["success"]), failure(**METRICS["eqbench"]["failure"])])
def rubric() -> Scorer:
    """Rubric score in [0, 100]; unscored as for `emotion`."""
    return _reader()


@scorer(metrics=[mean(), interval(), success(**METRICS["daily"]["success"]), failure(**METRICS["daily"]["failure"])])
def average() -> Scorer:
    """Mean of the six metrics times 20; unscored as for `emotion`."""
    return _reader()


def _reader() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        kept = state.store.get(KEY)
        if kept is None:  # the solver did not come to an end
            return Score.unscored(
                reason="not_finished",
                explanation="The dialogue did not come to its end: an error, or a limit on messages, tokens or time, cut it.",
            )
        return score_of(Transcript.model_validate(kept))

    return score
