"""EMPA scenarios: the schema, the loader, the checks of a set, and scenarios as text.

The card, the domain, the dominant axis and the IEDR form are the paper's (EMPA App. D). Ours are `tags`, `place`,
`speaking_style`, `opening`, `concerns`, `attempts`, `sores`, `beats` and the written lines, from which the embedded user speaks;
the short form does not require them. The docstrings of the parts are sent to a writer model as part of the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from heartloop.core.schemas import Sent
from heartloop.environments.empa.scoring import AXES, DEFICIT_POINTS, deficit, shares_of
from heartloop.environments.records import set_loader
from heartloop.environments.report import published
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import (
    Cue,
    Key,
    Line,
    Matter,
    Part,
    Passage,
    Sentences,
    Short,
    Tags,
    Written,
    fingerprint_of,
    plain_words,
    problems_in_concerns,
    problems_in_lines,
    unfit_cues,
    written_lines,
)

Axis = Literal["C", "A", "P"]
Threshold = Literal["low", "medium", "high"]
Domain = Literal["daily life", "health", "leisure", "values and beliefs", "relations", "career"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)
Difficulty = Literal["easy", "medium", "hard", "extreme"]
SecondaryDomains = Annotated[tuple[Domain, ...], Field(max_length=3)]
"""Other domains that a scenario touches, the most important first (EMPA section 3.2, stage 3: secondary labels, which the paper
does not list). Those of the shipped scenarios were assigned by a language model that read them.
"""

_SETS = ("cases",)

Source = Literal["opening", "stage 1", "stage 2", "stage 3", "stage 4", "childhood", "adolescence", "young adulthood", "epilogue"]
SOURCES: tuple[Source, ...] = get_args(Source)

KINDS: Mapping[Axis, str] = {"A": "affective", "P": "motivational", "C": "cognitive"}
"""EMPA's kinds of empathy by axis, in the order of the card."""

Prose = Annotated[Passage, Field(min_length=60)]


class Person(Part):
    """Role and traits. `social` is who others meet, `inner` who is behind that."""

    name: Short = Field(min_length=2)
    age: int = Field(ge=14, le=95)
    gender: Short = Field(min_length=3)
    occupation: Short = Field(min_length=3)
    social: Prose
    inner: Prose
    speaking_style: Sentences = Field(min_length=30)


class Needs(Part):
    """What they want to pour out, what they hope is seen, and what closes them."""

    vent: Passage = Field(min_length=120)
    hopes: Prose
    constraints: Prose


class Priority(Part):
    """How much of one kind of empathy they need now, and why."""

    level: Literal["low", "medium", "high"]
    why: Line = Field(min_length=30)


class Priorities(Part):
    """EMPA's three kinds; `motivational` is the proactive axis P."""

    affective: Priority
    motivational: Priority
    cognitive: Priority

    def of(self, axis: Axis) -> Priority:
        priority: Priority = getattr(self, KINDS[axis])
        return priority


class Past(Part):
    """Memories of three periods, each of which the director can release, and what they made of this person."""

    childhood: Prose
    adolescence: Prose
    young_adulthood: Prose
    arc: Prose


class Situation(Part):
    """Where they stand."""

    circumstances: Prose
    goal: Line = Field(min_length=30)
    vision: Line = Field(min_length=30)


class StoryStage(Part):
    """One stage of the story."""

    title: str = Field(min_length=3, max_length=80)
    text: Passage = Field(min_length=180)


class Story(Part):
    """A trigger, four stages (evoked memory, reflection, self-examination, eruption), how it stands, and what comes up late."""

    trigger: Passage = Field(min_length=120)
    stages: tuple[StoryStage, StoryStage, StoryStage, StoryStage]
    outcome: Sentences = Field(min_length=40)
    epilogue: Passage = Field(min_length=120)


class Indicator(Part):
    """One line of the IEDR form: level 0 (nothing lacks) to 3, words of the card that show it, and the reason."""

    level: int = Field(ge=0, le=3)
    evidence: Line = Field(min_length=10)
    reason: Line = Field(min_length=15)


class EmpaConcern(Part):
    """Something that weighs on them, the axis on which they need to be met there, and words by which a reply would name it."""

    key: Key
    axis: Axis
    depth: Literal["surface", "feeling", "core"]
    text: Line = Field(min_length=15)
    cues: tuple[Cue, ...] = Field(min_length=4, max_length=12)


class Attempt(Part):
    """Something already tried that did not help; `cues` are words by which a supporter would propose it again."""

    text: Line = Field(min_length=20)
    cues: tuple[Cue, ...] = Field(min_length=3, max_length=8)


