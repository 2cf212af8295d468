"""The score card as a value: what `scores.json` holds, field by field. Does not cover how the numbers come about (`scores`)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["Cause", "GroupMean", "ModelScore", "Outcomes", "RoleUse", "ScoreCard", "Standing", "TurnLength"]

Standing = Literal["ranked", "unranked", "failure case"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcomes(_Frozen):
    """Points in sum. `mean` is `None` without dialogues, `low` and `high` where one scenario gives no interval."""

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    success: int = 0
    failure: int = 0
    success_percent: float | None = None
    failure_percent: float | None = None


class GroupMean(_Frozen):
    """Mean points of one intention, scene or theme; `low` and `high` where the group is a result of its own."""

    key: str
    n: int
    mean: float
    low: float | None = None
    high: float | None = None


class TurnLength(_Frozen):
    """How long a model's visible replies of one turn are, over its scored dialogues that came so far."""

    n: int
    characters: float
    """The mean."""


class Cause(_Frozen):
    """Why dialogues are unscored: whose instrument failed and how."""

    role: str
    kind: str
    n: int


class RoleUse(_Frozen):
    """Calls and tokens of one role over all dialogues played, failed ones included."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    """Whether some tokens were counted by us, roughly, because the endpoint did not."""


class ModelScore(_Frozen):
    """One model under test."""

    model: str
    standing: Standing
    rank: int | None
    """Place among the ranked; equal means share it."""
    group: str | None = None
    """Rank group of a ranked model, a letter: its paired interval to the group's first includes 0."""
    planned: int | None
    """Dialogues the settings ask for, where they say."""
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    """More than the allowed share is unscored."""
    causes: tuple[Cause, ...]
    headline: Outcomes
    """On the common set for a ranked model, on its own scored dialogues otherwise."""
    own: Outcomes
    """On every dialogue of its own that was scored."""
    median_turns: float | None
    mean_turns: float | None
    reply_lengths: tuple[TurnLength, ...]
    """By turn, from the first."""
    silences: int
    truncated: int
    filtered: int
    """Replies an endpoint's content filter stopped. A refusal in words is a reply like any other and is not counted."""
    reasks: int
    repaired: int
    """Answers of an instrument that did not parse at first and did after a re-ask."""
    clamped: int
    at_limit: int
    """Turns in which a state would have left its range and was kept at its end."""
    lost_farewells: int
    roles: dict[str, RoleUse]
    tokens_per_dialogue: float | None
    """Mean completion tokens of the policy over its scored dialogues."""
    cost: float | None
    """In the currency of the price file; `None` where a model that costs money and was called has no price."""
    groups: tuple[GroupMean, ...]
    """By the card's `grouped_by`."""
    themes: tuple[GroupMean, ...]
    stops: dict[str, int]


class ScoreCard(_Frozen):
    """A run in numbers: ranked models first, then unranked ones, then failure cases."""

    schema_version: int = 2
    heartloop_version: str | None
    environment: str
    simulators: tuple[str, ...]
    presets: tuple[str, ...]
    variants: tuple[str, ...]
    grouped_by: str
    """The fact that groups scenarios: `intention` (SAGE), `scene` (EIBench)."""
    success_at: float
    """Points from here on are counted as a success; another bound only recounts."""
    failure_below: float
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    replaced: int
    """Dialogues that were played again later; only the last playing counts."""
    common: int
    """People, each in one repeat and with one seed, scored for all ranked models."""
    notes: tuple[str, ...]
    """What a reader must know before comparing, in sentences."""
    models: tuple[ModelScore, ...]
