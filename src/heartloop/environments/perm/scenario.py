"""PERM samples: a person, what happened, what they say, and what a good answer would have understood.

Covers the published sample (PERM App. A.1: persona, scenario, query, one of the 32 emotions of EmpatheticDialogues), what the
embedded judges read an analysis and a response by (ours), and the rules that a shipped sample obeys. Does not cover
near-duplicates (`heartloop.authoring`), nor how anything is judged.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from pydantic import Field

from heartloop.environments.cues import problems_in_cues, problems_in_speech, stands
from heartloop.environments.records import Matter, Persona, Tag, Word, Written, set_loader

__all__ = [
    "EMOTIONS", "SETS", "Emotion", "Scenario", "Want", "load_scenarios", "problems_of", "who_is",
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
"""What would land (ours): somebody to be glad or moved with; not to be alone in it; to be understood right, where others got it
wrong; a clear head beside theirs, perhaps a next step; that what they did or carried is seen; an opening to tell the rest."""

SETS = ("samples",)
"""Sets by name."""


def who_is(persona: Persona) -> str:
    """A persona as prompts tell it."""
    return f"{persona.name}, {persona.age}, {persona.occupation} ({persona.gender})"


class Scenario(Written):
    """One person and what they say."""

    id: str = Field(pattern=r"^perm-[a-z]+-\d\d$")
    title: str = Field(min_length=8, max_length=60)
    emotion: Emotion
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    scenario: str = Field(min_length=120, max_length=520)
    """What happened and what is at stake, in the third person; the model under test reads it."""
    query: str = Field(min_length=60, max_length=620)
    """What they say, in the first person."""
    feelings: tuple[Word, ...] = Field(min_length=4, max_length=10)
    """Words by which an analysis would rightly name the feeling, the mixed and the quiet part of it too."""
    misreadings: tuple[Word, ...] = Field(min_length=2, max_length=8)
    """Words by which it would name a feeling that they do not have, though a careless reader might think so."""
    cause: Matter
    """What set it off."""
    need: Matter
    """What they need and do not say; stands in neither scenario nor query in so many words."""
    want: Want
    touches: tuple[Matter, ...] = Field(min_length=2, max_length=4)
    """Particular things of theirs that a good answer could take up."""
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """What would sting or bore, with cues as a clumsy supporter would say it."""

    @property
    def person(self) -> str:
        """Name, age and trade."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}"

    @property
    def who(self) -> str:
        """As prompts tell it."""
        return who_is(self.persona)

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the emotion."""
        return self.emotion


load_scenarios = set_loader(Scenario, SETS, __package__, noun="sample", schema="docs/perm.md")
"""A shipped set, or a file by path."""


def problems_of(scenario: Scenario) -> list[str]:
    """What is wrong with a sample beyond its schema; empty when nothing is."""
    found: list[str] = []
    if not scenario.id.startswith(f"perm-{scenario.emotion}-"):
        found.append(f"id {scenario.id} does not name the emotion {scenario.emotion}")
    if "none" in scenario.tags and len(scenario.tags) > 1:
        found.append("tag none stands beside others")
    first = scenario.persona.name.split()[0]
    if first.lower() not in scenario.scenario.lower():
        found.append(f"the scenario does not name {first}")
    words = len(scenario.query.split())
    if not 14 <= words <= 110:
        found.append(f"the query has {words} words; expected 14 to 110")
    if not re.search(r"\b(I|I'm|I've|I'd|I'll|me|my|mine|we|our|us)\b", scenario.query):
        found.append("the query is not in the first person")
    found += problems_in_speech({"scenario": scenario.scenario, "query": scenario.query})
    said = scenario.query.lower()
    if said.count(scenario.emotion) and scenario.emotion not in ("sad", "angry", "proud", "afraid"):
        found.append(f"the query says {scenario.emotion!r} itself; let it be heard instead")
    both = set(scenario.feelings) & set(scenario.misreadings)
    if both:
        found.append(f"{', '.join(sorted(both))} is both a feeling and a misreading")
    found += problems_in_cues(_matters(scenario))
    told = f"{scenario.scenario} {scenario.query}".lower()
    for touch in scenario.touches:
        if not any(stands(cue, told) for cue in touch.cues):
            found.append(f"no cue of the touch {touch.text!r} stands in scenario or query")
    if not any(stands(cue, told) for cue in scenario.cause.cues):
        found.append("no cue of the cause stands in scenario or query")
    if sum(stands(cue, told) for cue in scenario.need.cues) > len(scenario.need.cues) // 2:
        found.append("most cues of the need stand in scenario or query; it is what they do not say")
    return found


def _matters(scenario: Scenario) -> list[tuple[str, Matter]]:
    named = [(f"touch {number}", touch) for number, touch in enumerate(scenario.touches, 1)]
    return [
        ("cause", scenario.cause), ("need", scenario.need), *named,
        *((f"sore {number}", sore) for number, sore in enumerate(scenario.sores, 1)),
    ]  # fmt: skip
