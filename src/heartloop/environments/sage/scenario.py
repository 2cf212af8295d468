"""SAGE scenarios: schema, checks and text of our own form, and the form of imported profiles (SAGE, RLVER).

Published fields are persona, background (event, timeline, conflict, failed attempts, reactions by mood, what raises and lowers
it), goal, hidden intention, traits and first message (SAGE section 2.2 and App. E). Ours are `temperament`, `concerns`, `beats`
and the written lines, from which the embedded user speaks. Imported texts are Chinese and the authors'; the prompts are ours and
English, so scores on imported scenarios are not comparable with published ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from heartloop.core.errors import InputError
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.records import load_own_or_imported, set_loader
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import (
    Cue,
    Key,
    Line,
    Part,
    Passage,
    Sentences,
    Short,
    Tags,
    Written,
    beats_of,
    fingerprint_of,
    problems_in_concerns,
    problems_in_lines,
    written_lines,
)

Family = Literal["support", "chat"]


class Intention(NamedTuple):
    """What a person secretly wants from the conversation; `cases` is the published test count, 0 if it is none of ours."""

    key: str
    family: Family
    text: str
    rational: bool
    cases: int


_TABLE = packaged_table(__package__, "intentions.toml")
INTENTIONS = {key: Intention(key, *(row[name] for name in Intention._fields[1:])) for key, row in _TABLE.items()}


Temperament = Literal["even", "volatile", "slow", "ironic", "proud", "anxious", "guarded"]
SETS = ("support", "chat", "support-training")
"""The last is for training alone: 200 of the short form, with the spread of RLVER Table 4 over intentions."""


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


class SagePersona(BriefPersona, title="Persona"):
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


class SageAttempt(BriefAttempt):
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

    tried: Annotated[tuple[SageAttempt, ...], Sent(maxItems=6)] = ()


class SageConcern(Part):
    """One thing that weighs on (or, in chit-chat, delights) this person.

    `cues` are lower-case words or short phrases by which a reply would name it.
    """

    key: Key
    text: Line = Field(min_length=15)
    depth: Literal["surface", "feeling", "core"]
    cues: tuple[Cue, ...] = Field(min_length=4, max_length=12)


class SageBeat(Part):
    """One written first-person line, ordered from surface to core.

    `about` says what kind of question it answers; `concern` is the key of the concern it reveals.
    """

    text: str = Field(min_length=20, max_length=420)
    kind: Literal["fact", "feeling", "core"]
    about: Literal["event", "feeling", "tried", "other", "self", "wish"]
    concern: Annotated[str, Sent(maxLength=40)]


class SageLines(Part):
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


class SageBrief(Written):
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
    concerns: tuple[SageConcern, ...] = Field(default=(), max_length=6)

    @field_validator("intention")
    @classmethod
    def _is_an_intention(cls, intention: str) -> str:
        if intention not in INTENTIONS:
            raise ValueError(f"intention {intention!r} is unknown; expected one of {', '.join(INTENTIONS)}")
        return intention

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        family = INTENTIONS[self.intention].family
        if family != self.family:
            raise ValueError(f"intention {self.intention!r} belongs to family {family!r}, not {self.family!r}")
        if self.family == "support" and (self.background.conflict is None or len(self.background.tried) < 2):
            raise ValueError("a support scenario needs background.conflict and at least two background.tried")
        if problems := problems_in_concerns(self.concerns, beats_of(self)):
            raise ValueError("; ".join(problems))
        return self

    @property
    def stratum(self) -> str:
        return self.intention

    @property
    def intention_text(self) -> str:
        return INTENTIONS[self.intention].text

    @property
    def person(self) -> str:
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}"

    @property
    def place(self) -> str:
        return self.persona.place


class SageScenario(SageBrief):
    """One person on one evening: everything the user simulator knows, and none of it is shown to the policy."""

    persona: SagePersona
    background: Background
    concerns: tuple[SageConcern, ...] = Field(min_length=4, max_length=6)
    beats: tuple[SageBeat, ...] = Field(min_length=10, max_length=12)
    lines: SageLines


def give_aways(intention: str, first_message: str) -> list[str]:
    """Problems of a first message that reveals the hidden intention; empty if it does not."""
    return [
        f"first message gives the intention away: matches {pattern!r}"
        for pattern in _TABLE[intention]["gives_away"]
        if re.search(pattern, first_message, re.IGNORECASE)
    ]


def problems_of(scenario: SageBrief) -> list[str]:
    """Problems of a scenario beyond its schema; empty if it passes. Of the short form, the first message alone is checked."""
    problems = give_aways(scenario.intention, scenario.first_message)
    if not isinstance(scenario, SageScenario):
        return problems
    beats, closing = scenario.beats, (*scenario.lines.thanks, *scenario.lines.leave)
    # at most one closing line is used in a dialogue, so they may share a "Bye."
    lines = [line for line in written_lines(scenario.lines) if line not in closing]
    problems += problems_in_lines([scenario.first_message, *(beat.text for beat in beats), *lines], marks=False)
    problems += [f"closing line has no goodbye: {x!r}" for x in closing if not re.search(r"\b(good)?bye\b", x, re.IGNORECASE)]
    if beats[0].kind == "core" or beats[-1].kind != "core":
        problems.append("beats must start at the surface and end at the core")
    if sum(beat.kind == "core" for beat in beats) < 2:
        problems.append("at least two beats must be of kind core")
    abouts = {beat.about for beat in beats}
    if scenario.family == "support" and "tried" not in abouts:
        problems.append("no beat is about what was tried")
    needed = ("feeling", "other") if scenario.family == "support" else ("feeling",)
    problems += [f"no beat is about {about!r}" for about in needed if about not in abouts]
    if "core" not in {concern.depth for concern in scenario.concerns}:
        problems.append("no concern of depth core")
    return problems


load_scenarios = set_loader(SageScenario, SETS, __package__, schema="docs/scenarios.md")
load_any = set_loader(SageScenario, SETS, __package__, schema="docs/scenarios.md", brief=SageBrief)


# Imported scenarios

FORM: Literal["sage-released/1"] = "sage-released/1"


def intention_of(task: str) -> Intention:
    """Our intention for a released one. If no pattern matches, or several do, one with the released text as key, of family
    `support`, as nearly all released profiles are.

    >>> [intention_of(task).key for task in ("想要一些建议", "想要建议，也想被倾听", "想聊聊爱好")]
    ['advice', '想要建议，也想被倾听', '想聊聊爱好']
    """
    fitting = [
        key for key, row in _TABLE.items() if "released" in row and re.search(row["released"], task, re.IGNORECASE | re.DOTALL)
    ]
    return INTENTIONS[fitting[0]] if len(fitting) == 1 else Intention(task, "support", f"wants this: “{task}”", False, 0)


def name_of(player: str, *, otherwise: str) -> str:
    """Name, age and occupation from the persona text, as far as it lists them.

    >>> name_of("* 姓名：林一\\n* 年龄：30岁\\n* 职业：木匠", otherwise="x")
    '林一, 30岁, 木匠'
    """
    matches = [re.search(rf"{slot}\**\s*[:：]\s*\**\s*([^\n]+)", player) for slot in ("姓名", "年龄", "职业")]
    return ", ".join(match[1].strip() for match in matches if match) or otherwise


def story_fingerprint(player: str, scene: str, task: str, first_message: str | None) -> str:
    """Of all text in the prompts, so a profile and its log have the same."""
    return fingerprint_of([player, scene, task, first_message])


class Released(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class ReleasedProfile(Released):
    """One line of a released profile file. Training files lack `first_talk`; unknown fields are preserved."""

    id: str = Field(min_length=1)
    player: str = Field(min_length=1)  # persona
    scene: str = Field(min_length=1)  # background, with reactions by mood
    main_cha: str  # character type
    cha_group: tuple[str, ...]  # traits
    task: str  # hidden intention
    first_talk: str | None = None


class SageReleasedScenario(BaseModel):
    """An imported scenario: the unchanged record, with the properties of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["sage-released/1"]
    source: str
    record: ReleasedProfile

    theme: ClassVar[str] = ""
    place: ClassVar[str] = ""
    tags: ClassVar[tuple[str, ...]] = ()
    """Empty: the content is not tagged, and may be sensitive."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def family(self) -> Family:
        return intention_of(self.record.task).family

    @property
    def intention(self) -> str:
        return intention_of(self.record.task).key

    stratum = intention

    @property
    def intention_text(self) -> str:
        return intention_of(self.record.task).text

    @property
    def goal(self) -> str:
        return self.record.task  # a profile has no other goal

    @property
    def person(self) -> str:
        return name_of(self.record.player, otherwise=self.id)

    title = person

    @property
    def first_message(self) -> str:
        """The user's first message; empty in a training profile: the user simulator writes it."""
        return self.record.first_talk or ""

    @property
    def fingerprint(self) -> str:
        record = self.record
        return story_fingerprint(record.player, record.scene, record.task, record.first_talk)


