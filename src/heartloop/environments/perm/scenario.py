"""PERM's records: scenarios of our own form, scenarios drawn from EmpatheticDialogues, and the form of an answer.

Published fields (PERM App. A.1): persona, scenario, query, one of the 32 emotions of EmpatheticDialogues. The rest is ours, for
the embedded judges. Texts of drawn scenarios are their authors' (CC BY-NC 4.0); none of them is part of this project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from heartloop.environments.records import first_record, set_loader
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import (
    Matter,
    Persona,
    Tag,
    Word,
    Written,
    matters_as_text,
    numbered,
    problems_in_cues,
    problems_in_query,
    problems_in_speech,
    problems_in_tags,
    stands,
)

Emotion = Literal[
    "afraid", "angry", "annoyed", "anticipating", "anxious", "apprehensive", "ashamed", "caring", "confident", "content",
    "devastated", "disappointed", "disgusted", "embarrassed", "excited", "faithful", "furious", "grateful", "guilty", "hopeful",
    "impressed", "jealous", "joyful", "lonely", "nostalgic", "prepared", "proud", "sad", "sentimental", "surprised", "terrified",
    "trusting",
]  # fmt: skip
"""The labels of EmpatheticDialogues (PERM App. A.1)."""
EMOTIONS: tuple[Emotion, ...] = get_args(Emotion)

Want = Literal["gladness", "company", "understanding", "thinking", "acknowledgement", "room"]
"""What the user would welcome (ours): shared joy; company; understanding where others misunderstood; clear thinking, perhaps a
next step; recognition of what they did or bore; an opportunity to tell more."""

SETS = ("samples",)


class PermBrief(Written):
    """The short form of a scenario, for judge models: the published fields."""

    id: str = Field(pattern=r"^perm-[a-z]+-\d\d$")
    title: str = Field(min_length=8, max_length=60)
    emotion: Emotion
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    scenario: str = Field(min_length=120, max_length=520)
    """What happened and what is at stake, in the third person; the model under test sees it."""
    query: str = Field(min_length=60, max_length=620)

    @property
    def person(self) -> str:
        return str(self.persona)

    @property
    def who(self) -> str:
        return f"{self.persona} ({self.persona.gender})"

    @property
    def stratum(self) -> str:
        return self.emotion


class PermScenario(PermBrief):
    """The complete form, with what the embedded judges read."""

    feelings: tuple[Word, ...] = Field(min_length=4, max_length=10)
    """Words of a correct analysis for the user's feelings, including mixed and unspoken ones."""
    misreadings: tuple[Word, ...] = Field(min_length=2, max_length=8)
    """Words for feelings that a careless reader might assume, but the user does not have."""
    cause: Matter
    need: Matter
    """What the user needs; not said in scenario or query."""
    want: Want
    touches: tuple[Matter, ...] = Field(min_length=2, max_length=4)
    """Specific things that a good answer could take up."""
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """What would hurt or bore the user, with cues of such replies."""


FORM: Literal["perm-drawn/1"] = "perm-drawn/1"
"""Value of `form` in every line of a file of drawn scenarios."""


class DrawnScenario(Written):
    """One dialogue of EmpatheticDialogues (`importers`), which has no persona; a writer model can add it (`writing`)."""

    form: Literal["perm-drawn/1"]
    id: str = Field(pattern=r"^perm-[a-z]+-[0-9a-f]{8}$")
    emotion: Emotion
    tags: tuple[Tag, ...] = ()
    """`suicide` and `self-harm` by rules; others if a model wrote the scenario."""
    persona: Persona | None = None
    scenario: str = Field(min_length=1, max_length=4000)
    """The situation from the data set, in the first person; if enriched, a scenario in the third person."""
    query: str = Field(min_length=1, max_length=4000)
    source: str

    @property
    def title(self) -> str:
        return self.query if len(self.query) <= 60 else f"{self.query[:57].rstrip()}..."

    @property
    def person(self) -> str:
        return str(self.persona or "somebody")

    @property
    def who(self) -> str:
        unknown = "Somebody of whom no more is known than what follows."
        return f"{self.persona} ({self.persona.gender})" if self.persona else unknown

    @property
    def stratum(self) -> str:
        return self.emotion


AnyScenario = PermBrief | DrawnScenario


load_drawn = set_loader(DrawnScenario, (), __package__, schema="docs/perm.md")
"""Drawn scenarios of a file, without those that have an excluded tag."""

_load_own: Callable[..., list[PermBrief]] = set_loader(PermScenario, SETS, __package__, schema="docs/perm.md", brief=PermBrief)


