"""The scorer and its metrics: final emotion, read from the transcript that the solver left.

Metrics see every scored dialogue by itself (epochs are not averaged away first): a success is a dialogue, not a mean of some.
Inspect counts the unscored ones beside them (`unscored_samples`). Does not cover the score itself (`environments`, `scoring`).
"""

from __future__ import annotations

from math import nan

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from heartloop.dialogue import Transcript
from heartloop.integrations.inspect.samples import KEY, score_of
from heartloop.scoring.emotion import EmotionSummary, summarise
from heartloop.scoring.statistics import Interval, bootstrap_interval

__all__ = ["METRICS", "emotion", "failure", "interval", "mean", "success"]

METRICS = ("mean", "interval", "success", "failure")
"""Names of the metrics below, in the order in which they are shown."""


def _summary(scores: list[SampleScore]) -> EmotionSummary:
    return summarise([score.score.as_float() for score in scores])


@metric(name="mean", scores="unreduced")
def mean() -> Metric:
    """Mean final emotion over scored dialogues, in [0, 100]; nan without one."""

    def worked_out(scores: list[SampleScore]) -> float:
        return _summary(scores).mean

    return worked_out


@metric(name="interval", scores="unreduced")
def interval() -> Metric:
    """95 % bootstrap interval of the mean, drawing people, so that epochs feign no certainty; nan for one person or none."""

    def worked_out(scores: list[SampleScore]) -> dict[str, float]:
        finals = [score.score.as_float() for score in scores]
        people = [score.sample_id for score in scores]
        found = bootstrap_interval(finals, clusters=people) if finals else Interval(nan, nan, nan)
        return {"low": found.low, "high": found.high}

    return worked_out


@metric(name="success", scores="unreduced")
def success() -> Metric:
    """How many dialogues ended in thanks (emotion 100)."""

    def worked_out(scores: list[SampleScore]) -> int:
        return _summary(scores).success

    return worked_out


@metric(name="failure", scores="unreduced")
def failure() -> Metric:
    """How many dialogues the person left (emotion below 10)."""

    def worked_out(scores: list[SampleScore]) -> int:
        return _summary(scores).failure

    return worked_out


@scorer(metrics=[mean(), interval(), success(), failure()])
def emotion() -> Scorer:
    """Final emotion; unscored where an instrument failed or a limit cut the sample."""

    async def score(state: TaskState, target: Target) -> Score:
        kept = state.store.get(KEY)
        if kept is None:  # the solver did not come to an end
            return Score.unscored(
                reason="not_finished",
                explanation="The dialogue did not come to its end: an error, or a limit on messages, tokens or time, cut it.",
            )
        return score_of(Transcript.model_validate(kept))

    return score
