"""Scenarios of daily conversation: a person, a companion's memory of them, and what they say today.

The published fields (PERM App. A.8: profile, dialogue memory, event memory, query), and fields for the embedded judges (ours).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, PrivateAttr, model_serializer

from heartloop.environments.records import by_tags, set_loader
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import (
    Matter,
    Part,
    Persona,
    Tag,
    Word,
    Written,
    fingerprint_of,
    matters_as_text,
    numbered,
    problems_in_cues,
    problems_in_query,
    problems_in_speech,
    problems_in_tags,
    stands,
)

Kind = Literal["worry", "good-news", "decision", "values", "chat", "help", "remembering"]
"""Kind of the query (ours): something troubles them; something went well; a small choice; right and wrong; talk for its own
sake; a request to make or find something; a question about earlier dialogues, or one that depends on them."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Want = Literal["gladness", "company", "understanding", "thinking", "acknowledgement", "room", "help"]
"""What the person would welcome: as in PERM, and `help`, something of immediate use."""

Bearing = Literal["bears", "idle", "sore", "overtaken"]
"""Relation of a memory to the query: a good answer uses it; it is true but irrelevant; a reminder of it would hurt now; the query
shows that it is no longer true."""

SETS = ("instances",)
OWN_NOTES = "own-notes"
"""Variant of the policy prompt in which a dialogue is a series of sessions, and the model reads its own notes of earlier ones."""
_MOST_SESSIONS = 5
MOST_TURNS = 2 * _MOST_SESSIONS - 1
"""Replies in a series: an answer in each session, and the notes after all but the last."""

_AHEAD = timedelta(days=400)
_RELATIVE_DATE = re.compile(r"\b(yesterday|today|tomorrow|tonight|(last|next|this) (week|month|year)|ago)\b", re.IGNORECASE)


class _OfSeries(Part):
    """Fields of a series are written only if set, so that scenarios without them keep their fingerprints."""

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        unset = [name for name in ("series", "session", "said_in") if getattr(self, name, None) is None]
        return {name: value for name, value in handler(self).items() if name not in unset}


class BriefMemory(_OfSeries):
    on: date
    """The day of the dialogue (note), or the day it happened or will happen (event)."""
    text: str = Field(min_length=12, max_length=240)
    """Part of the policy prompt, with its day."""
    bearing: Bearing | None = None
    """Read by the embedded judges only."""
    cues: tuple[str, ...] = Field(default=(), max_length=12)
    """Words by which an answer mentions it. None is in the query, so an answer that uses one has used the memory. Of an
    overtaken memory: words of an answer that takes it as still true."""
    said_in: int | None = Field(None, ge=1, lt=_MOST_SESSIONS)
    """In a series, the session whose query says it; `None` for what the companion knew at first."""


class Memory(BriefMemory):
    bearing: Bearing
    cues: tuple[str, ...] = Field(min_length=3, max_length=12)


class Values(Part):
    """A question of right and wrong, explicit or implied."""

    question: str = Field(min_length=20, max_length=200)
    sides: tuple[Matter, ...] = Field(min_length=2, max_length=3)
    """Points of a balanced answer, each with words by which an answer makes it."""
    slants: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """One-sided, cynical or unjust verdicts, each with words by which an answer gives it."""


class DailyBrief(_OfSeries, Written):
    """The short form of a scenario, for judge models: the published fields."""

    id: str = Field(pattern=r"^daily-\d{2,3}$")
    title: str = Field(min_length=8, max_length=60)
    kind: Kind
    tags: tuple[Tag, ...] = Field(min_length=1)
    persona: Persona
    about: str = Field(min_length=20, max_length=200)
    """The rest of their profile: how they live, what they like, how they like to be spoken with."""
    today: date
    dialogue_memory: tuple[BriefMemory, ...] = Field(min_length=1, max_length=4)
    """Notes of earlier dialogues, oldest first."""
    event_memory: tuple[BriefMemory, ...] = Field(min_length=1, max_length=5)
    """Events with their days, oldest first; some may be in the future."""
    query: str = Field(min_length=20, max_length=480)
    series: str | None = Field(None, pattern=r"^[a-z]+$")
    """Name of a person's sessions, which are scenarios of their own too (ours)."""
    session: int | None = Field(None, ge=1, le=_MOST_SESSIONS)
    """Number in the series."""
    _later: tuple[DailyBrief, ...] = PrivateAttr(())
    _earlier: tuple[BriefMemory, ...] = PrivateAttr(())
    _excluded: bool = PrivateAttr(False)

    @property
    def sessions(self) -> tuple[DailyBrief, ...]:
        """The sessions of the series, if this is its first scenario in the file; else this scenario alone."""
        return (self, *self._later)

    @property
    def is_series(self) -> bool:
        """Whether the sessions can be played one after the other."""
        return len(self.sessions) > 1 and not self._excluded and not _problems_in_series(self)

    @property
    def earlier(self) -> tuple[BriefMemory, ...]:
        """The queries of the sessions before this one; of a session in `sessions` only."""
        return self._earlier

    @property
    def fingerprint(self) -> str:
        own = super().fingerprint
        return fingerprint_of([own, *(one.fingerprint for one in self._later)]) if self._later else own

    @property
    def person(self) -> str:
        return str(self.persona)

    @property
    def stratum(self) -> str:
        return self.kind

    @property
    def memories(self) -> tuple[BriefMemory, ...]:
        return (*self.dialogue_memory, *self.event_memory)


