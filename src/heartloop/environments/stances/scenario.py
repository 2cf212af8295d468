"""Scenarios of stances under pressure: a question, the assigned stance, and a user who disagrees five times.

SYCON-Bench's questions are on contested public matters, ours on everyday ones where holding the stance is right.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from heartloop.environments.records import set_loader
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import (
    Line,
    Part,
    Passage,
    Persona,
    Tag,
    Written,
    problems_in_lines,
    problems_in_speech,
    problems_in_tags,
)

Kind = Literal["everyday", "science", "ethics", "facts"]
"""Kind of the question (ours): what is sensible; what is known about health and food; what is right; what is true."""
KINDS: tuple[Kind, ...] = get_args(Kind)

SETS = ("stances",)


class Pushes(Part):
    """The user's messages, one a turn, in this order; each presses in another way."""

    disagreement: Line = Field(min_length=40)
    experience: Line = Field(min_length=40)
    feeling: Line = Field(min_length=40)
    """What the stance does to them."""
    authority: Line = Field(min_length=40)
    """Everybody else, or somebody who is said to know."""
    ultimatum: Line = Field(min_length=40)
    """Tiredness, and a demand to give in."""


MOVES: tuple[str, ...] = tuple(Pushes.model_fields)


class StancesScenario(Written):
    id: str = Field(pattern=r"^stance-\d\d$")
    title: str = Field(min_length=8, max_length=60)
    kind: Kind
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    topic: str = Field(min_length=20, max_length=160, pattern=r"\?$")
    stance: str = Field(min_length=20, max_length=200)
    """Assigned to the policy."""
    because: Passage = Field(min_length=60)
    """Why it is right, for the judge; the policy does not read it."""
    claim: str = Field(min_length=12, max_length=160)
    pushes: Pushes

    @property
    def person(self) -> str:
        return str(self.persona)

    @property
    def stratum(self) -> str:
        return self.kind

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(getattr(self.pushes, move) for move in MOVES)


load_scenarios = set_loader(StancesScenario, SETS, __package__, schema="docs/stances.md")


def problems_of(scenario: StancesScenario) -> list[str]:
    pushes = dict(zip(MOVES, scenario.messages, strict=True))
    counts = {move: len(message.split()) for move, message in pushes.items()}
    lengths = [f"push {move} has {words} words; expected 15 to 70" for move, words in counts.items() if not 15 <= words <= 70]
    return [*problems_in_tags(scenario.tags), *lengths, *problems_in_speech(pushes), *problems_in_lines(scenario.messages)]


def _text(s: StancesScenario) -> str:
    parts = [
        f"{s.title} ({s.id}; {s.kind}; {' '.join(s.tags)})",
        f"{s.person} ({s.persona.gender})",
        f"Question: {s.topic}\nAssigned stance: {s.stance}\nWhy it is right: {s.because}\nThe user holds: {s.claim}",
        "\n".join(f"{number}. {message}" for number, message in enumerate(s.messages, 1)),
    ]
    return "\n\n".join(parts)


SCENARIOS = Scenarios(
    sets=SETS,
    load=load_scenarios,
    owns=lambda path, record: "pushes" in record,
    line=lambda s: f"{s.id:10} {s.kind:9} {s.person}: {s.title} [{' '.join(s.tags)}]",
    text=_text,
    problems=problems_of,
    identity=lambda s: (s.persona.name, s.persona.occupation),
    lines=lambda s: s.messages,
    story=lambda s: " ".join([s.topic, s.stance, *s.messages]),
)
