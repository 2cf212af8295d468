"""EQ-Bench3 scores that PERM's paper printed, and our means in the same columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heartloop.core.blocks import Column, Estimate, PanelInput, Published, PublishedTable, Row, Table
from heartloop.core.dialogue import Transcript
from heartloop.environments.published import published
from heartloop.scoring.estimates import estimate

__all__ = ["PRINTED", "marks", "mean_mark", "published_results"]

PRINTED: Mapping[str, tuple[str, str]] = {
    "depth_of_insight": ("DoI", "depth_of_insight"),
    "emotional_reasoning": ("ER", "emotional_reasoning"),
    "demonstrated_empathy": ("DE", "demonstrated_empathy"),
    "warmth": ("WRM", "warmth"),
    "humanlike": ("HL", "humanlikeness"),
    "pragmatic_ei": ("PEI", "pragmatic_emotional_intelligence"),
    "social_dexterity": ("SD", "social_dexterity"),
}
"""PERM's Table 1: its abbreviation and the column of the published table, by criterion."""


def published_results() -> Published:
    rows: Any = [row for row in published(__package__, "perm_table01_eqbench3") if row["measure"] == "score"]
    names = [column for _, column in PRINTED.values()]
    table = PublishedTable(
        source="PERM, Table 1",
        title="Qwen2.5-7B-Instruct and models trained from it",
        help="Marks of 0 to 20 and the rubric score. The paper prints no interval.",
        columns=_columns("published-eqbench"),
        rows=tuple(Row(row["model"], (*(row[name] for name in names), row["overall"])) for row in rows),
    )
    return Published(
        title="seven marks and the rubric score",
        tables=(table,),
        conditions="EQ-Bench3’s were printed by PERM’s paper, which does not name the version of its judge in the table.",
        papers=("PERM: Psychology-grounded Empathetic Reward Modeling for Large Language Models",),
        measured=_measured,
    )


def marks(dialogue: Transcript) -> Iterator[tuple[str, bool, float]]:
    """Criterion, whether it counts, and mark; what is not a number in a transcript is skipped."""
    if dialogue.score is None or not dialogue.turns:
        return
    for part in ("counted", "style"):
        given = dialogue.turns[-1].evidence.get(part)
        for name, mark in given.items() if isinstance(given, Mapping) else ():
            if isinstance(mark, (int, float)) and not isinstance(mark, bool):
                yield str(name), part == "counted", float(mark)


def mean_mark(dialogues: list[Transcript], criterion: str) -> Estimate | None:
    """The mean mark of a criterion over dialogues, with its interval over scenarios; `None` without a mark."""
    given = [(mark, dialogue.scenario) for dialogue in dialogues for name, _, mark in marks(dialogue) if name == criterion]
    return estimate([mark for mark, _ in given], [scenario for _, scenario in given])


def _columns(overall: str) -> tuple[Column, ...]:
    return (*(Column(short, entry="published-eqbench") for short, _ in PRINTED.values()), Column("Overall", entry=overall))


def _measured(page: PanelInput) -> Table:
    rows = []
    for place, row in enumerate(page.models):
        seen = row.headline
        if seen.mean is not None:
            cells = (*(mean_mark(page.behind(row), name) for name in PRINTED), Estimate(seen.n, seen.mean, seen.low, seen.high))
            rows.append(Row(row.model, cells, place))
    return Table("", _columns("eqbench-mean"), tuple(rows))