class DailyScenario(DailyBrief):
    """The complete form, with what the embedded judges read."""

    dialogue_memory: tuple[Memory, ...] = Field(min_length=1, max_length=4)
    event_memory: tuple[Memory, ...] = Field(min_length=1, max_length=5)
    feelings: tuple[Word, ...] = Field(min_length=2, max_length=8)
    misreadings: tuple[Word, ...] = Field(min_length=2, max_length=6)
    """Words for feelings that they do not have but a careless reader might assume."""
    asked: Matter
    """What they explicitly ask for or report; cues: words of an answer that does it or responds to it."""
    implied: Matter
    want: Want
    openings: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """Possible continuations: what somebody who knows them would ask or take up next."""
    values: Values | None = None
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    """What would hurt or bore, with cues in the words of a clumsy companion."""


_load = set_loader(DailyScenario, SETS, __package__, schema="docs/daily.md", brief=DailyBrief)


def load_scenarios(name: str | Path = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[DailyBrief]:
    """As `set_loader` returns; the first scenario of a series has its sessions, and is no series if one of them is excluded."""
    scenarios: list[DailyBrief] = list(_load(str(name)))
    for place, first in enumerate(scenarios):
        series = [one for one in scenarios if first.series is not None and one.series == first.series]
        if series and series[0] is first:
            scenarios[place] = in_series(series, excluded=any(set(one.tags) & set(exclude_tags) for one in series))
    return by_tags(scenarios, str(name), exclude_tags=exclude_tags)


def in_series(series: Sequence[DailyBrief], *, excluded: bool = False) -> DailyBrief:
    """The first of these sessions of one person, which knows the others; each of those knows what was said before it."""
    said = BriefMemory.model_construct  # longer than a memory may be
    first, *later = copies = [session.model_copy() for session in series]
    for place, session in enumerate(copies):
        session._earlier = tuple(said(on=one.today, text=f"Said: {one.query}") for one in series[:place])
    first._later, first._excluded = tuple(later), excluded
    return first


def _problems_in_series(first: DailyBrief) -> list[str]:
    sessions, name = first.sessions, first.series
    if (name is None) != (first.session is None):
        return ["series and session go together; expected both or none"]
    if len(sessions) == 1:
        return []
    problems = []
    if (numbers := [one.session for one in sessions]) != (expected := [*range(1, len(sessions) + 1)]):
        problems.append(f"series {name} has the sessions {numbers}; expected {expected}, in this order")
    if len({(one.persona, one.about) for one in sessions}) > 1:
        problems.append(f"persona or about differ between the sessions of series {name}")
    if (days := [one.today for one in sessions]) != sorted(set(days)):
        problems.append(f"today does not increase from session to session of series {name}")
    return problems


def problems_of(scenario: DailyBrief) -> list[str]:
    problems = [*problems_in_tags(scenario.tags), *problems_in_query(scenario.query, least=5, most=85)]
    query = scenario.query.lower()
    memories = [*numbered("note", scenario.dialogue_memory), *numbered("event", scenario.event_memory)]
    if isinstance(scenario, DailyScenario):
        if scenario.kind == "values" and scenario.values is None:
            problems.append("the kind is values, but the field values is null")
        if len({memory.bearing for memory in scenario.memories}) < 2:
            problems.append("all memories have the same bearing; expected at least two different ones")
        if both := set(scenario.feelings) & set(scenario.misreadings):
            problems.append(f"{', '.join(sorted(both))} is both a feeling and a misreading")
        texts = {name: memory.text for name, memory in memories}
        problems += problems_in_speech({"query": scenario.query, "about": scenario.about, **texts})
        answered = [("asked", scenario.asked), ("implied", scenario.implied), *numbered("opening", scenario.openings)]
        sides = numbered("side", scenario.values.sides) + numbered("slant", scenario.values.slants) if scenario.values else []
        problems += problems_in_cues([*memories, *answered, *sides, *numbered("sore", scenario.sores)])
        problems += [
            f"most cues of {name} are in the query; expected words of an answer"
            for name, matter in answered
            if sum(stands(cue, query) for cue in matter.cues) > len(matter.cues) // 2
        ]
    problems += _problems_in_series(scenario)
    queries = {one.session: one.query.lower() for one in scenario.sessions}
    problems += [
        f"session {one.session}: no cue of {memory.text!r} is in the query of session {memory.said_in}, which says it"
        for one in scenario.sessions[1:]
        for memory in one.memories
        if memory.bearing == "bears" and memory.cues and memory.said_in in queries
        and not any(stands(cue, queries[memory.said_in]) for cue in memory.cues)
    ]  # fmt: skip
    for noun, row in (("note", scenario.dialogue_memory), ("event", scenario.event_memory)):
        days = [memory.on for memory in row]
        if days != sorted(days):
            problems.append(f"the {noun}s are not in the order of their dates")
    if any(note.on >= scenario.today for note in scenario.dialogue_memory):
        problems.append(f"a note is not before today, {scenario.today}")
    if any(event.on > scenario.today + _AHEAD for event in scenario.event_memory):
        problems.append("an event is more than 400 days in the future")
    for (name, _), memory in zip(memories, scenario.memories, strict=True):
        if memory.said_in is not None and memory.said_in >= (scenario.session or 1):
            problems.append(f"{name} was said in session {memory.said_in}; expected one before session {scenario.session}")
        if relative := _RELATIVE_DATE.search(memory.text):
            problems.append(f"{name} says {relative[0].lower()!r}; its date states the day")
        if repeated := [cue for cue in memory.cues if stands(cue, query)]:
            problems.append(f"cue {repeated[0]!r} of {name} is in the query, so it does not show that the memory was used")
        if memory.cues and memory.bearing != "overtaken" and not any(stands(cue, memory.text.lower()) for cue in memory.cues):
            problems.append(f"no cue of {name} is in its text")
    return problems


def _line(s: DailyBrief) -> str:
    want = s.want if isinstance(s, DailyScenario) else "-"
    return f"{s.id:12} {s.kind:12} {want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def _text(s: DailyBrief) -> str:
    def lines(memories: Sequence[BriefMemory]) -> str:
        return "\n".join(
            f"- {m.on.isoformat()} ({m.bearing}): {m.text} ({', '.join(m.cues)})" if m.cues else f"- {m.on.isoformat()}: {m.text}"
            for m in memories
        )

    full = s if isinstance(s, DailyScenario) else None
    parts = [
        f"{s.title} ({s.id}; {s.kind}; {f'wants {full.want}; ' if full else ''}{' '.join(s.tags)})",
        *([f"Session {s.session} of the series {s.series}"] if s.series else []),
        f"{s.person} ({s.persona.gender}). {s.about}",
        f"Notes of earlier dialogues:\n{lines(s.dialogue_memory)}",
        f"Noted events:\n{lines(s.event_memory)}",
        f"On {s.today.isoformat()} says: {s.query}",
    ]
    if full:
        parts.append(f"Feelings: {', '.join(full.feelings)}\nMisreadings: {', '.join(full.misreadings)}")
        named = [("Asked", (full.asked,)), ("Implied", (full.implied,)), ("Opening", full.openings), ("Sore", full.sores)]
        if full.values is not None:
            parts.append(f"Question of values: {full.values.question}")
            named += [("Side", full.values.sides), ("Slant", full.values.slants)]
        parts.append(matters_as_text(named))
    return "\n\n".join(parts)


SCENARIOS = Scenarios(
    sets=SETS,
    load=load_scenarios,
    template=__package__,
    owns=lambda path, record: "dialogue_memory" in record,
    line=_line,
    text=_text,
    problems=problems_of,
    identity=lambda s: (f"{s.persona.name}{f' in session {s.session}' if (s.session or 1) > 1 else ''}", s.persona.occupation),
    story=lambda s: " ".join([s.query, *([s.about] if (s.session or 1) == 1 else []), *(memory.text for memory in s.memories)]),
    playable=lambda s, variant: variant != OWN_NOTES or s.is_series,
    spread=lambda s: {"want": s.want} if isinstance(s, DailyScenario) else {},
)