class EmpaBeat(Part):
    """One written first-person line, and what has to be released before it can be said."""

    kind: Literal["fact", "feeling", "core"]
    concern: Annotated[str, Sent(maxLength=40)]
    source: Source
    text: str = Field(min_length=20, max_length=420)


class EmpaLines(Part):
    """Written lines in the person's own voice for everything that is not a beat."""

    acks: tuple[Line, ...] = Field(min_length=8, max_length=10)
    """After a reply that helped, if there is no beat to say."""
    moved: tuple[Line, ...] = Field(min_length=3, max_length=4)
    """After a reply that helped a lot."""
    unclear: tuple[Line, ...] = Field(min_length=4, max_length=5)
    """After a reply that did not understand the user (axis C)."""
    unfelt: tuple[Line, ...] = Field(min_length=4, max_length=5)
    """After a reply without empathy (axis A)."""
    unhelped: tuple[Line, ...] = Field(min_length=4, max_length=5)
    """After a reply that did not help the user to act (axis P)."""
    template: tuple[Line, ...] = Field(min_length=3, max_length=4)
    """After stock sympathy or help-desk language."""
    advice: tuple[Line, ...] = Field(min_length=3, max_length=4)
    """After advice that came too early, or that proposes a failed attempt."""
    lecture: tuple[Line, ...] = Field(min_length=2, max_length=3)
    flattery: tuple[Line, ...] = Field(min_length=2, max_length=3)
    repeat: tuple[Line, ...] = Field(min_length=4, max_length=5)
    silence: tuple[Line, ...] = Field(min_length=3, max_length=4)
    cold: tuple[Line, ...] = Field(min_length=6, max_length=8)
    """After several windows without positive energy."""
    settled: tuple[Line, ...] = Field(min_length=2, max_length=2)
    """At the end, after success."""
    left: tuple[Line, ...] = Field(min_length=2, max_length=2)
    """At the end, without success."""


class EmpaBrief(Written):
    """The short form of a scenario, without written beats and lines, for models in all roles."""

    id: str = Field(pattern=r"^empa-[cap]-[a-z]+-\d{2,8}$")
    title: str = Field(min_length=5, max_length=80)
    axis: Axis
    domain: Domain
    secondary_domains: SecondaryDomains = ()
    threshold: Threshold
    tags: Tags
    place: str = Field(min_length=3)
    person: Person
    receptive: Prose
    """How the user takes empathy: the meaning of `threshold` for this scenario."""
    topic: str = Field(min_length=15)
    needs: Needs
    priorities: Priorities
    past: Past
    situation: Situation
    story: Story
    iedr: Mapping[str, Indicator]
    opening: str = Field(min_length=20, max_length=360)
    concerns: tuple[EmpaConcern, ...] = Field(default=(), max_length=9)
    attempts: tuple[Attempt, ...] = Field(default=(), max_length=3)
    sores: tuple[Matter, ...] = Field(default=(), max_length=4)

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        problems: list[str] = []
        if self.iedr.keys() != DEFICIT_POINTS.keys():
            odd = sorted(self.iedr.keys() ^ DEFICIT_POINTS.keys())
            problems.append(f"iedr is wrong at {', '.join(odd)}; expected {', '.join(DEFICIT_POINTS)}")
        if self.id.split("-")[1] != self.axis.lower():
            problems.append(f"id {self.id!r} names another axis than {self.axis!r}")
        if self.priorities.of(self.axis).level != "high":
            problems.append(f"the dominant axis is {self.axis}, so its priority must be high")
        problems += problems_in_concerns(self.concerns, self.told)
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.model_dump(mode="json", exclude={"secondary_domains"}))  # no role reads them

    @property
    def told(self) -> tuple[EmpaBeat, ...]:
        return ()

    @property
    def stratum(self) -> str:
        return self.axis

    @property
    def who(self) -> str:
        return f"{self.person.name}, {self.person.age}, {self.person.occupation}"

    @property
    def start(self) -> tuple[float, ...]:
        return tuple(float(x) for x in deficit({name: line.level for name, line in self.iedr.items()}))

    @property
    def secondary_axes(self) -> tuple[Axis, ...]:
        """The axis with the largest deficit, as a share of its maximum, after the dominant one; two if they are equal (ours)."""
        shares = {axis: share for axis, share in shares_of(self.start).items() if axis != self.axis}
        return tuple(axis for axis, share in shares.items() if share == max(shares.values()))

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.start))

    @property
    def difficulty(self) -> Difficulty:
        return difficulty_of(self.distance)


