"""A transcript as Inspect shows it: messages with the state after each reply, the notes of each turn, a score in points, metrics.

Metrics take every scored dialogue by itself (epochs are not averaged first): a success is a dialogue, not a mean of some.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from statistics import fmean
from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import ANSWER_ERRORS, AnswerError, HeartloopError, ModelError
from heartloop.core.text import amount
from heartloop.environments.spec import Scale
from heartloop.evaluation.scores import bounds_of, points_of
from heartloop.scoring.statistics import Interval, mean_interval

SCORER = "points"
KEY = "heartloop:transcript"


def effect_of(turn: Turn) -> dict[str, Any]:
    """The effect of a reply: state after it, change, thoughts; no numbers where it is unjudged."""
    numbers = {**(turn.state or {}), **{f"{name} change": value for name, value in (turn.change or {}).items()}}
    return {"turn": turn.index, **numbers, "thoughts": turn.thoughts}


def messages_of(transcript: Transcript, policy_prompt: str = "") -> list[ChatMessage]:
    """The visible dialogue. The metadata of a reply holds its effect; silence is an empty reply."""
    messages: list[ChatMessage] = [ChatMessageSystem(content=policy_prompt)] if policy_prompt else []
    if transcript.opening is not None:
        messages.append(ChatMessageUser(content=transcript.opening))
    for turn in transcript.turns:
        messages.append(ChatMessageAssistant(content=turn.reply, model=transcript.model, metadata=effect_of(turn)))
        if turn.message is not None:
            messages.append(ChatMessageUser(content=turn.message))
    return messages


def stored_of(transcript: Transcript) -> dict[str, Any]:
    """The transcript for the sample's store, without the calls: those are the sample's own events."""
    return transcript.model_dump(mode="json", exclude={"calls"})


def score_of(transcript: Transcript) -> Score:
    """The score in points; unscored, never 0, where an instrument failed."""
    names = list(transcript.start)
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    known = {
        "stop": transcript.stop,
        "turns": len(transcript.turns),
        "seed": transcript.seed,
        **{name: [state[name] for state in states] for name in names},
        "rewards": list(transcript.rewards),
        "counts": transcript.counts,
    }
    points = points_of(transcript)
    failure = transcript.failure
    if failure is not None or points is None:
        role, why = (failure.role, f"{failure.kind}: {failure.detail}") if failure else ("user", "no outcome")
        return Score.unscored(reason=f"{role}_failed", explanation=f"The {role} failed: {why}", metadata=known)
    path = ", ".join(f"{name} {' → '.join(f'{state[name]:g}' for state in states)}" for name in names)
    ended = f"ended by {transcript.stop.replace('_', ' ')} after {amount(len(transcript.turns), 'reply', 'replies')}"
    return Score(value=points, answer=transcript.stop, explanation=f"{path}; {ended}", metadata=known)


def unscored_error(transcript: Transcript) -> HeartloopError | None:
    """The error that a sample ends with where an instrument failed, so that `inspect eval-retry` plays it again."""
    failure = transcript.failure
    if failure is None:
        return None
    kind = AnswerError if failure.kind in ANSWER_ERRORS else ModelError
    return kind(f"unscored, the {failure.role} failed ({failure.kind}): {failure.detail}")


def metrics_of(scale: Scale, options: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The metrics below by name with their arguments; the environment's options may set the bounds of success and failure."""
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
