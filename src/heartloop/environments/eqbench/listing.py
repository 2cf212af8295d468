"""EQ-Bench3 scenarios: loader, recognised folders, and representations as text."""

from __future__ import annotations

from typing import Any

from heartloop.environments.eqbench.released import load_scenarios
from heartloop.environments.eqbench.scenario import has_prompts
from heartloop.environments.spec import Scenarios

__all__ = ["SCENARIOS"]


def _line(s: Any) -> str:
    prompts = len(s.prompts("repaired"))
    only = "" if s.official else " (variant repaired only: its prompt header is malformed)"
    return f"{s.id:5} {s.kind:12} {s.category}: {s.title}, {prompts} prompt{'s' if prompts > 1 else ''}{only}"


def _text(s: Any) -> str:
    parts = [f"{s.title} ({s.id}; {s.kind}; {s.category})"]
    parts += [f"Prompt {number}:\n{text}" for number, text in enumerate(s.prompts("repaired"), 1)]
    sections = f"Sections of an answer: {', '.join(s.form.sections)}." if s.form.sections else ""
    rubric = s.form.rubric
    marked = ", ".join(name if name in rubric.counted else f"({name})" for name in rubric.criteria)
    parts += [
        sections,
        f"Debrief: {s.form.debrief}" if s.form.debrief else "",
        f"Criteria: {marked}; those in brackets do not count.",
    ]
    parts += [f"Notes for pairwise judges: {s.notes}" if s.notes else ""]
    return "\n\n".join(filter(None, parts))


SCENARIOS = Scenarios(
    sets=(),
    load=load_scenarios,
    owns=lambda path, record: path.is_dir(),
    line=_line,
    text=_text,
    written=lambda s: False,
    playable=has_prompts,
)
