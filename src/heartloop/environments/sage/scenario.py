"""SAGE scenarios: the schema, the loader, and the checks a scenario set must pass.

Covers the eight supportive intentions (SAGE Table 3) and the two of RLVER's chit-chat extension (App. A.1), reading JSON lines,
and the checks of a shipped set. Does not cover near-duplicates (`heartloop.authoring`), nor user simulators (`embedded_user`,
`llm_user`).

The published fields are persona, background (event, timeline, conflict, failed attempts, reactions by mood, what raises and
lowers it), goal, hidden intention, traits and first message (SAGE section 2.2 and App. E). Ours are `temperament`, `concerns`,
`beats` and the written lines, from which the embedded user speaks without a model. The short form (`Brief`) requires the
published fields alone; a model as user simulator can play it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from heartloop.core.schemas import Sent
from heartloop.environments.cues import check_concerns, problems_in_lines, written_lines
from heartloop.environments.records import Cue, Key, Line, Part, Passage, Sentences, Short, Tags, Written, set_loader
from heartloop.environments.sage.intentions import GIVE_AWAY_PATTERNS, INTENTIONS, Family

__all__ = [
    "SETS",
    "Attempt",
    "Background",
    "Beat",
    "Brief",
    "BriefAttempt",
    "BriefBackground",
    "BriefPersona",
    "Concern",
    "Conflict",
    "Lines",
    "Moment",
    "Persona",
    "Reactions",
    "Scenario",
    "give_aways",
    "load_any",
    "load_scenarios",
    "problems_of",
]

Temperament = Literal["even", "volatile", "slow", "ironic", "proud", "anxious", "guarded"]


SETS = ("support", "chat")
"""Scenario sets shipped with the package, by name."""


class BriefPersona(Part):
    """Who this is. `place` is where they live and come from; `speaking_style` is tone, `way_of_speaking` is conduct in talk."""

    name: Short = Field(min_length=2)
    age: int = Field(ge=12, le=100)
    gender: Short = Field(min_length=3)
    occupation: Short = Field(min_length=3)
    place: Short = Field(min_length=3)
    habits: Sentences = Field(min_length=40)
    hobbies: tuple[Line, ...] = Field(min_length=3, max_length=3)
    speaking_style: Sentences = Field(min_length=20)
    way_of_speaking: Sentences = Field(min_length=20)
    traits: tuple[Short, ...] = Field(min_length=3, max_length=5)
    temperament: Temperament | None = None


class Persona(BriefPersona):
    """Who this is, with the temperament that the short form may omit."""

    temperament: Temperament


class Moment(Part):
    """One step of the timeline: when, what happened, what the person thought and felt."""

    when: Short = Field(min_length=3)
    what: Sentences = Field(min_length=30)
    felt: Line = Field(min_length=15)


class Conflict(Part):
    """The main conflict: what it is, between whom, and what lies beneath it."""

    what: Line = Field(min_length=20)
    who: Short = Field(min_length=3)
    why: Line = Field(min_length=20)


class BriefAttempt(Part):
    """Something already tried that did not help; `cues` are words by which a supporter would propose it again."""

    text: Line = Field(min_length=20)
    cues: tuple[Cue, ...] = Field(default=(), max_length=8)


class Attempt(BriefAttempt):
    """Something already tried that did not help, with its cues."""

    cues: tuple[Cue, ...] = Field(min_length=2, max_length=8)


class Reactions(Part):
    """How the person talks when the mood is high, normal and low."""

    high: Line = Field(min_length=30)
    normal: Line = Field(min_length=30)
    low: Line = Field(min_length=30)


class BriefBackground(Part):
    """What happened. `conflict` and `tried` may be absent in chit-chat only."""

    event: Passage = Field(min_length=60)
    timeline: tuple[Moment, ...] = Field(min_length=2, max_length=6)
    conflict: Conflict | None = None
    tried: Annotated[tuple[BriefAttempt, ...], Sent(maxItems=6)] = ()
    problem: Line = Field(min_length=20)
    now: Line = Field(min_length=20)
    reactions: Reactions
    lifts: tuple[Line, ...] = Field(min_length=2, max_length=5)
    sinks: tuple[Line, ...] = Field(min_length=2, max_length=5)


class Background(BriefBackground):
    """What happened, with the cues of what was tried."""

    tried: Annotated[tuple[Attempt, ...], Sent(maxItems=6)] = ()


class Concern(Part):
    """One thing that weighs on (or, in chit-chat, delights) this person.

    `cues` are lower-case words or short phrases by which a reply would name it.
    """

    key: Key
    text: Line = Field(min_length=15)
    depth: Literal["surface", "feeling", "core"]
    cues: tuple[Cue, ...] = Field(min_length=4, max_length=12)


class Beat(Part):
    """One written first-person line, ordered from surface to core.

    `about` says what kind of question it answers; `concern` is the key of the concern it reveals.
    """

    text: str = Field(min_length=20, max_length=420)
    kind: Literal["fact", "feeling", "core"]
    about: Literal["event", "feeling", "tried", "other", "self", "wish"]
    concern: Annotated[str, Sent(maxLength=40)]


class Lines(Part):
    """Written lines in the person's own voice for everything that is not a beat."""

    acks: tuple[Line, ...] = Field(min_length=5, max_length=6)
    template: tuple[Line, ...] = Field(min_length=2, max_length=3)
    advice: tuple[Line, ...] = Field(min_length=2, max_length=3)
    lecture: tuple[Line, ...] = Field(min_length=2, max_length=3)
    flattery: tuple[Line, ...] = Field(min_length=2, max_length=3)
    minimise: tuple[Line, ...] = Field(min_length=1, max_length=2)
    misread: tuple[Line, ...] = Field(min_length=2, max_length=3)
    repeat: tuple[Line, ...] = Field(min_length=2, max_length=3)
    vague: tuple[Line, ...] = Field(min_length=3, max_length=4)
    silence: tuple[Line, ...] = Field(min_length=3, max_length=4)
    cold: tuple[Line, ...] = Field(min_length=4, max_length=5)
    thanks: tuple[Line, ...] = Field(min_length=2, max_length=3)
    leave: tuple[Line, ...] = Field(min_length=2, max_length=3)


