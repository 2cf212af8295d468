"""Daily instances: a person, what a companion remembers of them, and what they say today.

Covers the published instance (PERM App. A.8: profile, dialogue memory, event memory, query), what the embedded judges read an
answer by (ours), and the rules that a shipped instance obeys. Does not cover near-duplicates (`heartloop.authoring`), nor how
anything is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Literal, get_args

from pydantic import Field

from heartloop.environments.cues import problems_in_cues, problems_in_speech, stands
from heartloop.environments.records import Matter, Part, Persona, Tag, Word, Written, set_loader
from heartloop.environments.spec import Scenarios

__all__ = [
    "KINDS",
    "SCENARIOS",
    "SETS",
    "Bearing",
    "Kind",
    "Memory",
    "Scenario",
    "Values",
    "Want",
    "load_scenarios",
    "problems_of",
]

Kind = Literal["worry", "good-news", "decision", "values", "chat", "help", "remembering"]
"""What is said (ours): something weighs; something went well; a small choice; right and wrong; talk for its own sake; a thing to
be made or found; something of earlier talks is asked after, or hangs on them."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Want = Literal["gladness", "company", "understanding", "thinking", "acknowledgement", "room", "help"]
"""What would land: as in PERM, and `help`, something of use, now."""

Bearing = Literal["bears", "idle", "sore", "overtaken"]
"""What a memory is to this query: a good answer draws on it; it is true and beside the point; it would hurt to be reminded of
it now; what they say now goes beyond it, and to speak as if it were still so would be wrong."""

SETS = ("instances",)
"""Sets by name."""

_AHEAD = timedelta(days=400)


class Memory(Part):
    """One thing that the companion remembers."""

    on: date
    """Of a note: the day of the talk. Of an event: the day it happened or will happen."""
    text: str = Field(min_length=12, max_length=240)
    """The model under test reads it, with its day."""
    bearing: Bearing
    """Nobody but the embedded judges reads it."""
    cues: tuple[str, ...] = Field(min_length=3, max_length=12)
    """Words by which an answer would speak of it. None stands in the query: who uses one has looked into the memory. Of one
    that is overtaken: words of an answer that takes it for still so."""


class Values(Part):
    """What is right is in question, openly or beneath the question."""

    question: str = Field(min_length=20, max_length=200)
    """What has to be weighed, in one sentence."""
    sides: tuple[Matter, ...] = Field(min_length=2, max_length=3)
    """What a balanced answer would hold, each with words by which it would."""
    slants: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """Verdicts that are one-sided, cynical or unjust, with words by which an answer would give them."""