class EmpaScenario(EmpaBrief):
    """One scenario: everything that the user simulator may come to know. The policy sees none of it."""

    concerns: tuple[EmpaConcern, ...] = Field(min_length=7, max_length=9)
    attempts: tuple[Attempt, ...] = Field(min_length=2, max_length=3)
    sores: tuple[Matter, ...] = Field(min_length=2, max_length=4)
    beats: tuple[EmpaBeat, ...] = Field(min_length=20, max_length=24)
    lines: EmpaLines

    @property
    def told(self) -> tuple[EmpaBeat, ...]:
        return self.beats


def difficulty_of(distance: float) -> Difficulty:
    """Difficulty by |P_0|: easy below 27.8, medium below 32.32, hard up to 36.84, extreme above (EMPA App. A.1)."""
    mean, spread = 32.32, 4.52  # of |P_0| over the published 30 scenarios
    if distance < mean:
        return "easy" if distance < mean - spread else "medium"
    return "hard" if distance <= mean + spread else "extreme"


def dominant_axis(iedr: Mapping[str, Indicator]) -> Axis | None:
    """The axis with the largest deficit as a share of its maximum, or `None` if two axes share the largest."""
    shares = shares_of(deficit({name: line.level for name, line in iedr.items()}).tolist())
    first, second = sorted(shares, key=lambda axis: -shares[axis])[:2]
    return first if shares[first] > shares[second] else None


def unquoted(iedr: Mapping[str, Indicator], card: object) -> list[str]:
    """One sentence for each level above 0 whose evidence is not a quote from the card."""
    whole = plain_words(" ".join(texts_in(card)))
    return [
        f"iedr {name}: the evidence is not a quote from the card: {line.evidence!r}"
        for name, line in iedr.items()
        if line.level and plain_words(line.evidence) not in whole
    ]


def repeated_domains(labels: Any) -> list[str]:
    """Of a scenario, or of a writer's labels."""
    domains = Counter([labels.domain, *labels.secondary_domains])
    return [f"domain {name!r} is named {n} times; expected each once" for name, n in domains.items() if n > 1]


def texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from texts_in(part)


def problems_of(scenario: EmpaBrief) -> list[str]:
    problems: list[str] = []
    if isinstance(scenario, EmpaScenario):
        closing = {*scenario.lines.settled, *scenario.lines.left}
        lines = [line for line in written_lines(scenario.lines) if line not in closing]
        problems += problems_in_lines([scenario.opening, *(beat.text for beat in scenario.beats), *lines])
        problems += _beat_problems(scenario)
    problems += [*unfit_cues([*scenario.concerns, *scenario.attempts, *scenario.sores]), *repeated_domains(scenario)]
    if dominant_axis(scenario.iedr) != scenario.axis:
        problems.append(f"the IEDR form does not make {scenario.axis} dominant: P_0 is {scenario.start}")
    problems += unquoted(scenario.iedr, scenario.model_dump(exclude={"iedr", "lines", "beats", "concerns"}))
    if isinstance(scenario, EmpaScenario):
        of_axis = Counter(concern.axis for concern in scenario.concerns)
        few = [axis for axis in AXES if of_axis[axis] < (3 if axis == scenario.axis else 2)]
        problems += [f"only {of_axis[axis]} concerns on axis {axis}" for axis in few]
        if not any(concern.axis == scenario.axis and concern.depth == "core" for concern in scenario.concerns):
            problems.append(f"no core concern on the dominant axis {scenario.axis}")
    return problems


def _beat_problems(scenario: EmpaScenario) -> list[str]:
    by_source = Counter(beat.source for beat in scenario.beats)
    problems = [f"no beat of {source!r}" for source in SOURCES if not by_source[source]]
    if by_source["opening"] < 4:
        problems.append(f"only {by_source['opening']} beats are open from the start; expected at least 4")
    if any((beat.kind, beat.source) == ("core", "opening") for beat in scenario.beats):
        problems.append("a core beat is open from the start; the director has to release it")
    if sum(beat.kind == "core" for beat in scenario.beats) < 3:
        problems.append("fewer than three core beats")
    order = [SOURCES.index(beat.source) for beat in scenario.beats if beat.source.startswith(("opening", "stage"))]
    if order != sorted(order):
        problems.append("beats of the opening and of the stages are not in order")
    untold = {concern.key for concern in scenario.concerns} - {beat.concern for beat in scenario.beats}
    return problems + [f"no beat tells of concern {key!r}" for key in sorted(untold)]


load_scenarios = set_loader(EmpaScenario, _SETS, __package__, schema="docs/empa.md")


def render_story(scenario: EmpaBrief) -> str:
    """The story by source: what the player of the user keeps back until the director releases it."""
    story = scenario.story
    texts = {"opening": f"{story.trigger} {story.outcome}"}
    texts |= {f"stage {n} ({stage.title})": stage.text for n, stage in enumerate(story.stages, start=1)}
    return "\n".join(f"{source}: {text}" for source, text in (texts | {"epilogue": story.epilogue}).items())