class Brief(Written):
    """The short form of a scenario, without written beats and lines, for a model as user simulator."""

    id: str = Field(pattern=r"^(support|chat)-[a-z]+-\d{2,8}$")
    family: Family
    intention: str
    theme: str = Field(min_length=3)
    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    persona: BriefPersona
    background: BriefBackground
    goal: str = Field(min_length=20)
    first_message: str = Field(min_length=20, max_length=320)
    concerns: tuple[Concern, ...] = Field(default=(), max_length=6)

    @field_validator("intention")
    @classmethod
    def _is_an_intention(cls, intention: str) -> str:
        if intention not in INTENTIONS:
            raise ValueError(f"intention {intention!r} is unknown; expected one of {', '.join(INTENTIONS)}")
        return intention

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        intention = INTENTIONS[self.intention]
        if intention.family != self.family:
            raise ValueError(f"intention {self.intention!r} belongs to family {intention.family!r}, not {self.family!r}")
        if self.family == "support" and (self.background.conflict is None or len(self.background.tried) < 2):
            raise ValueError("a support scenario needs background.conflict and at least two background.tried")
        check_concerns(self.concerns, self.told)
        return self

    @property
    def told(self) -> tuple[Beat, ...]:
        """The written beats; none in the short form."""
        return ()

    @property
    def stratum(self) -> str:
        """Stratum for `--limit`: the hidden intention."""
        return self.intention

    @property
    def intention_text(self) -> str:
        """The hidden intention as a clause."""
        return INTENTIONS[self.intention].text

    @property
    def person(self) -> str:
        """Name, age and occupation, for lists and reports."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}"

    @property
    def place(self) -> str:
        """Where the user lives and comes from."""
        return self.persona.place


class Scenario(Brief):
    """One person on one evening: everything the simulated user knows and nothing the policy is told."""

    persona: Persona
    background: Background
    concerns: tuple[Concern, ...] = Field(min_length=4, max_length=6)
    beats: tuple[Beat, ...] = Field(min_length=10, max_length=12)
    lines: Lines

    @property
    def told(self) -> tuple[Beat, ...]:
        """The written beats."""
        return self.beats


def give_aways(intention: str, first_message: str) -> list[str]:
    """Problems of a first message that reveals the hidden intention; empty if it does not."""
    return [
        f"first message gives the intention away: matches {pattern!r}"
        for pattern in GIVE_AWAY_PATTERNS[intention]
        if re.search(pattern, first_message, re.IGNORECASE)
    ]


def problems_of(scenario: Brief) -> list[str]:
    """Problems of a scenario beyond its schema; empty if it passes. Of the short form, the first message alone is checked."""
    problems = give_aways(scenario.intention, scenario.first_message)
    if not isinstance(scenario, Scenario):
        return problems
    closing = {
        *scenario.lines.thanks,
        *scenario.lines.leave,
    }  # at most one of them is used in a dialogue, so they may share a "Bye."
    lines = [line for line in written_lines(scenario.lines) if line not in closing]
    problems += problems_in_lines([scenario.first_message, *(b.text for b in scenario.beats), *lines], marks=False)
    for line in (*scenario.lines.thanks, *scenario.lines.leave):
        if not re.search(r"\b(good)?bye\b", line, re.IGNORECASE):
            problems.append(f"closing line has no goodbye: {line!r}")
    order = {"fact": 0, "feeling": 1, "core": 2}
    if scenario.beats[0].kind == "core" or scenario.beats[-1].kind != "core":
        problems.append("beats must start at the surface and end at the core")
    if [order[b.kind] for b in scenario.beats].count(2) < 2:
        problems.append("at least two beats must be of kind core")
    if scenario.family == "support" and not any(b.about == "tried" for b in scenario.beats):
        problems.append("no beat is about what was tried")
    for about in ("feeling", "other") if scenario.family == "support" else ("feeling",):
        if not any(b.about == about for b in scenario.beats):
            problems.append(f"no beat is about {about!r}")
    if "core" not in {c.depth for c in scenario.concerns}:
        problems.append("no concern of depth core")
    return problems


load_scenarios = set_loader(Scenario, SETS, __package__, schema="docs/scenarios.md")
"""Loads a shipped set, or a file by path, of complete scenarios."""

load_any: Callable[..., list[Brief]] = set_loader(Scenario, SETS, __package__, schema="docs/scenarios.md", brief=Brief)
"""As `load_scenarios`, where a file may hold the short form."""
