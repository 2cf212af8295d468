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

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from heartloop.core.schemas import Sent
from heartloop.environments.records import load_own_or_imported, set_loader
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
    check_concerns,
    problems_in_lines,
    written_lines,
)

__all__ = [
    "FORM",
    "GIVE_AWAY_PATTERNS",
    "INTENTIONS",
    "SETS",
    "AnySageScenario",
    "Background",
    "BriefAttempt",
    "BriefBackground",
    "BriefPersona",
    "Conflict",
    "Family",
    "Intention",
    "Moment",
    "Reactions",
    "ReleasedProfile",
    "SageAttempt",
    "SageBeat",
    "SageBrief",
    "SageConcern",
    "SageLines",
    "SagePersona",
    "SageReleasedScenario",
    "SageScenario",
    "family_of",
    "give_aways",
    "intention_of",
    "intention_text_of",
    "load_any",
    "load_scenarios",
    "load_set",
    "name_of",
    "problems_of",
    "story_fingerprint",
]


Family = Literal["support", "chat"]


class Intention(NamedTuple):
    """What a person secretly wants from the conversation; `cases` is the published test count."""

    key: str
    family: Family
    text: str
    rational: bool
    cases: int


INTENTIONS: dict[str, Intention] = {
    row.key: row
    for row in (
        # Meaning and counts: SAGE Table 3; wording ours. The last two: RLVER App. A.1, counts ours.
        Intention("dialectic", "support", "wants the matter weighed from both sides, with what speaks for and against each", True, 12),
        Intention("advice", "support", "wants advice that truly helps out of the present difficulty", True, 15),
        Intention("motives", "support", "wants to understand why the other people in this acted as they did", True, 11),
        Intention("reflection", "support", "wants to be led to look at their own part in this and to grow from it", True, 13),
        Intention("praise", "support", "wants sincere praise for something specific they did", False, 13),
        Intention("listen", "support", "wants someone to listen attentively while they pour it all out", False, 12),
        Intention("empathy", "support", "wants their feelings deeply understood, not merely soothed", False, 13),
        Intention("blameless", "support", "believes none of this is their fault and wants the other to agree", False, 11),
        Intention("interest", "chat", "wants to talk about what fascinates them with someone truly interested", False, 20),
        Intention("passive", "chat", "waits for the other to carry the conversation and to make it easy", False, 20),
    )
}  # fmt: skip
"""The ten hidden intentions by key."""

GIVE_AWAY_PATTERNS: dict[str, tuple[str, ...]] = {
    "dialectic": (r"\bboth sides\b", r"\bpros and cons\b", r"\bobjectiv", r"\bon (the )?one hand\b", r"\bbalanced\b", r"\bweigh (it|this|things) up\b", r"\bother side of\b"),
    "advice": (r"\badvi[cs]e\b", r"\bwhat (should|would|can|could|do) (i|you) do\b", r"\bshould i\b", r"\bhelp me (decide|figure|work|choose)\b", r"\bsuggest", r"\bany (ideas|tips)\b", r"\bhow do i\b"),
    "motives": (r"\bwhy (did|does|do|would|is|are|was|were) (he|she|they|my|her|his|someone|people|anyone)\b", r"\breasons?\b", r"\bmotive", r"\bunderstand (him|her|them)\b", r"\bgoing through (his|her|their) (head|mind)\b"),
    "reflection": (r"\bmy (own )?(part|role|share) in\b", r"\bwhat did i do\b", r"\bam i the (problem|one)\b", r"\bgrow(th)?\b", r"\blearn from\b", r"\breflect", r"\blook at myself\b"),
    "praise": (r"\bproud of me\b", r"\bpraise\b", r"\bwell done\b", r"\bdid i do (well|good|right)\b", r"\bgood job\b", r"\bimpress", r"\bgive me credit\b"),
    "listen": (r"\b(just )?(need|want) (to|someone to|somebody to) (vent|listen|talk)\b", r"\blet me (vent|rant)\b", r"\bvent(ing)?\b", r"\bhear me out\b", r"\brant\b", r"\blisten to me\b"),
    "empathy": (r"\bunderstand (me|how i feel|what i feel|my feelings)\b", r"\bfeel what i feel\b", r"\bempath", r"\bhow (it|this|that) feels\b", r"\bget (me|how i feel)\b"),
    "blameless": (r"\b(my|own) fault\b", r"\bto blame\b", r"\bblam(e|ed|ing) me\b", r"\bnot guilty\b", r"\bdid nothing wrong\b", r"\bam i wrong\b", r"\bon my side\b", r"\bdidn'?t do anything wrong\b"),
    "interest": (r"\b(want|need|like) to talk about\b", r"\bcan we talk about\b", r"\bare you interested\b", r"\bshare your interest\b"),
    "passive": (r"\byou (talk|start|lead|pick|choose)\b", r"\bsay something\b", r"\bentertain me\b", r"\bnot much of a talker\b", r"\bask me\b"),
}  # fmt: skip
"""Per intention, patterns (case-insensitive) that a first message must not match: they give it away."""


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
        intention = INTENTIONS[self.intention]
        if intention.family != self.family:
            raise ValueError(f"intention {self.intention!r} belongs to family {intention.family!r}, not {self.family!r}")
        if self.family == "support" and (self.background.conflict is None or len(self.background.tried) < 2):
            raise ValueError("a support scenario needs background.conflict and at least two background.tried")
        check_concerns(self.concerns, self.told)
        return self

    @property
    def told(self) -> tuple[SageBeat, ...]:
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


