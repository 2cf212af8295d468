"""EMPA: scenarios as text, what a set of them must pass, and which files are read as such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heartloop.environments.empa.card import render_sheet
from heartloop.environments.empa.scenario import SETS, load_scenarios, problems_of
from heartloop.environments.spec import Scenarios

__all__ = ["SCENARIOS"]


def _line(s: Any) -> str:
    return f"{s.id:22} {s.axis} {s.difficulty:8} {s.who}: {s.domain} [{' '.join(s.tags)}]"


def _story(s: Any) -> str:
    return " ".join([s.opening, s.story.trigger, *(stage.text for stage in s.story.stages), *(beat.text for beat in s.beats)])


def _lines(s: Any) -> Iterable[str]:
    return [line for group in s.lines.model_dump().values() for line in group]


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    load=load_scenarios,
    owns=lambda path, record: "iedr" in record,
    line=_line,
    sheet=render_sheet,
    problems=problems_of,
    identity=lambda s: (s.person.name, s.person.occupation),
    lines=_lines,
    story=_story,
)
