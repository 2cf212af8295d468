"""Published results of EMPA's paper."""

from __future__ import annotations

from typing import Any

from heartloop.core.blocks import Column, Published, PublishedTable, Range, Row
from heartloop.environments.published import published

__all__ = ["published_results"]


def published_results() -> Published:
    rows: Any = published(__package__, "empa_table07_leaderboard")
    leaderboard = PublishedTable(
        source="EMPA, Table 7",
        title="Leaderboard",
        help="Means over 30 cases. EPM-Q is 0.4 outcome + 0.2 efficiency + 0.4 stability. The paper prints no interval.",
        columns=(
            Column("#", digits=0, entry="published-epmq"),
            Column("EPM-Q", range=Range(0, 120, 0), entry="published-epmq"),
            *(Column(name, entry="published-epmq") for name in ("Outcome", "Efficiency", "Stability")),
        ),
        rows=tuple(
            Row(row["model"], (row["rank"], row["epm_q"], row["outcome"], row["efficiency"], row["stability"])) for row in rows
        ),
    )
    return Published(
        title="EPM-Q and its components",
        tables=(leaderboard,),
        conditions="EMPA’s were measured with its authors’ own user, judge and director on 30 cases in Chinese, by the preset "
        "released.",
        papers=("EMPA: Evaluating Persona-Aligned Empathy as a Process",),
    )
