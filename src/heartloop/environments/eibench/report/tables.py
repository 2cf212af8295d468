"""Published results of EIBench's paper."""

from __future__ import annotations

from typing import Any

from heartloop.core.blocks import Column, Published, PublishedTable, Row
from heartloop.environments.published import published

__all__ = ["published_results"]


def published_results() -> Published:
    rows: Any = published(__package__, "eibench_table04_leaderboard")
    scenes = ("charm", "defense", "repair", "support")
    names = (
        "qwen3_max_rank", *(f"qwen3_max_{scene}" for scene in scenes), "qwen3_max_average", "ds_v4_pro_average", "ds_v4_pro_rank",
    )  # fmt: skip
    leaderboard = PublishedTable(
        source="EIBench, Table 4",
        title="Leaderboard with two user simulators",
        help="Outcome times 100, by scene with Qwen3-Max as the user simulator, and the scenario-weighted mean with it and with "
        "DeepSeek-V4-Pro. The paper prints no interval.",
        columns=(
            Column("#", digits=0, entry="published-eibench-rank"),
            *(Column(scene.capitalize(), entry="published-outcome") for scene in scenes),
            Column("Mean, Qwen3-Max", entry="published-outcome"),
            Column("Mean, DS-V4-Pro", entry="published-outcome"),
            Column("# there", digits=0, entry="published-eibench-rank"),
        ),
        rows=tuple(Row(row["model"], tuple(row[name] for name in names)) for row in rows),
    )
    return Published(
        title="four scenes, two user simulators",
        tables=(leaderboard,),
        conditions="EIBench’s were measured with Qwen3-Max and DeepSeek-V4-Pro on its own 213 scenarios, in Chinese; none of "
        "them is here.",
        papers=("EIBench: A Simulator-Based Benchmark and Turn-Credit RL for Emotion Management",),
    )