class SageScenario(SageBrief):
    """One person on one evening: everything the simulated user knows and nothing the policy is told."""

    persona: SagePersona
    background: Background
    concerns: tuple[SageConcern, ...] = Field(min_length=4, max_length=6)
    beats: tuple[SageBeat, ...] = Field(min_length=10, max_length=12)
    lines: SageLines

    @property
    def told(self) -> tuple[SageBeat, ...]:
        """The written beats."""
        return self.beats


def give_aways(intention: str, first_message: str) -> list[str]:
    """Problems of a first message that reveals the hidden intention; empty if it does not."""
    return [
        f"first message gives the intention away: matches {pattern!r}"
        for pattern in GIVE_AWAY_PATTERNS[intention]
        if re.search(pattern, first_message, re.IGNORECASE)
    ]


def problems_of(scenario: SageBrief) -> list[str]:
    """Problems of a scenario beyond its schema; empty if it passes. Of the short form, the first message alone is checked."""
    problems = give_aways(scenario.intention, scenario.first_message)
    if not isinstance(scenario, SageScenario):
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


load_scenarios = set_loader(SageScenario, SETS, __package__, schema="docs/scenarios.md")
"""Loads a shipped set, or a file by path, of complete scenarios."""

load_any: Callable[..., list[SageBrief]] = set_loader(
    SageScenario, SETS, __package__, schema="docs/scenarios.md", brief=SageBrief
)
"""As `load_scenarios`, where a file may hold the short form."""


FORM: Literal["sage-released/1"] = "sage-released/1"
"""Value of `form` in the lines of an imported file."""

_MEANINGS: dict[str, str] = {
    "dialectic": r"辩证|dialectic",
    "advice": r"建议|\badvice\b",
    "motives": r"其他人.*(原因|动机)|\breasons\b.*\bother people\b",
    "reflection": r"反思|自省|成长|\bself-reflection\b",
    "praise": r"夸|赞(?!同|成)|表扬|\bpraise\b",
    "listen": r"倾听|\blisten\b",
    "empathy": r"共情|\bempathi[sz]e\b",
    "blameless": r"没有.*(责任|错)|\bnot at fault\b",
}
"""Patterns of hidden intentions by our key (SAGE Table 3): Chinese as released, English as printed."""


def intention_of(task: str) -> str | None:
    """Our key of a released hidden intention; `None` if no pattern matches, or several do.

    >>> intention_of("想要一些建议"), intention_of("想要建议，也想被倾听"), intention_of("想聊聊爱好")
    ('advice', None, None)
    """
    fitting = [key for key, words in _MEANINGS.items() if re.search(words, task, re.IGNORECASE | re.DOTALL)]
    return fitting[0] if len(fitting) == 1 else None


