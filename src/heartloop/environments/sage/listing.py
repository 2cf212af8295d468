"""SAGE: scenarios as text, the checks of a set, and which files are SAGE scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.environments.sage.importers import scenario_of
from heartloop.environments.sage.scenario import FORM, SETS, SageReleasedScenario, SageScenario, load_set, problems_of
from heartloop.environments.sage.users import render_background, render_persona
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import written_lines

__all__ = ["SCENARIOS"]


def _line(s: Any) -> str:
    return f"{s.id:24} {s.intention:11} {s.person}: {s.theme} [{' '.join(s.tags)}]"


def _text(s: Any) -> str:
    parts = [
        f"{s.title} ({s.id}; {s.theme}; {' '.join(s.tags)})",
        f"Secretly {s.intention_text}.",
        render_persona(s),
        render_background(s),
        f"First message: {s.first_message}",
        _beats(() if isinstance(s, SageReleasedScenario) else s.told),
    ]
    return "\n\n".join(filter(None, parts))


def _beats(beats: Sequence[Any]) -> str:
    return "\n".join(f"  {beat.kind:8} {beat.text}" for beat in beats)


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    return record.get("form") == FORM or "player" in record or {"intention", "persona", "first_message"} <= record.keys()


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    template=__package__,
    load=load_set,
    owns=_owns,
    line=_line,
    text=_text,
    problems=problems_of,
    written=lambda s: not isinstance(s, SageReleasedScenario),
    identity=lambda s: (s.persona.name, s.persona.occupation),
    lines=lambda s: written_lines(s.lines) if isinstance(s, SageScenario) else (),
    imported=scenario_of,
    story=lambda s: " ".join([s.first_message, s.background.event, *(beat.text for beat in s.told)]),
)
