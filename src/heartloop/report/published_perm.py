"""PERM's own tables as the page of published results shows them: one shape for three tables, and the user study.

Covers reading `published/perm_*.csv` into rows of criteria. Does not cover Table 1, the paper's EQ-Bench3 board, nor its sense
(`published/README.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from heartloop.report.eqbench_board import PRINTED
from heartloop.report.published import Row, published

__all__ = ["CRITERIA", "Printed", "PrintedRow", "perm_tables"]

CRITERIA: Mapping[str, str] = {"overall": "Overall", **{column: short for short, column in PRINTED.values()}}
"""The criteria of EQ-Bench3 that the paper prints, by column, with its own abbreviations."""


class PrintedRow(NamedTuple):
    """A line as printed: what was trained, its marks by criterion (`None` where not printed), whether they are percentages."""

    name: str
    marks: Mapping[str, Any]
    percent: bool


class Printed(NamedTuple):
    """A table as printed: its number in the paper, a title in our words, the heading of its first column."""

    number: int
    title: str
    first: str
    rows: list[PrintedRow]


def perm_tables() -> dict[str, Any]:
    """What the page shows: `tables` of criteria, the `criteria`, and the rows of the user `study`."""

    def line(name: str, row: Row) -> PrintedRow:
        return PrintedRow(name, {key: row.get(key) for key in CRITERIA}, row.get("measure") == "relative_improvement_percent")

    weights = [line(f"λ = {row['lambda_bys']}", row) for row in published("perm_table06_bystander_coefficient")]
    left_out = [line(str(row["variant"]), row) for row in published("perm_table02_ablation")]
    backbones = [line(f"{row['backbone']}, {row['model']}", row) for row in published("perm_table07_backbones")]
    return {
        "tables": [
            Printed(2, "Trained with a part of the reward left out", "Reward", left_out),
            Printed(6, "Trained with another weight of the bystander", "Weight", weights),
            Printed(7, "Trained from another model", "Model", backbones),
        ],
        "criteria": CRITERIA,
        "study": published("perm_table03_user_study"),
    }
