"""EIBench's released records, as scenarios for a user simulator model.

Covers the record, without loss, in the form that `heartloop import eibench-scenarios` writes, and the fields that a dialogue
needs: scene, anchors, opening line, and a system prompt for each side. Does not cover reading files (`importers`). The texts are
Chinese and the authors' (CC BY-NC); none of them is part of this project.

Anchors are not changed: steps and gaps (`scoring.check_anchors`) are rules for this project's scenarios only. A record without a
defined score is refused: a value outside [0, 100], or success and failure that are not on two sides of the start.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    field_validator,
    model_validator,
)

from heartloop.core.errors import InputError
from heartloop.environments.eibench.scenario import SCENES, Brief, Scene
from heartloop.environments.eibench.scoring import STATE_LIMITS, Anchors, check_anchors

__all__ = ["FORM", "AnyScenario", "ReleasedRecord", "ReleasedScenario"]

FORM: Literal["eibench-released/1"] = "eibench-released/1"
"""Value of `form` in every line of an imported file."""


def _point(value: object) -> object:
    low, high = STATE_LIMITS
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:  # also refuses nan
        raise ValueError(f"expected a number from {low:g} to {high:g}")
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not blank")
    return text


Point = Annotated[float, PlainValidator(_point), PlainSerializer(lambda value: value, return_type=Any)]
"""A value of an axis in [0, 100], integer or float as in the record."""
Text = Annotated[str, AfterValidator(_not_blank)]


class _Released(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _Aggressor(_Released):
    """The user."""

    system_prompt: Text
    opening_line: str | None = None


class _Defender(_Released):
    """The model under test."""

    system_prompt: Text


class _Calibration(_Released):
    """The start anchors."""

    initial_anger: Point
    initial_trust: Point


class _Goals(_Released):
    """The success anchors."""

    target_anger: Point
    target_trust: Point


class _WorstCase(_Released):
    """The fail anchors."""

    worst_anger_min: Point
    worst_trust_min: Point


class ReleasedRecord(_Released):
    """One released record. Fields that a dialogue and its score need are validated; all others are accepted unchanged."""

    id: Text
    aggressor_profile: _Aggressor
    defender_profile: _Defender
    initial_calibration: _Calibration
    rub_goals: _Goals
    worst_case: _WorstCase
    scene_tag: str
    title: Any = None
    goal_one_liner: Any = None
    success_criteria: Any = None
    must_avoid: Any = None

    @field_validator("scene_tag")
    @classmethod
    def _is_a_scene(cls, tag: str) -> str:
        if tag.strip().lower() not in SCENES:
            raise ValueError(f"expected one of {', '.join(SCENES)}")
        return tag

    @model_validator(mode="after")
    def _has_opening_and_score(self) -> Self:
        if self.scene != "charm" and not (self.aggressor_profile.opening_line or "").strip():
            raise ValueError(f"aggressor_profile.opening_line is missing; expected a text: the user speaks first in {self.scene}")
        for axis, names, (start, success, fail) in zip("at", _NAMES, self.axes, strict=True):
            if not (success - start) * (fail - start) < 0:
                raise ValueError(
                    f"anchors of {axis} are start {start:g} ({names[0]}), success {success:g} ({names[1]}), fail {fail:g} "
                    f"({names[2]}); expected success and fail on two sides of the start, or the score is undefined"
                )
        return self

    @property
    def scene(self) -> Scene:
        return next(scene for scene in SCENES if scene == self.scene_tag.strip().lower())

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        """Anchors of a and of t."""
        start, success, fail = self.initial_calibration, self.rub_goals, self.worst_case
        return (
            Anchors(start.initial_anger, success.target_anger, fail.worst_anger_min),
            Anchors(start.initial_trust, success.target_trust, fail.worst_trust_min),
        )


_NAMES = (
    ("initial_calibration.initial_anger", "rub_goals.target_anger", "worst_case.worst_anger_min"),
    ("initial_calibration.initial_trust", "rub_goals.target_trust", "worst_case.worst_trust_min"),
)


class ReleasedScenario(BaseModel):
    """A released record, unchanged, with the properties of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["eibench-released/1"]
    source: str
    """File name and number of the record."""
    record: ReleasedRecord

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def scene(self) -> Scene:
        return self.record.scene

    @property
    def stratum(self) -> str:
        """What `--limit` is stratified by: the scene."""
        return self.scene

    @property
    def title(self) -> str:
        """The record's title, or its id."""
        return self.record.title if isinstance(self.record.title, str) and self.record.title.strip() else self.id

    @property
    def person(self) -> str:
        """The title: records describe the user in free text only."""
        return self.title

    @property
    def place(self) -> str:
        """Empty: records have no such field."""
        return ""

    @property
    def tags(self) -> tuple[str, ...]:
        """Empty: records have no tags, whatever their content."""
        return ()

    @property
    def opening(self) -> str | None:
        """The user's first message; `None` if the model speaks first, as in Charm."""
        line = self.record.aggressor_profile.opening_line
        return line if line and line.strip() else None

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        """Anchors of a and of t."""
        return self.record.axes

    @property
    def other(self) -> str:
        """Name of the model in prompts; records have no such field."""
        return "the other person"

    @property
    def facts(self) -> dict[str, str]:
        """Facts for reports: the source of the record."""
        return {"source": self.source}

    @property
    def odd_anchors(self) -> bool:
        """Whether the anchors violate the rules for this project's scenarios (`check_anchors`)."""
        try:
            check_anchors(*self.axes)
        except InputError:
            return True
        return False

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of both system prompts, opening line, scene and anchors."""
        texts = [
            self.record.aggressor_profile.system_prompt,
            self.opening,
            self.record.defender_profile.system_prompt,
            self.scene,
        ]
        canonical = json.dumps([*texts, *([float(value) for value in axis] for axis in self.axes)], ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


AnyScenario = Brief | ReleasedScenario
"""A scenario of this project, complete or in the short form, or a released record."""
