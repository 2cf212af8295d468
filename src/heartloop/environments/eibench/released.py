"""EIBench's released records: what one holds, and how a simulator model can play it.

Covers the record kept without loss, the form `heartloop import eibench-scenarios` writes, and what of it a dialogue, a run and
a report need: scene, anchors, opening, the two free texts that tell person and model who they are. Does not cover the released
files (`authoring.eibench_scenarios`), nor our own scenarios (`scenario`). The texts are Chinese and the authors' (CC BY-NC);
none of them is part of this project.

Their anchors stay as they are: our gaps and steps are ours (`scoring.anchors`). Refused is what leaves a score undefined: a
value outside [0, 100], or success and failure that do not lie on two sides of the start.
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
from heartloop.environments.eibench.scenario import SCENES, Scenario, Scene
from heartloop.environments.eibench.scoring import STATE_LIMITS, Anchors, check_anchors

__all__ = ["FORM", "AnyScenario", "ReleasedRecord", "ReleasedScenario"]

FORM: Literal["eibench-released/1"] = "eibench-released/1"
"""Marks a line of an imported file."""


def _point(value: object) -> object:
    low, high = STATE_LIMITS
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:  # nan is not, either
        raise ValueError(f"expected a number from {low:g} to {high:g}")
    return value


def _told(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not blank")
    return text


Point = Annotated[float, PlainValidator(_point), PlainSerializer(lambda value: value, return_type=Any)]
"""A value of an axis, whole or not, as it stands in the record."""
Told = Annotated[str, AfterValidator(_told)]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _Aggressor(_Kept):
    """The person."""

    system_prompt: Told
    opening_line: str | None = None


class _Defender(_Kept):
    """The model under test."""

    system_prompt: Told


class _Calibration(_Kept):
    """The start anchors."""

    initial_anger: Point
    initial_trust: Point


class _Goals(_Kept):
    """The success anchors."""

    target_anger: Point
    target_trust: Point


class _WorstCase(_Kept):
    """The fail anchors."""

    worst_anger_min: Point
    worst_trust_min: Point


class ReleasedRecord(_Kept):
    """One released record. Checked is what a dialogue and its score need; every other slot is kept, whatever it holds."""

    id: Told
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
    def _can_be_played_and_scored(self) -> Self:
        if self.scene != "charm" and not (self.aggressor_profile.opening_line or "").strip():
            raise ValueError(f"aggressor_profile.opening_line is missing; expected words, as the person begins in {self.scene}")
        for axis, names, (start, success, fail) in zip("at", _NAMES, self.axes, strict=True):
            if not (success - start) * (fail - start) < 0:
                raise ValueError(
                    f"anchors of {axis} are start {start:g} ({names[0]}), success {success:g} ({names[1]}), fail {fail:g} "
                    f"({names[2]}); expected success and fail on two sides of the start, or the score is undefined"
                )
        return self

    @property
    def scene(self) -> Scene:
        """Of the four."""
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
    """A released record as a scenario: the record as it is, and what `EIBench` and a simulator model ask of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["eibench-released/1"]
    source: str
    """File and number of the record."""
    record: ReleasedRecord

    @property
    def id(self) -> str:
        """The record's own."""
        return self.record.id

    @property
    def scene(self) -> Scene:
        """Of the four."""
        return self.record.scene

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the scene."""
        return self.scene

    @property
    def title(self) -> str:
        """The record's own, or its id."""
        return self.record.title if isinstance(self.record.title, str) and self.record.title.strip() else self.id

    @property
    def person(self) -> str:
        """The title: who the person is stands in free text."""
        return self.title

    @property
    def place(self) -> str:
        """Empty: records name none in a slot of its own."""
        return ""

    @property
    def tags(self) -> tuple[str, ...]:
        """None are known; that is not the same as nothing heavy in it."""
        return ()

    @property
    def opening(self) -> str | None:
        """The person's first words; `None` where the model speaks first, as in Charm."""
        line = self.record.aggressor_profile.opening_line
        return line if line and line.strip() else None

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        """Anchors of a and of t."""
        return self.record.axes

    @property
    def other(self) -> str:
        """Who the model is to the person; records name nobody in a slot of its own."""
        return "the other person"

    @property
    def facts(self) -> dict[str, str]:
        """What reports show, beyond what every scenario has: where the record came from."""
        return {"source": self.source}

    @property
    def odd_anchors(self) -> bool:
        """Whether the anchors break rules that hold for our own scenarios: multiples of 5, gaps of 10, down in a and up in t."""
        try:
            check_anchors(*self.axes)
        except InputError:
            return True
        return False

    @property
    def fingerprint(self) -> str:
        """16 hex digits of the SHA-256 of all that person and model are told, and of the anchors."""
        told = [self.record.aggressor_profile.system_prompt, self.opening, self.record.defender_profile.system_prompt, self.scene]
        canonical = json.dumps([*told, *([float(value) for value in axis] for axis in self.axes)], ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


AnyScenario = Scenario | ReleasedScenario
"""Written or composed for this project, or one of the authors' records."""
