"""EIBench scenarios: schema, rules and text of our own form, and the form of released records.

Published fields (EIBench sections 3.1, 3.2, App. C): two profiles, the opening line (none in Charm, where the model speaks
first), anchors of negative emotion a and relation t, and the seed combination. Ours, for the embedded user: `concerns`, `demand`,
`ways`, `wrongs`, `sores`, `beats` and the written lines. Released texts are Chinese and the authors' (CC BY-NC); their anchors
are not changed (`scoring.anchor_problem` is for our scenarios only), and a record without a defined score is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    field_validator,
    model_validator,
)

from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.eibench.scoring import STATE_LIMITS, Anchors, anchor_problem
from heartloop.environments.records import set_loader
from heartloop.environments.written import (
    Cue,
    Key,
    Line,
    Matter,
    Part,
    Passage,
    Short,
    Tags,
    Written,
    beats_of,
    fingerprint_of,
    problems_in_concerns,
    problems_in_lines,
    unfit_cues,
    written_lines,
)

Scene = Literal["charm", "defense", "repair", "support"]
SCENES: tuple[Scene, ...] = ("charm", "defense", "repair", "support")

LINES: Mapping[Scene, tuple[str, ...]] = {
    "charm": ("pressed", "flattered"),
    "defense": ("yielded", "ruled"),
    "repair": ("excused", "hollow"),
    "support": ("advised", "comforted"),
}
"""Groups of written lines that only one scene has."""


class Seed(Part):
    """The combination a scenario was made from (EIBench Table 9). `keyword` determines `theme`."""

    theme: str
    keyword: str
    relationship: str
    intensity: str
    personality: str


class UserProfile(Part):
    """The simulated person: what the simulator is told and the model is not."""

    name: Short = Field(min_length=2)
    age: int = Field(ge=10, le=100)
    gender: Short = Field(min_length=3)
    role: Line = Field(min_length=10)
    """Who they are to the model, and what they do: one line."""
    background: Passage = Field(min_length=120)
    speaking_style: Line = Field(min_length=20)
    rules: tuple[Line, ...] = Field(min_length=3, max_length=5)
    """How they react: what they hold back, what makes it worse, what they need before they soften."""
    goal: Line = Field(min_length=20)


class ModelProfile(Part):
    """What the model under test is told: who it is, what it knows, what it may not do, what it is after."""

    name: Short = Field(min_length=2)
    role: Line = Field(min_length=10)
    background: Passage = Field(min_length=60)
    knows: tuple[Line, ...] = Field(min_length=2, max_length=5)
    limits: tuple[Line, ...] = Field(min_length=1, max_length=4)
    goal: Line = Field(min_length=20)


class AxisAnchors(Part):
    """Start, success and fail of one axis."""

    start: int
    success: int
    fail: int


class ScenarioAnchors(Part):
    """Anchors of a, negative emotion, and t, the relation."""

    a: AxisAnchors
    t: AxisAnchors


class EIBenchConcern(Part):
    """What moves this person: in Charm what they would like to talk of, elsewhere what weighs on them."""

    key: Key
    depth: Literal["surface", "feeling", "core"]
    text: Line = Field(min_length=15)
    cues: tuple[Cue, ...] = Field(min_length=4, max_length=12)


class EIBenchBeat(Part):
    """One written first-person line, ordered from surface to core, with the concern it reveals."""

    kind: Literal["fact", "feeling", "core"]
    concern: Annotated[str, Sent(maxLength=40)]
    text: str = Field(min_length=15, max_length=360)


class EIBenchLines(Part):
    """Written lines in the person's own voice. The last group of eight belongs to single scenes."""

    acks: tuple[Line, ...] = Field(min_length=3, max_length=4)
    missed: tuple[Line, ...] = Field(min_length=3, max_length=4)
    cold: tuple[Line, ...] = Field(min_length=3, max_length=4)
    repeat: tuple[Line, ...] = Field(min_length=2, max_length=2)
    silence: tuple[Line, ...] = Field(min_length=2, max_length=2)
    settled: tuple[Line, ...] = Field(min_length=2, max_length=2)
    """Said when they end the talk content; `broken_off`, when they end it in anger or despair."""
    broken_off: tuple[Line, ...] = Field(min_length=2, max_length=2)
    yielded: tuple[Line, ...] = Field(default=(), max_length=2)
    """Defense: the model gave in; `ruled`: it repeated the rule."""
    ruled: tuple[Line, ...] = Field(default=(), max_length=2)
    excused: tuple[Line, ...] = Field(default=(), max_length=2)
    """Repair: the model explained itself away; `hollow`: an apology that names nothing."""
    hollow: tuple[Line, ...] = Field(default=(), max_length=2)
    pressed: tuple[Line, ...] = Field(default=(), max_length=2)
    """Charm: questioned or pushed; `flattered`: complimented without ground."""
    flattered: tuple[Line, ...] = Field(default=(), max_length=2)
    advised: tuple[Line, ...] = Field(default=(), max_length=2)
    """Support: told what to do; `comforted`: comforted with a phrase."""
    comforted: tuple[Line, ...] = Field(default=(), max_length=2)


