"""PERM scenarios: display as text, recognition of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heartloop.environments.perm.drawn import FORM, DrawnScenario, load_set
from heartloop.environments.perm.scenario import SETS, Scenario, problems_of
from heartloop.environments.spec import Scenarios

__all__ = ["SCENARIOS"]


def _line(s: Any) -> str:
    if isinstance(s, DrawnScenario):
        return f"{s.id:26} {s.emotion:15} {s.person}: {s.title} [{' '.join(s.tags)}]"
    return f"{s.id:22} {s.want if isinstance(s, Scenario) else '-':15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def _text(s: Any) -> str:
    if isinstance(s, DrawnScenario):
        return "\n\n".join([f"{s.title} ({s.id}; {s.emotion}; {s.source})", s.who, s.scenario, f"Query: {s.query}"])
    if not isinstance(s, Scenario):
        return "\n\n".join([f"{s.title} ({s.id}; {s.emotion}; {' '.join(s.tags)})", f"{s.who}.", s.scenario, f"Query: {s.query}"])
    named = (("Cause", s.cause), ("Need", s.need), *(("Touch", m) for m in s.touches), *(("Sore", m) for m in s.sores))
    parts = [
        f"{s.title} ({s.id}; {s.emotion}; wants {s.want}; {' '.join(s.tags)})",
        f"{s.who}.",
        s.scenario,
        f"Query: {s.query}",
        f"Feelings: {', '.join(s.feelings)}\nMisreadings: {', '.join(s.misreadings)}",
        "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, matter in named),
    ]
    return "\n\n".join(parts)


def _identity(s: Any) -> tuple[str, str]:
    return (s.persona.name, s.persona.occupation) if s.persona else (s.id, "")


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    own = {"emotion", "persona", "query"} <= record.keys() or "misreadings" in record
    return (own and "dialogue_memory" not in record) or record.get("form") == FORM


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    template=__package__,
    load=load_set,
    owns=_owns,
    line=_line,
    text=_text,
    problems=problems_of,
    written=lambda s: not isinstance(s, DrawnScenario),
    identity=_identity,
    story=lambda s: f"{s.query} {s.scenario}",
)
