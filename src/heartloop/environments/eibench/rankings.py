"""External rankings of models that EIBench was compared with."""

from __future__ import annotations

from typing import Any

from heartloop.environments.report import published
from heartloop.environments.spec import ExternalRanking

__all__ = ["arena"]


def arena() -> ExternalRanking:
    """Elo of the models in EIBench's arena of people (Table 4)."""
    rows: Any = published("heartloop.environments.eibench.report", "eibench_table04_leaderboard")
    ratings = {row["model"]: float(row["arena_elo"]) for row in rows if row["arena_elo"] is not None}
    return ExternalRanking(ratings, "0.82 with Qwen3-Max as the user, 0.70 with DeepSeek-V4-Pro (Table 5)")