class EIBenchBrief(Written):
    """The short form of a scenario, without written beats and lines, for a model as user simulator."""

    id: str = Field(pattern=r"^(charm|defense|repair|support)-[a-z0-9-]+$")
    scene: Scene
    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    seed: Seed
    place: str = Field(min_length=3)
    user: UserProfile
    model: ModelProfile
    opening: str | None = Field(default=None, min_length=15, max_length=300)
    anchors: ScenarioAnchors
    concerns: tuple[EIBenchConcern, ...] = Field(default=(), max_length=6)
    demand: Matter | None = None
    """Defense: what the user wants and the limits forbid; cues of a reply that grants it."""
    wrongs: tuple[Matter, ...] = ()
    """Repair: what the model did, then what it cost the user."""
    ways: tuple[Matter, ...] = ()
    """Concrete ways forward within the limits (Defense, Repair) or small next steps (Support)."""
    sores: tuple[Matter, ...] = Field(default=(), max_length=3)
    """What hurts this user in particular."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if problems := self._inconsistencies():
            raise ValueError("; ".join(problems))
        return self

    def _inconsistencies(self) -> list[str]:
        problems: list[str] = []
        if self.seed.keyword not in pools().scenes[self.scene].get(self.seed.theme, {}):
            problems.append(f"seed {self.seed.theme!r} / {self.seed.keyword!r} is not in the pool of scene {self.scene!r}")
        for name in ("relationship", "intensity", "personality"):
            if (value := getattr(self.seed, name)) not in (pool := getattr(pools(), name)):
                problems.append(f"seed.{name} is {value!r}; expected one of {', '.join(pool)}")
        if problem := anchor_problem(*self.axes):
            problems.append(problem)
        if (self.opening is None) != (self.scene == "charm"):
            problems.append("in charm the model speaks first, so opening is null; every other scene needs an opening")
        return problems

    @property
    def stratum(self) -> str:
        return self.scene

    @property
    def person(self) -> str:
        return f"{self.user.name}, {self.user.age}, {self.user.role}"

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        a, t = self.anchors.a, self.anchors.t
        return Anchors(a.start, a.success, a.fail), Anchors(t.start, t.success, t.fail)

    @property
    def other(self) -> str:
        return self.model.name

    @property
    def facts(self) -> dict[str, str]:
        """For reports: the seed combination, and the goals of both sides."""
        return {
            **self.seed.model_dump(),
            "played": f"{self.model.name}, {self.model.role}",
            "task": self.model.goal,
            "limits": " ".join(self.model.limits),
            "goal": self.user.goal,
        }


class EIBenchScenario(EIBenchBrief):
    """One situation between a user and the model, in one of the four scenes."""

    concerns: tuple[EIBenchConcern, ...] = Field(min_length=4, max_length=6)
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    beats: tuple[EIBenchBeat, ...] = Field(min_length=7, max_length=9)
    lines: EIBenchLines

    def _inconsistencies(self) -> list[str]:
        problems = super()._inconsistencies()
        if (self.demand is None) != (self.scene != "defense"):
            problems.append("demand belongs to defense, and defense needs one")
        if len(self.wrongs) != (2 if self.scene == "repair" else 0):
            problems.append("wrongs belong to repair: two of them, the deed and what it cost")
        if bool(self.ways) if self.scene == "charm" else not 2 <= len(self.ways) <= 3:
            problems.append("ways: two or three, and none in charm")
        problems += problems_in_concerns(self.concerns, self.beats)
        problems += [
            f"lines.{group} belongs to {scene}, and {scene} needs two of them"
            for scene, groups in LINES.items()
            for group in groups
            if bool(getattr(self.lines, group)) != (scene == self.scene)
        ]
        return problems


class Pools(NamedTuple):
    """The seed pools (`pools.toml`): by scene and theme, keywords with the relationships that fit them; and the modifiers."""

    scenes: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]
    relationship: Mapping[str, str]
    intensity: Mapping[str, float]
    personality: Mapping[str, str]


@functools.cache
def pools() -> Pools:
    found = packaged_table(__package__, "pools.toml")
    scenes = {str(s): {theme: {key: tuple(fit) for key, fit in by.items()} for theme, by in found[s].items()} for s in SCENES}
    return Pools(scenes, found["relationships"], found["intensities"], found["personalities"])


def problems_of(scenario: EIBenchBrief) -> list[str]:
    """Problems of a scenario beyond its schema; empty if there are none."""
    problems: list[str] = []
    fitting = pools().scenes[scenario.scene][scenario.seed.theme][scenario.seed.keyword]
    if scenario.seed.relationship not in fitting:
        problems.append(f"relationship {scenario.seed.relationship!r} does not fit {scenario.seed.keyword!r}; expected {fitting}")
    spoken = (beat.text for beat in beats_of(scenario))
    problems += problems_in_lines([scenario.opening or "", *spoken, *lines_of(scenario)])
    if isinstance(scenario, EIBenchScenario):
        kinds = [beat.kind for beat in scenario.beats]
        if kinds[0] == "core" or kinds[-1] != "core":
            problems.append("beats must start at the surface and end at the core")
        if "feeling" not in kinds:
            problems.append("no beat is of kind feeling")
        if "core" not in {concern.depth for concern in scenario.concerns}:
            problems.append("no concern of depth core")
    demands = [scenario.demand] if scenario.demand is not None else []
    problems += unfit_cues([*scenario.concerns, *demands, *scenario.wrongs, *scenario.ways, *scenario.sores])
    profile = " ".join([scenario.model.background, *scenario.model.knows, scenario.model.role, scenario.model.goal]).lower()
    for concern in scenario.concerns:
        named = sum(re.search(rf"\b{re.escape(cue)}", profile) is not None for cue in concern.cues)
        if concern.depth == "core" and named > len(concern.cues) // 2:
            problems.append(f"the model's profile gives away the core concern {concern.key!r}")
    if scenario.user.name.lower() == scenario.model.name.lower():
        problems.append("both people have the same name")
    return problems


def lines_of(scenario: EIBenchBrief | EIBenchReleasedScenario) -> list[str]:
    return written_lines(scenario.lines) if isinstance(scenario, EIBenchScenario) else []


SETS = ("test", "train")
"""The shipped test set, and the training set, which `composer` composes when it is loaded."""

load_scenarios = set_loader(EIBenchScenario, SETS, __package__, schema="docs/eibench.md")
load_any = set_loader(EIBenchScenario, SETS, __package__, schema="docs/eibench.md", brief=EIBenchBrief)

FORM: Literal["eibench-released/1"] = "eibench-released/1"


def _point(value: object) -> object:
    low, high = STATE_LIMITS
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:  # also refuses nan
        raise ValueError(f"is {value!r}; expected a number from {low:g} to {high:g}")
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError(f"is {text!r}; expected a text that is not blank")
    return text


Point = Annotated[float, PlainValidator(_point), PlainSerializer(lambda value: value, return_type=Any)]
"""A value of an axis in [0, 100], integer or float as in the record."""
Text = Annotated[str, AfterValidator(_not_blank)]


class _Released(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _Defender(_Released):  # the model under test
    system_prompt: Text


class _Aggressor(_Defender):  # the user
    opening_line: str | None = None


class _Calibration(_Released):  # the start anchors
    initial_anger: Point
    initial_trust: Point


class _Goals(_Released):  # the success anchors
    target_anger: Point
    target_trust: Point


class _WorstCase(_Released):  # the fail anchors
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
            raise ValueError(f"is {tag!r}; expected one of {', '.join(SCENES)}")
        return tag

    @model_validator(mode="after")
    def _has_opening_and_score(self) -> Self:
        if self.scene != "charm" and not (self.aggressor_profile.opening_line or "").strip():
            raise ValueError(f"aggressor_profile.opening_line is missing; expected a text: the user speaks first in {self.scene}")
        for axis, (start, success, fail) in zip("at", self.axes, strict=True):
            if not (success - start) * (fail - start) < 0:
                raise ValueError(
                    f"anchors of {axis} are start {start:g} (initial_calibration), success {success:g} (rub_goals), "
                    f"fail {fail:g} (worst_case); expected success and fail on two sides of the start, or the score is undefined"
                )
        return self

    @property
    def scene(self) -> Scene:
        return next(scene for scene in SCENES if scene == self.scene_tag.strip().lower())

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        start, success, fail = self.initial_calibration, self.rub_goals, self.worst_case
        return (
            Anchors(start.initial_anger, success.target_anger, fail.worst_anger_min),
            Anchors(start.initial_trust, success.target_trust, fail.worst_trust_min),
        )


class EIBenchReleasedScenario(BaseModel):
    """A released record, unchanged, with the properties of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["eibench-released/1"]
    source: str
    record: ReleasedRecord

    place: ClassVar[str] = ""
    tags: ClassVar[tuple[str, ...]] = ()
    """Empty: records have no tags, whatever their content."""
    other: ClassVar[str] = "the other person"
    """Name of the model in prompts; records have no such field."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def scene(self) -> Scene:
        return self.record.scene

    @property
    def stratum(self) -> str:
        return self.scene

    @property
    def title(self) -> str:
        return self.record.title if isinstance(self.record.title, str) and self.record.title.strip() else self.id

    @property
    def person(self) -> str:
        return self.title  # records describe the user in free text only

    @property
    def opening(self) -> str | None:
        line = self.record.aggressor_profile.opening_line
        return line if line and line.strip() else None

    @property
    def axes(self) -> tuple[Anchors, Anchors]:
        return self.record.axes

    @property
    def facts(self) -> dict[str, str]:
        return {"source": self.source}

    @property
    def odd_anchors(self) -> bool:
        """Whether the anchors violate the rules for this project's scenarios."""
        return bool(anchor_problem(*self.axes))

    @property
    def fingerprint(self) -> str:
        user, model = self.record.aggressor_profile, self.record.defender_profile
        anchors = [[float(value) for value in axis] for axis in self.axes]
        return fingerprint_of([user.system_prompt, self.opening, model.system_prompt, self.scene, *anchors])


