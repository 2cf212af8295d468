"""Schemas of the writer's answers from which an EMPA scenario is distilled, and their checks beyond the schema.

Covers filter, features, card, crisis, labels and voice. Does not cover words repeated from the dialogue (`carried_over`), nor the
checks of a whole scenario (`scenario`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from heartloop.core.errors import InputError
from heartloop.core.schemas import Sent
from heartloop.environments.empa.scenario import (
    Attempt,
    Axis,
    Beat,
    Concern,
    Domain,
    Indicator,
    Lines,
    Needs,
    Past,
    Person,
    Priorities,
    Prose,
    Situation,
    Story,
    Threshold,
    dominant_axis,
    unquoted,
)
from heartloop.environments.empa.scoring import DEFICIT_POINTS
from heartloop.environments.records import Line, Matter, Passage, Sentences, Tags
from heartloop.environments.writing import Answer, problems_of_tags

__all__ = [
    "Card",
    "Crisis",
    "Features",
    "Filter",
    "Label",
    "Voice",
    "axis_of",
    "card_of",
    "problems_of_card",
    "problems_of_filter",
    "problems_of_label",
    "said_by_person",
    "tags_of",
]


_Turn = Annotated[int, Sent(maximum=999)]  # `problems_of_filter` knows the last one


class Filter(Answer):
    """Whether somebody needs empathy, in which turns (from 1 on), and what the dialogue touches."""

    needs: bool
    why: str = Field(min_length=10, max_length=400)
    first: _Turn = Field(ge=1)
    last: _Turn = Field(ge=1)
    tags: Tags


class _Feeling(Answer):
    feeling: str = Field(min_length=3, max_length=40)
    about: Line = Field(min_length=5)
    strength: int = Field(ge=1, le=5)


class Features(Answer):
    """What is kept of a dialogue: the need, without anything by which somebody could be found."""

    trouble: Passage = Field(min_length=30)
    feelings: tuple[_Feeling, ...] = Field(max_length=5)
    beneath: Sentences = Field(min_length=15)
    cognitive: Sentences = Field(min_length=10)
    affective: Sentences = Field(min_length=10)
    proactive: Sentences = Field(min_length=10)
    tried: tuple[Line, ...] = Field(max_length=6)
    closes: tuple[Line, ...] = Field(max_length=6)
    reaches: tuple[Line, ...] = Field(max_length=6)
    threshold: Threshold
    manner: Sentences = Field(min_length=15)
    life: tuple[Line, ...] = Field(max_length=6)
    earlier: tuple[Line, ...] = Field(max_length=6)


class Card(Answer):
    """The persona card."""

    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    person: Person
    receptive: Prose
    topic: Line = Field(min_length=15)
    needs: Needs
    past: Past
    situation: Situation


class Crisis(Answer):
    """What happened: the story in stages, what was tried, what hurts."""

    story: Story
    attempts: tuple[Attempt, ...] = Field(min_length=2, max_length=3)
    sores: tuple[Matter, ...] = Field(min_length=2, max_length=4)


class _Indicators:
    """The nine indicators as fields of the schema that is sent; `problems_of_label` names the ones that are wrong or missing."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        indicator = handler(schema)["additionalProperties"]
        return {"type": "object", "properties": dict.fromkeys(DEFICIT_POINTS, indicator)}


class Label(Answer):
    """What they lack at the start, and what a set of cases is sorted by."""

    domain: Domain
    threshold: Threshold
    priorities: Priorities
    iedr: Annotated[Mapping[str, Indicator], _Indicators()]


class Voice(Answer):
    """What weighs on them, and their own lines."""

    opening: str = Field(min_length=20, max_length=360)
    concerns: tuple[Concern, ...] = Field(min_length=7, max_length=9)
    beats: tuple[Beat, ...] = Field(min_length=20, max_length=24)
    lines: Lines


def problems_of_filter(answer: Filter, facts: Mapping[str, Any]) -> list[str]:
    """Errors in the turns or tags of a filter's answer."""
    turns = facts["turns"]
    problems = []
    if not answer.first <= answer.last <= len(turns):
        problems.append(f"first and last are {answer.first} and {answer.last}, expected turns from 1 to {len(turns)}, in order")
    elif answer.needs and not said_by_person(turns[answer.first - 1 : answer.last]):
        problems.append("nothing in this stretch is said by the person")
    if missing := [tag for tag in facts["crisis"] if tag not in answer.tags]:
        problems.append(f"the dialogue speaks of {' and '.join(missing)}; tags must have it")
    return problems + problems_of_tags(answer.tags)


def problems_of_card(answer: Card, facts: Mapping[str, Any], tags: Sequence[str]) -> list[str]:
    """Differences between a card and the given name, gender and tags."""
    person = answer.person
    problems = problems_of_tags(answer.tags)
    if facts["name"].casefold() not in person.name.casefold():
        problems.append(f"person.name is {person.name!r}, expected {facts['name']}, alone or with a family name")
    if person.gender != facts["gender"]:
        problems.append(f"person.gender is {person.gender!r}, expected {facts['gender']!r}")
    if missing := [tag for tag in tags if tag not in answer.tags]:
        problems.append(f"tags: {', '.join(missing)} must be among them")
    return problems


def problems_of_label(answer: Label, card: Mapping[str, Any]) -> list[str]:
    """Errors in an IEDR form, its quotes and the priorities."""
    if answer.iedr.keys() != DEFICIT_POINTS.keys():
        odd = sorted(answer.iedr.keys() ^ DEFICIT_POINTS.keys())
        return [f"iedr is wrong at {', '.join(odd)}; expected {', '.join(DEFICIT_POINTS)}"]
    axis = dominant_axis(answer.iedr)
    if axis is None:
        return ["iedr: no group stands out; two lack the same share of the most they could"]
    problems = unquoted(answer.iedr, card)
    if answer.priorities.of(axis).level != "high":
        problems.append(f"{axis} stands out in the form, so its priority must be high")
    return problems


def tags_of(answer: BaseModel) -> list[str]:
    """The tags of a filter's answer, without `none`."""
    assert isinstance(answer, Filter)
    return [tag for tag in answer.tags if tag != "none"]


def axis_of(answer: BaseModel) -> Axis:
    """The dominant axis of a label's form. `problems_of_label` rejects a form without one.

    Raises:
        InputError: there is none.
    """
    assert isinstance(answer, Label)
    axis = dominant_axis(answer.iedr)
    if axis is None:
        raise InputError("the IEDR form has no dominant axis")
    return axis


def card_of(done: Mapping[str, BaseModel]) -> dict[str, Any]:
    """The parts of a scenario that are written so far."""
    stages = [stage for stage in ("card", "story", "label") if stage in done]
    return {name: value for stage in stages for name, value in done[stage].model_dump(mode="json").items()}


def said_by_person(turns: Sequence[Sequence[str]]) -> list[str]:
    """The person's messages in some turns."""
    return [text for speaker, text in turns if speaker == "person"]
