"""The report panel of PERM: grades by judge, emotions, pairs of grades, ablation, best and worst answers, published results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from heartloop.core.blocks import (
    Column,
    LeaderboardColumn,
    PanelInput,
    PanelOutput,
    Published,
    PublishedTable,
    ReportPanel,
    Row,
    ScenarioView,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.perm.report.answers import answer
from heartloop.environments.perm.report.board import PermBoard
from heartloop.environments.report import PrintedRow, published

__all__ = ["CRITERIA", "PANEL", "build", "published_results"]

_SECTIONS = (
    ("components", "Grades"), ("emotions", "Emotions"), ("pairs", "Pairs"), ("ablation", "Ablation"),
    ("samples", "Best and worst"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    perm = PermBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    warnings: tuple[str, ...] = ()
    if perm.broken:
        has = "answer has" if perm.broken == 1 else "answers have"
        warnings = (
            f"{perm.broken} {has} an invalid form: not judged, {perm.price} points each. See Grades for models and reasons.",
        )
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                one.name, {model: means[one.key].mean for model, means in perm.grades.items() if one.key in means}, 1, one.entry
            )
            for one in perm.dimensions
        ),
        leaderboard_help=f"Computed with preset {preset} ({perm.how}) and bystander weight {perm.weight}; another preset or "
        "weight gives other numbers for the same grades. The judges' columns show mean grades; their intervals are under Grades.",
        facts=(
            ("Share of a grade", perm.how.removeprefix("a grade of 1 to 5 counts ")),
            ("Bystander's weight", _facts(page, "bystander_weight")),
            ("Left out of the reward", _facts(page, "without")),
        ),
        warnings=warnings,
        sections=_SECTIONS,
        context={"perm": perm},
    )


def _facts(page: PanelInput, fact: str) -> str:
    return ", ".join(sorted({value for d in page.dialogues if (value := d.facts.get(fact))}))


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = (facts.get("person"), facts.get("emotion"), f"wants {facts['want']}" if facts.get("want") else "")
    situation = facts.get("situation")
    return ScenarioView(" · ".join(filter(None, line)), (("Situation, which the model sees", situation),) if situation else ())


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Empty: `answers` shows the judges' grades in the answer."""
    return TurnView()


_table = partial(published, __package__)

CRITERIA: Mapping[str, str] = {
    "overall": "Overall",
    "depth_of_insight": "DoI",
    "emotional_reasoning": "ER",
    "demonstrated_empathy": "DE",
    "warmth": "WRM",
    "humanlikeness": "HL",
    "pragmatic_emotional_intelligence": "PEI",
    "social_dexterity": "SD",
}
"""Criteria of EQ-Bench3 by column of the tables, with the paper's abbreviations."""


def published_results() -> Published:
    return Published(
        title="models trained with its reward",
        tables=(
            _by_criterion(2, "Trained without one part of the reward", "Reward", _table("perm_table02_ablation"), "{variant}"),
            _by_criterion(
                6, "Trained with another weight of the bystander", "Weight",
                _table("perm_table06_bystander_coefficient"), "λ = {lambda_bys}",
            ),
            _by_criterion(7, "Trained from another model", "Model", _table("perm_table07_backbones"), "{backbone}, {model}"),
            _study(),
        ),
        conditions="PERM’s are EQ-Bench3 scores of models trained with its reward, by the judge model that its authors chose.",
        papers=("PERM: Psychology-grounded Empathetic Reward Modeling for Large Language Models",),
    )  # fmt: skip


def _by_criterion(number: int, title: str, corner: str, rows: list[PrintedRow], head: str) -> PublishedTable:
    return PublishedTable(
        source=f"PERM, Table {number}",
        title=title,
        help="Scores of the trained models by EQ-Bench3. A dash: the table does not print this criterion. The paper prints no "
        "interval.",
        columns=tuple(Column(name, entry="published-perm") for name in CRITERIA.values()),
        rows=tuple(Row(head.format(**row), tuple(_cell(row, criterion) for criterion in CRITERIA)) for row in rows),
        corner=corner,
        entry="published-perm",
        fold=True,
    )


def _cell(row: PrintedRow, criterion: str) -> Any:
    value = row.get(criterion)
    return f"{value:.1f} %" if row.get("measure") == "relative_improvement_percent" and value is not None else value


def _study() -> PublishedTable:
    rows: Any = _table("perm_table03_user_study")
    return PublishedTable(
        source="PERM, Table 3",
        title="Preferences in a user study",
        columns=tuple(Column(name, entry="published-wins") for name in ("Asked for", "Between", "Preferred the first")),
        rows=tuple(
            Row(
                row["dataset"],
                (
                    row["dimension"],
                    row["comparison"],
                    f"{row['win_rate_percent']:.1f} % ± {row['ci95_half_width_percent']:.1f}",
                ),
            )
            for row in rows
        ),
        corner="Messages from",
        entry="published-wins",
        fold=True,
    )


PANEL = ReportPanel(
    build=build,
    question="Empathy of one answer, graded by four judges",
    lede="The user sends one message. The model writes an analysis and one response. Four judges grade whether the analysis "
    "understands the user (resonation), whether the response is well worded (expression), how the user receives it (reception), "
    "and what a bystander thinks of it. The score is the reward times 100: the harmonic mean of the first three grades, minus "
    "penalties by the bystander and for length.",
    leaves_out=frozenset({"trajectories", "groups", "highlights"}),
    scenario=_scenario,
    turn=_turn,
    dialogue=answer,
    published=published_results,
    package=__package__,
    glossary="glossary.html",
    template="panel.html",
    script="panel.js",
    style="panel.css",
)