class Scenario(Written):
    """One person, what is remembered of them, and what they say."""

    id: str = Field(pattern=r"^daily-\d\d$")
    title: str = Field(min_length=8, max_length=60)
    kind: Kind
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    about: str = Field(min_length=20, max_length=200)
    """What their profile says besides: how they live, what they like, how they like to be spoken with."""
    today: date
    """The day of the talk."""
    dialogue_memory: tuple[Memory, ...] = Field(min_length=1, max_length=4)
    """Notes of earlier talks, oldest first."""
    event_memory: tuple[Memory, ...] = Field(min_length=1, max_length=5)
    """Events with their days, oldest first; some may still lie ahead."""
    query: str = Field(min_length=20, max_length=480)
    """What they say, in the first person."""
    feelings: tuple[Word, ...] = Field(min_length=2, max_length=8)
    """Words by which an answer would rightly name what they feel, the quiet part of it too."""
    misreadings: tuple[Word, ...] = Field(min_length=2, max_length=6)
    """Words by which it would name a feeling that they do not have, though a careless reader might think so."""
    asked: Matter
    """What they ask for or tell in so many words; cues: what an answer would hold that does it or takes it up."""
    implied: Matter
    """What they are after and do not say."""
    want: Want
    openings: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """Where the talk could go from here: what somebody who knows them would ask or take up next."""
    values: Values | None = None
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """What would sting or bore, with cues as a clumsy companion would say it."""

    @property
    def person(self) -> str:
        """Name, age and trade."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}"

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the kind."""
        return self.kind

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Notes, then events."""
        return (*self.dialogue_memory, *self.event_memory)


load_scenarios = set_loader(Scenario, SETS, __package__, noun="instance", schema="docs/daily.md")
"""A shipped set, or a file by path."""


def problems_of(scenario: Scenario) -> list[str]:
    """What is wrong with an instance beyond its schema; empty when nothing is."""
    found: list[str] = []
    if "none" in scenario.tags and len(scenario.tags) > 1:
        found.append("tag none stands beside others")
    if scenario.kind == "values" and scenario.values is None:
        found.append("the kind is values and nothing is said of them")
    words = len(scenario.query.split())
    if not 5 <= words <= 85:
        found.append(f"the query has {words} words; expected 5 to 85")
    if not re.search(r"\b(I|I'm|I've|I'd|I'll|me|my|mine|myself|we|we've|we're|our|us)\b", scenario.query):
        found.append("the query is not in the first person")
    if len({memory.bearing for memory in scenario.memories}) < 2:
        found.append("every memory bears alike on the query; one should bear on it less, or more, than the others")
    both = set(scenario.feelings) & set(scenario.misreadings)
    if both:
        found.append(f"{', '.join(sorted(both))} is both a feeling and a misreading")
    named = _named(scenario)
    texts = {name: memory.text for name, memory in _memories(scenario)}
    found += problems_in_speech({"query": scenario.query, "about": scenario.about, **texts})
    found += problems_in_cues(named)
    return found + _problems_in_memory(scenario) + _problems_in_cues(scenario)


def _problems_in_memory(scenario: Scenario) -> list[str]:
    found: list[str] = []
    query = scenario.query.lower()
    for noun, row in (("note", scenario.dialogue_memory), ("event", scenario.event_memory)):
        days = [memory.on for memory in row]
        if days != sorted(days):
            found.append(f"the {noun}s are not in the order of their days")
    if any(note.on >= scenario.today for note in scenario.dialogue_memory):
        found.append(f"a note is not older than today, {scenario.today}")
    if any(event.on > scenario.today + _AHEAD for event in scenario.event_memory):
        found.append("an event lies more than 400 days ahead")
    for name, memory in _memories(scenario):
        loose = re.search(r"\b(yesterday|today|tomorrow|tonight|(last|next|this) (week|month|year)|ago)\b", memory.text.lower())
        if loose:
            found.append(f"{name} says {loose[0]!r}; its day says when")
        told = [cue for cue in memory.cues if stands(cue, query)]
        if told:
            found.append(f"cue {told[0]!r} of {name} stands in the query; by it nobody shows that they remember")
        if memory.bearing != "overtaken" and not any(stands(cue, memory.text.lower()) for cue in memory.cues):
            found.append(f"no cue of {name} stands in it")
    return found


def _problems_in_cues(scenario: Scenario) -> list[str]:
    query = scenario.query.lower()
    found = []
    openings = [(f"opening {number}", matter) for number, matter in enumerate(scenario.openings, 1)]
    for name, matter in [("asked", scenario.asked), ("implied", scenario.implied), *openings]:
        if sum(stands(cue, query) for cue in matter.cues) > len(matter.cues) // 2:
            found.append(f"most cues of {name} stand in the query; they are an answer's words, not the query's")
    return found


def _memories(scenario: Scenario) -> list[tuple[str, Memory]]:
    return [
        *((f"note {number}", note) for number, note in enumerate(scenario.dialogue_memory, 1)),
        *((f"event {number}", event) for number, event in enumerate(scenario.event_memory, 1)),
    ]


def _named(scenario: Scenario) -> list[tuple[str, Matter | Memory]]:
    values = scenario.values
    return [
        *_memories(scenario), ("asked", scenario.asked), ("implied", scenario.implied),
        *((f"opening {number}", matter) for number, matter in enumerate(scenario.openings, 1)),
        *((f"side {number}", matter) for number, matter in enumerate(values.sides if values else (), 1)),
        *((f"slant {number}", matter) for number, matter in enumerate(values.slants if values else (), 1)),
        *((f"sore {number}", matter) for number, matter in enumerate(scenario.sores, 1)),
    ]  # fmt: skip


def _line(s: Any) -> str:
    return f"{s.id:12} {s.kind:12} {s.want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def _text(s: Any) -> str:
    def remembered(memories: Sequence[Any]) -> str:
        return "\n".join(f"- {m.on.isoformat()} ({m.bearing}): {m.text} ({', '.join(m.cues)})" for m in memories)

    named = [("Asked", s.asked), ("Implied", s.implied), *(("Opening", m) for m in s.openings), *(("Sore", m) for m in s.sores)]
    if s.values is not None:
        named += [*(("Side", m) for m in s.values.sides), *(("Slant", m) for m in s.values.slants)]
    parts = [
        f"{s.title} ({s.id}; {s.kind}; wants {s.want}; {' '.join(s.tags)})",
        f"{s.person} ({s.persona.gender}). {s.about}",
        f"Notes of earlier talks:\n{remembered(s.dialogue_memory)}",
        f"Days noted:\n{remembered(s.event_memory)}",
        f"On {s.today.isoformat()} says: {s.query}",
        f"Feels: {', '.join(s.feelings)}\nDoes not feel: {', '.join(s.misreadings)}",
        f"In question: {s.values.question}" if s.values is not None else "",
        "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, matter in named),
    ]
    return "\n\n".join(filter(None, parts))


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    load=load_scenarios,
    owns=lambda path, record: "dialogue_memory" in record,
    line=_line,
    text=_text,
    problems=problems_of,
    identity=lambda s: (s.persona.name, s.persona.occupation),
    story=lambda s: " ".join([s.query, s.about, *(memory.text for memory in s.memories)]),
)