AnyEIBenchScenario = EIBenchBrief | EIBenchReleasedScenario
"""A scenario of this project, complete or in the short form, or a released record."""


def line_of(s: Any) -> str:
    if isinstance(s, EIBenchReleasedScenario):
        return f"{s.id:30} {s.scene:8} {s.title}"
    return f"{s.id:30} {s.scene:8} {s.person}: {s.seed.theme}, {s.seed.keyword} [{' '.join(s.tags)}]"


def text_of(s: Any) -> str:
    a, t = s.axes
    ends = [
        f"Negative emotion a: {a.start:g}, success {a.success:g}, failure {a.fail:g}\n"
        f"Relation t: {t.start:g}, success {t.success:g}, failure {t.fail:g}",
        f"Opening line: {s.opening}" if s.opening else "The model speaks first.",
    ]
    if isinstance(s, EIBenchReleasedScenario):
        record = s.record
        aims = {"Goal": record.goal_one_liner, "Success": record.success_criteria, "Must avoid": record.must_avoid}
        listed = {name: "; ".join(map(str, aim)) if isinstance(aim, list) else aim for name, aim in aims.items() if aim}
        parts = [
            f"{s.title} ({s.id}; {s.scene}; {s.source})",
            f"User:\n{record.aggressor_profile.system_prompt.strip()}",
            f"Model:\n{record.defender_profile.system_prompt.strip()}",
            "\n".join(f"{name}: {aim}" for name, aim in listed.items()),
            *ends,
        ]
        return "\n\n".join(filter(None, parts))
    user, model, seed = s.user, s.model, s.seed
    parts = [
        f"{s.title} ({s.id}; {seed.theme}, {seed.keyword}; {' '.join(s.tags)})",
        f"{s.person}; {s.place}.\nManner: {seed.personality}. Relationship: {seed.relationship}. Feeling: {seed.intensity}.",
        user.background,
        f"Wants: {user.goal}\nSpeaks: {user.speaking_style}\n{as_list(user.rules)}",
        f"The model is {model.name}, {model.role}. {model.background}\nIts goal: {model.goal}",
        f"It knows:\n{as_list(model.knows)}",
        f"Its limits:\n{as_list(model.limits)}",
        *ends,
        "\n".join(f"  {beat.kind:8} {beat.text}" for beat in beats_of(s)),
    ]
    return "\n\n".join(filter(None, parts))


def as_list(items: Iterable[str]) -> str:
    """One item a line, as in prompts."""
    return "\n".join(f"- {item}" for item in items)