def load_scenarios(name: str | Path = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[PermBrief] | list[DrawnScenario]:
    """A shipped set by name, or a file of written (complete or short) or drawn scenarios, without those with an excluded tag."""
    if name not in SETS and first_record(Path(name)).get("form") == FORM:
        return load_drawn(name, exclude_tags=exclude_tags)
    return _load_own(name, exclude_tags=exclude_tags)


def problems_of(scenario: PermBrief) -> list[str]:
    problems = [*problems_in_tags(scenario.tags), *problems_in_query(scenario.query, least=14, most=110)]
    if not scenario.id.startswith(f"perm-{scenario.emotion}-"):
        problems.append(f"id {scenario.id} does not name the emotion {scenario.emotion}")
    if (first := scenario.persona.name.split()[0]).lower() not in scenario.scenario.lower():
        problems.append(f"the scenario does not name {first}")
    problems += problems_in_speech({"scenario": scenario.scenario, "query": scenario.query})
    if scenario.emotion in scenario.query.lower() and scenario.emotion not in ("sad", "angry", "proud", "afraid"):
        problems.append(f"the query says {scenario.emotion!r} itself; expected a query that shows the emotion without naming it")
    if not isinstance(scenario, PermScenario):
        return problems
    if both := set(scenario.feelings) & set(scenario.misreadings):
        problems.append(f"{', '.join(sorted(both))} is both a feeling and a misreading")
    touches, sores = numbered("touch", scenario.touches), numbered("sore", scenario.sores)
    problems += problems_in_cues([("cause", scenario.cause), ("need", scenario.need), *touches, *sores])
    text = f"{scenario.scenario} {scenario.query}".lower()
    for touch in scenario.touches:
        if not any(stands(cue, text) for cue in touch.cues):
            problems.append(f"no cue of the touch {touch.text!r} occurs in scenario or query")
    if not any(stands(cue, text) for cue in scenario.cause.cues):
        problems.append("no cue of the cause occurs in scenario or query")
    if sum(stands(cue, text) for cue in scenario.need.cues) > len(scenario.need.cues) // 2:
        problems.append("most cues of the need occur in scenario or query; expected at most half: the need is not said")
    return problems


def _line(s: AnyScenario) -> str:
    width, group = (26, s.emotion) if isinstance(s, DrawnScenario) else (22, s.want if isinstance(s, PermScenario) else "-")
    return f"{s.id:{width}} {group:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def _text(s: AnyScenario) -> str:
    full = s if isinstance(s, PermScenario) else None
    facts = [s.source] if isinstance(s, DrawnScenario) else [*([f"wants {full.want}"] if full else []), " ".join(s.tags)]
    who = s.who if isinstance(s, DrawnScenario) else f"{s.who}."
    parts = [f"{s.title} ({'; '.join((s.id, s.emotion, *facts))})", who, s.scenario, f"Query: {s.query}"]
    if full:
        parts.append(f"Feelings: {', '.join(full.feelings)}\nMisreadings: {', '.join(full.misreadings)}")
        named = (("Cause", (full.cause,)), ("Need", (full.need,)), ("Touch", full.touches), ("Sore", full.sores))
        parts.append(matters_as_text(named))
    return "\n\n".join(parts)


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    own = {"emotion", "persona", "query"} <= record.keys() or "misreadings" in record
    return (own and "dialogue_memory" not in record) or record.get("form") == FORM


SCENARIOS = Scenarios(
    sets=SETS,
    template=__package__,
    load=load_scenarios,
    owns=_owns,
    line=_line,
    text=_text,
    problems=problems_of,
    written=lambda s: not isinstance(s, DrawnScenario),
    identity=lambda s: (s.persona.name, s.persona.occupation) if s.persona else (s.id, ""),
    story=lambda s: f"{s.query} {s.scenario}",
    spread=lambda s: {"want": s.want} if isinstance(s, PermScenario) else {},
)


# The form of an answer: an analysis under `# Analysis`, then a response under `# Response` (PERM Figure 12)

BROKEN: Mapping[str, str] = {
    "empty": "the answer is empty",
    "no analysis": "no line is `# Analysis`",
    "no response": "no line is `# Response`",
    "twice": "a heading occurs twice",
    "wrong order": "the response precedes the analysis",
    "text before": "text precedes `# Analysis`",
    "empty part": "a part is empty, or only gives back what stands in its place in the prompt",
}
"""Kinds of invalid form with their descriptions, in the order of the checks."""

PLACEHOLDERS = (
    "(what goes on in them)", "(your words to them)",
    "<an analysis of the scenario and of what the user feels>", "<your response to the user>",
)  # fmt: skip
"""The text of each part in the policy's prompts. A policy that was trained here gave back nothing else (ours)."""

_HEADING = re.compile(r"^# (Analysis|Response)[ \t\r]*$", re.MULTILINE)


class PermAnswer(NamedTuple):
    """Both parts are empty if the form is invalid."""

    analysis: str
    response: str
    broken: str = ""
    """A key of `BROKEN`; empty if the form is valid."""


def parse(text: str) -> PermAnswer:
    """The two parts of an answer, stripped. The two headings must match exactly, each alone on its line; other headings are text.

    >>> parse("# Analysis\\nShe is proud of it.\\n\\n# Response\\nThree winters, and it floats!")
    PermAnswer(analysis='She is proud of it.', response='Three winters, and it floats!', broken='')
    >>> parse("Three winters, and it floats!").broken
    'no analysis'
    """
    headings = list(_HEADING.finditer(text))
    names = [heading[1] for heading in headings]
    checks = {
        "empty": not text.strip(),
        "no analysis": "Analysis" not in names,
        "no response": "Response" not in names,
        "twice": len(names) > 2,
        "wrong order": names[:1] == ["Response"],
        "text before": bool(headings) and bool(text[: headings[0].start()].strip()),
    }
    if broken := next((kind for kind, found in checks.items() if found), ""):
        return PermAnswer("", "", broken)
    first, second = headings
    analysis, response = text[first.end() : second.start()].strip(), text[second.end() :].strip()
    given = all(part and part not in PLACEHOLDERS for part in (analysis, response))
    return PermAnswer(analysis, response) if given else PermAnswer("", "", "empty part")