AnySageScenario = SageBrief | SageReleasedScenario
"""A scenario of this project, complete or in the short form, or an imported one."""


def load_set(name: str = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[AnySageScenario]:
    return load_own_or_imported(
        load_any, name, SageReleasedScenario, command="sage-profiles", released="player", exclude_tags=exclude_tags
    )


def scenario_of(raw: bytes) -> SageReleasedScenario:
    try:
        log = json.loads(raw)
        profile = ReleasedProfile(
            id=log["id"],
            player=log["player"],
            scene=log["scene"],
            main_cha=log.get("character", ""),
            cha_group=(),
            task=log.get("task", ""),
            first_talk=log["history"][0]["content"],
        )
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise InputError("expected a released dialogue (JSON)") from error
    return SageReleasedScenario(form=FORM, source="raw.jsonl", record=profile)


def render_persona(scenario: AnySageScenario) -> str:
    if isinstance(scenario, SageReleasedScenario):
        return f"{scenario.record.player}\n(Speaks the language this is written in.)"
    p = scenario.persona
    lines = [
        f"{p.name}, {p.age}, {p.gender}, {p.occupation}. {p.place}.",
        f"Character: {', '.join(p.traits)}.",
        f"Habits: {p.habits}",
        "Loves: " + " ".join(p.hobbies),
        f"Speaks: {p.speaking_style}",
        f"In talk: {p.way_of_speaking}",
    ]
    if isinstance(scenario, SageScenario):
        voice = {"met": "acks", "unmoved": "vague", "withdrawn": "cold"}
        samples = "; ".join(f"when {mood}, “{getattr(scenario.lines, name)[0]}”" for mood, name in voice.items())
        lines.append(f"Sounds like this, never word for word: {samples}")
    return "\n".join(lines)


def render_background(scenario: AnySageScenario) -> str:
    if isinstance(scenario, SageReleasedScenario):
        return scenario.record.scene
    b, r = scenario.background, scenario.background.reactions
    lines = [b.event, "Course of events:"]
    lines += [f"- {m.when}: {m.what} ({m.felt})" for m in b.timeline]
    if b.conflict is not None:
        lines.append(f"Conflict: {b.conflict.what} Between: {b.conflict.who}. Beneath it: {b.conflict.why}")
    if b.tried:
        lines.append("Tried without success: " + " ".join(attempt.text for attempt in b.tried))
    lines += [
        f"The trouble now: {b.problem}" if scenario.family == "support" else f"The moment: {b.problem}",
        f"State of things: {b.now}",
    ]
    lines += [f"In high mood: {r.high}", f"In middling mood: {r.normal}", f"In low mood: {r.low}"]
    lines += ["Lifts the mood: " + "; ".join(b.lifts) + ".", "Sinks the mood: " + "; ".join(b.sinks) + "."]
    return "\n".join(lines)


def render_story(scenario: AnySageScenario) -> str:
    """The concerns in their order, each with the written lines that tell it; empty if a scenario has none."""
    concerns, beats = getattr(scenario, "concerns", ()), beats_of(scenario)
    return "\n".join(
        "\n".join([f"- {c.depth}: {c.text}", *(f"  “{beat.text}”" for beat in beats if beat.concern == c.key)]) for c in concerns
    )


def _text(s: Any) -> str:
    parts = [
        f"{s.title} ({s.id}; {s.theme}; {' '.join(s.tags)})",
        f"Secretly {s.intention_text}.",
        render_persona(s),
        render_background(s),
        f"First message: {s.first_message}",
        render_story(s),
    ]
    return "\n\n".join(filter(None, parts))


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    return record.get("form") == FORM or "player" in record or {"intention", "persona", "first_message"} <= record.keys()


SCENARIOS = Scenarios(
    sets=SETS,
    short_sets=SETS[2:],
    template=__package__,
    load=load_set,
    owns=_owns,
    line=lambda s: f"{s.id:24} {s.intention:11} {s.person}: {s.theme} [{' '.join(s.tags)}]",
    text=_text,
    need=lambda s: f"USER {s.intention_text}.",
    problems=problems_of,
    written=lambda s: not isinstance(s, SageReleasedScenario),
    identity=lambda s: (s.persona.name, s.persona.occupation),
    lines=lambda s: written_lines(s.lines) if isinstance(s, SageScenario) else (),
    imported=scenario_of,
    story=lambda s: " ".join([s.first_message, s.background.event, *(beat.text for beat in beats_of(s))]),
)
