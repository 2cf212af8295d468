"""Published results of PERM's paper: models trained with its reward, judged by EQ-Bench3, and the user study."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from heartloop.core.blocks import Column, Published, PublishedTable, Row
from heartloop.environments.published import PrintedRow, published

__all__ = ["CRITERIA", "published_results"]

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
        conditions="PERM’s are scores of models trained with its reward, on EQ-Bench3, by a judge model of its authors’ choice.",
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
        corner_entry="published-perm",
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
        corner_entry="published-wins",
        fold=True,
    )