def intention_text_of(task: str) -> str:
    """The hidden intention in our wording if its key is known, else the released text, quoted."""
    key = intention_of(task)
    return INTENTIONS[key].text if key else f"wants this: “{task}”"


def family_of(task: str) -> Family:
    """The family of a hidden intention; `support` if it is unknown, as of nearly all released profiles."""
    key = intention_of(task)
    return INTENTIONS[key].family if key else "support"


def name_of(player: str, *, otherwise: str) -> str:
    """Name, age and occupation from the persona text, as far as it lists them.

    >>> name_of("* 姓名：林一\\n* 年龄：30岁\\n* 职业：木匠", otherwise="x")
    '林一, 30岁, 木匠'
    """
    matches = [re.search(rf"{slot}\**\s*[:：]\s*\**\s*([^\n]+)", player) for slot in ("姓名", "年龄", "职业")]
    return ", ".join(match[1].strip() for match in matches if match) or otherwise


def story_fingerprint(player: str, scene: str, task: str, first_message: str | None) -> str:
    """16 hex digits of the SHA-256 of all text in the prompts; the same for the profile and the log of a scenario."""
    canonical = json.dumps([player, scene, task, first_message], ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ReleasedProfile(BaseModel):
    """One line of a released profile file. Training files lack `first_talk`; unknown fields are preserved."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = Field(min_length=1)
    player: str = Field(min_length=1)
    """Persona."""
    scene: str = Field(min_length=1)
    """Background, with reactions by mood."""
    main_cha: str
    """Character type."""
    cha_group: tuple[str, ...]
    """Traits."""
    task: str
    """Hidden intention."""
    first_talk: str | None = None


class SageReleasedScenario(BaseModel):
    """An imported scenario: the unchanged record, and the fields that `Sage` and `LLMUser` need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["sage-released/1"]
    source: str
    """Name of the source file."""
    record: ReleasedProfile

    @property
    def id(self) -> str:
        """The id of the record."""
        return self.record.id

    @property
    def family(self) -> Family:
        """`support` or `chat`."""
        return family_of(self.record.task)

    @property
    def intention(self) -> str:
        """Our key, or the released text if no key fits."""
        return intention_of(self.record.task) or self.record.task

    @property
    def stratum(self) -> str:
        """Stratum for `--limit`: the hidden intention."""
        return self.intention

    @property
    def intention_text(self) -> str:
        """The hidden intention as a clause."""
        return intention_text_of(self.record.task)

    @property
    def goal(self) -> str:
        """The released text of the hidden intention; a profile has no other goal."""
        return self.record.task

    @property
    def theme(self) -> str:
        """Empty: profiles have no theme, logs do."""
        return ""

    @property
    def title(self) -> str:
        """Name, age and occupation, or the id."""
        return self.person

    @property
    def tags(self) -> tuple[str, ...]:
        """Empty: the content is not tagged, and may be sensitive."""
        return ()

    @property
    def person(self) -> str:
        """Name, age and occupation as far as the persona lists them, or the id."""
        return name_of(self.record.player, otherwise=self.id)

    @property
    def place(self) -> str:
        """Empty: the persona has no such field."""
        return ""

    @property
    def first_message(self) -> str:
        """The user's first message; empty in a training profile, which cannot be played."""
        return self.record.first_talk or ""

    @property
    def fingerprint(self) -> str:
        """Hash of all text in the prompts."""
        record = self.record
        return story_fingerprint(record.player, record.scene, record.task, record.first_talk)


AnySageScenario = SageBrief | SageReleasedScenario
"""A scenario of this project, complete or in the short form, or an imported one."""


def load_set(name: str = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[AnySageScenario]:
    """The scenarios of a shipped set, or of a file of this project's form or an imported one.

    Raises:
        UseError: an unknown set and no such file, tags excluded from imported scenarios, which have none, or no scenario left.
        InputError: an invalid file, or a released file that was not imported.
    """
    return load_own_or_imported(
        load_any, name, SageReleasedScenario, command="sage-profiles", released="player", exclude_tags=exclude_tags
    )
