"""PERM scenarios: schema and rules.

Published fields (PERM App. A.1): persona, scenario, query, one of the 32 emotions of EmpatheticDialogues. Ours, for the embedded
judges: feelings, misreadings, cause, need, want, touches, sores. Does not cover near-duplicates (`heartloop.authoring`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, get_args

from pydantic import Field

from heartloop.environments.cues import problems_in_cues, problems_in_speech, stands
from heartloop.environments.records import Matter, Persona, Tag, Word, Written, set_loader

__all__ = [
    "EMOTIONS", "SETS", "Brief", "Emotion", "Scenario", "Want", "load_any", "load_scenarios", "problems_of", "who_is",
]  # fmt: skip

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
"""Names of the shipped sets."""


def who_is(persona: Persona) -> str:
    """A persona as text for prompts."""
    return f"{persona.name}, {persona.age}, {persona.occupation} ({persona.gender})"


class Brief(Written):
    """The short form of a scenario, the published fields, for judge models: one user and their message."""

    id: str = Field(pattern=r"^perm-[a-z]+-\d\d$")
    title: str = Field(min_length=8, max_length=60)
    emotion: Emotion
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    scenario: str = Field(min_length=120, max_length=520)
    """What happened and what is at stake, in the third person; the model under test sees it."""
    query: str = Field(min_length=60, max_length=620)
    """The user's message, in the first person."""

    @property
    def person(self) -> str:
        """Name, age and occupation."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}"

    @property
    def who(self) -> str:
        """The persona as text for prompts."""
        return who_is(self.persona)

    @property
    def stratum(self) -> str:
        """What `--limit` is stratified by: the emotion."""
        return self.emotion


class Scenario(Brief):
    """One user and their message, with what the embedded judges read."""

    feelings: tuple[Word, ...] = Field(min_length=4, max_length=10)
    """Words of a correct analysis for the user's feelings, including mixed and unspoken ones."""
    misreadings: tuple[Word, ...] = Field(min_length=2, max_length=8)
    """Words for feelings that a careless reader might assume, but the user does not have."""
    cause: Matter
    """What caused the feeling."""
    need: Matter
    """What the user needs; not said in scenario or query."""
    want: Want
    touches: tuple[Matter, ...] = Field(min_length=2, max_length=4)
    """Specific things that a good answer could take up."""
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """What would hurt or bore the user, with cues of such replies."""


load_scenarios = set_loader(Scenario, SETS, __package__, schema="docs/perm.md")
"""Complete scenarios of a shipped set by name, or of a file by path."""

load_any: Callable[..., list[Brief]] = set_loader(Scenario, SETS, __package__, schema="docs/perm.md", brief=Brief)
"""As `load_scenarios`, where a file may hold the short form."""


def problems_of(scenario: Brief) -> list[str]:
    """Problems of a scenario beyond its schema; empty if there are none."""
    problems: list[str] = []
    if not scenario.id.startswith(f"perm-{scenario.emotion}-"):
        problems.append(f"id {scenario.id} does not name the emotion {scenario.emotion}")
    if "none" in scenario.tags and len(scenario.tags) > 1:
        problems.append("tag none is combined with others")
    first = scenario.persona.name.split()[0]
    if first.lower() not in scenario.scenario.lower():
        problems.append(f"the scenario does not name {first}")
    words = len(scenario.query.split())
    if not 14 <= words <= 110:
        problems.append(f"the query has {words} words; expected 14 to 110")
    if not re.search(r"\b(I|I'm|I've|I'd|I'll|me|my|mine|we|our|us)\b", scenario.query):
        problems.append("the query is not in the first person")
    problems += problems_in_speech({"scenario": scenario.scenario, "query": scenario.query})
    if scenario.emotion in scenario.query.lower() and scenario.emotion not in ("sad", "angry", "proud", "afraid"):
        problems.append(f"the query says {scenario.emotion!r} itself; expected a query that shows the emotion without naming it")
    if not isinstance(scenario, Scenario):
        return problems
    both = set(scenario.feelings) & set(scenario.misreadings)
    if both:
        problems.append(f"{', '.join(sorted(both))} is both a feeling and a misreading")
    problems += problems_in_cues(_matters(scenario))
    text = f"{scenario.scenario} {scenario.query}".lower()
    for touch in scenario.touches:
        if not any(stands(cue, text) for cue in touch.cues):
            problems.append(f"no cue of the touch {touch.text!r} occurs in scenario or query")
    if not any(stands(cue, text) for cue in scenario.cause.cues):
        problems.append("no cue of the cause occurs in scenario or query")
    if sum(stands(cue, text) for cue in scenario.need.cues) > len(scenario.need.cues) // 2:
        problems.append("most cues of the need occur in scenario or query; expected at most half: the need is not said")
    return problems


def _matters(scenario: Scenario) -> list[tuple[str, Matter]]:
    named = [(f"touch {number}", touch) for number, touch in enumerate(scenario.touches, 1)]
    return [
        ("cause", scenario.cause), ("need", scenario.need), *named,
        *((f"sore {number}", sore) for number, sore in enumerate(scenario.sores, 1)),
    ]  # fmt: skip
