"""The score card: the fields of `scores.json`. Does not cover its computation (`scores`)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from heartloop.scoring.statistics import Shape

__all__ = ["Cause", "GroupMean", "ModelScore", "Outcomes", "RoleUse", "ScoreCard", "Standing", "TurnLength"]

Standing = Literal["ranked", "unranked", "failure case"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcomes(_Frozen):
    """Mean points with the 95 % interval, and counts of success and failure.

    `mean` is `None` without dialogues; the ends of intervals are `None` with fewer than two scenarios.
    """

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    shape: Shape | None = None
    """How the scenarios' scores are distributed, and so how far the interval can be trusted; `None` without dialogues, and in
    files of older versions."""
    success: int = 0
    failure: int = 0
    success_percent: float | None = None
    success_low: float | None = None
    """Ends of Wilson's interval in percent, with scenarios as trials; `None` also in files of older versions."""
    success_high: float | None = None
    failure_percent: float | None = None
    failure_low: float | None = None
    failure_high: float | None = None


class GroupMean(_Frozen):
    """Mean points of one intention, scene or theme; with an interval if the scale gives intervals by group."""

    key: str
    n: int
    mean: float
    low: float | None = None
    high: float | None = None


class TurnLength(_Frozen):
    """Length of a model's visible replies in one turn, over its scored dialogues with that turn."""

    n: int
    characters: float
    """Mean."""


class Cause(_Frozen):
    """Cause of unscored dialogues: the role that failed, and the kind of failure."""

    role: str
    kind: str
    n: int


class RoleUse(_Frozen):
    """Calls and tokens of one role over all dialogues played, failed ones included."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    """Whether some token counts are estimates, because the endpoint gave none."""


class ModelScore(_Frozen):
    """One model under test."""

    model: str
    standing: Standing
    rank: int | None
    """Rank from 1; equal means share a rank."""
    group: str | None = None
    """Letter of the rank group: the model is not significantly below the first one of the group (`scoring.ranks`)."""
    best_rank: int | None = None
    worst_rank: int | None = None
    """Ends of the rank interval: all of them together contain the true ranks with a probability of 95 %. `None` for an unranked
    model, and in files of older versions."""
    planned: int | None
    """Dialogues planned in the settings; `None` if unknown."""
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    """Whether more than the allowed share is unscored."""
    causes: tuple[Cause, ...]
    headline: Outcomes
    """On the common set for a ranked model, on its own scored dialogues otherwise."""
    own: Outcomes
    """On all of its scored dialogues."""
    median_turns: float | None
    mean_turns: float | None
    reply_lengths: tuple[TurnLength, ...]
    """By turn, the first turn first."""
    silences: int
    truncated: int
    broken_formats: int | None = None
    """Replies that broke the form that the policy's prompt asks for; `None` where none was counted."""
    said_to_others: float | None = None
    """Share of the replies of scored dialogues that it said word for word in another scenario too (`scoring.repeats`); of an
    answer in parts what the person hears counts. `None` with fewer than two scenarios."""
    filtered: int
    """Replies stopped by an endpoint's content filter. A refusal in words is not counted."""
    reasks: int
    repaired: int
    """Answers of a user simulator or judge that were valid only after a re-ask."""
    clamped: int
    at_limit: int
    """Turns in which a state was clipped to its range."""
    lost_farewells: int
    roles: dict[str, RoleUse]
    tokens_per_dialogue: float | None
    """Mean completion tokens of the policy over its scored dialogues."""
    cost: float | None
    """Of its dialogues, unscored ones too, and of all roles, in the currency of the prices; `None` if a paid model was called and
    has no price. Answers from the cache cost what they cost when they were first given; calls of dialogues that were cut off or
    played again are not in it."""
    groups: tuple[GroupMean, ...]
    """By the fact `grouped_by`."""
    themes: tuple[GroupMean, ...]
    stops: dict[str, int]


class ScoreCard(_Frozen):
    """The scores of a run: ranked models first, then unranked ones, then failure cases."""

    schema_version: int = 2
    heartloop_version: str | None
    environment: str
    simulators: tuple[str, ...]
    presets: tuple[str, ...]
    variants: tuple[str, ...]
    grouped_by: str
    """The fact that groups scenarios: `intention` (SAGE), `scene` (EIBench)."""
    success_at: float
    """Points at or above this bound count as success."""
    failure_below: float
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    replaced: int
    """Transcripts of dialogues that were played again later; only the last one counts."""
    common: int
    """Scenarios, each with one repeat and seed, scored for all ranked models."""
    scenarios: int | None = None
    """Scenarios with at least one scored dialogue; `None` in files of older versions."""
    notes: tuple[str, ...]
    """Limitations of the scores, as sentences."""
    models: tuple[ModelScore, ...]
