"""Daily conversation: scenarios as text, what a set of them must pass, and which files are read as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heartloop.environments.daily.scenario import SETS, load_scenarios, problems_of
from heartloop.environments.spec import Scenarios

__all__ = ["SCENARIOS"]


def _line(s: Any) -> str:
    return f"{s.id:12} {s.kind:12} {s.want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def _sheet(s: Any) -> str:
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
    sheet=_sheet,
    problems=problems_of,
    identity=lambda s: (s.persona.name, s.persona.occupation),
    story=lambda s: " ".join([s.query, s.about, *(memory.text for memory in s.memories)]),
)