def render_card(scenario: EmpaBrief) -> str:
    """The persona card (EMPA App. D) without the story. Concerns, attempts and sores are ours; the short form lacks them."""
    p, needs, now, past = scenario.person, scenario.needs, scenario.situation, scenario.past
    priorities = [(f"{kind} ({axis})", scenario.priorities.of(axis)) for axis, kind in KINDS.items()]
    ours = (
        ("Weighs on them", [concern.text for concern in scenario.concerns if concern.depth != "core"]),
        ("Lies deepest", [concern.text for concern in scenario.concerns if concern.depth == "core"]),
        ("Tried in vain", [attempt.text for attempt in scenario.attempts]),
        ("Hurts them", [sore.text for sore in scenario.sores]),
    )
    return "\n".join(
        (
            f"{scenario.who}, {p.gender}. {scenario.place}.",
            f"With others: {p.social}",
            f"Inside: {p.inner}",
            f"Speaks: {p.speaking_style}",
            f"Takes empathy ({scenario.threshold} threshold): {scenario.receptive}",
            f"Comes with: {scenario.topic}",
            f"To pour out: {needs.vent}",
            f"Hopes somebody sees: {needs.hopes}",
            f"Closes them: {needs.constraints}",
            "Kinds of empathy needed now:",
            *(f"- {kind}: {priority.level}. {priority.why}" for kind, priority in priorities),
            f"Lives: {now.circumstances}",
            f"After: {now.goal}",
            f"Would like: {now.vision}",
            "Earlier life:",
            *(f"- {period.replace('_', ' ')}: {text}" for period, text in past if period != "arc"),
            f"- what it made of them: {past.arc}",
            *(f"{title}: {' '.join(texts)}" for title, texts in ours if texts),
        )
    )


def _text(scenario: EmpaBrief) -> str:
    c, a, p = scenario.start
    parts = [
        f"{scenario.title} ({scenario.id}; {scenario.domain}; {scenario.difficulty}; {' '.join(scenario.tags)})",
        f"Secondary: axis {', '.join(scenario.secondary_axes)}; domain {', '.join(scenario.secondary_domains) or 'none'}.",
        f"Lacks at the start: C {c:g}, A {a:g}, P {p:g}; distance {scenario.distance:.1f}.",
        render_card(scenario),
        render_story(scenario),
        "\n".join(f"{name} {line.level}: {line.reason} “{line.evidence}”" for name, line in scenario.iedr.items()),
        f"Opening: {scenario.opening}",
        "\n".join(f"  {beat.source:15} {beat.kind:8} {beat.text}" for beat in scenario.told),
    ]
    return "\n\n".join(parts)


def _story(s: EmpaBrief) -> str:
    return " ".join([s.opening, s.story.trigger, *(stage.text for stage in s.story.stages), *(beat.text for beat in s.told)])


_FEATURES = ("domain", "difficulty", "threshold", "secondary_axes", "secondary_domains")


def _figure_6() -> dict[str, dict[str, str]]:
    """The distributions of the 30 published scenarios (EMPA App. A.1, Figure 6).

    Section 5.1 calls 86.7 % of them hard or extreme; by the counts of App. A.1, 26 of 30 are medium or above.
    """
    given = {str(row["setting"]): str(row["value"]) for row in published(__package__, "empa_settings")}
    n = int(given["benchmark_cases"])
    distance = f"{given['initial_deficit_mean']} ± {given['initial_deficit_std']}"
    return {
        "all": {"n": str(n), "distance": distance},
        **{axis: {"n": given["cases_per_need_axis"]} for axis in AXES},
        "domain": dict.fromkeys(DOMAINS, given["cases_per_life_domain"]),
        "difficulty": {tier: given[f"difficulty_{tier}_cases"] for tier in get_args(Difficulty)},
        "threshold": {"high": f"{n * int(given['high_empathy_threshold_users_percent']) / 100:g}"},
    }


SCENARIOS = Scenarios(
    sets=_SETS,
    load=set_loader(EmpaScenario, _SETS, __package__, schema="docs/empa.md", brief=EmpaBrief),
    template=__package__,
    owns=lambda path, record: "iedr" in record,
    line=lambda s: f"{s.id:22} {s.axis} {s.difficulty:8} {s.who}: {s.domain} [{' '.join(s.tags)}]",
    text=_text,
    problems=problems_of,
    identity=lambda s: (s.person.name, s.person.occupation),
    lines=lambda s: written_lines(s.lines) if isinstance(s, EmpaScenario) else (),
    story=_story,
    spread=lambda s: {"distance": s.distance, **{name: getattr(s, name) for name in _FEATURES}},
    printed=_figure_6,
)
