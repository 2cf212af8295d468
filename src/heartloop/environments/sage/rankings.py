"""External rankings of models that SAGE was compared with."""

from __future__ import annotations

from typing import Any

from heartloop.environments.report import published
from heartloop.environments.spec import ExternalRanking
from heartloop.scoring.agreement import spearman_matrix

__all__ = ["arena"]


def arena() -> ExternalRanking:
    """Scores in Chatbot Arena, as SAGE prints them (Figure 1a)."""
    rows: Any = published("heartloop.environments.sage.report", "sage_figure01a_leaderboard_vs_arena")
    ratings = {row["model"]: float(row["arena_score"]) for row in rows}
    scores = {row["model"]: float(row["sentient_score"]) for row in rows}
    rho = spearman_matrix({"arena": ratings, "sage": scores}).between("arena", "sage")
    return ExternalRanking(ratings, f"{rho:.2f} over these {len(ratings)} models, by the rows of Figure 1a")
