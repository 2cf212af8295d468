"""Ablation of PERM's reward from stored grades: the models with a part left out or another bystander weight."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.blocks import ModelRow
from heartloop.core.errors import UseError
from heartloop.environments.perm.environment import Rules
from heartloop.environments.perm.report.graded import Graded
from heartloop.environments.perm.scoring import PARTS, PRESETS, broken_form
from heartloop.scoring.agreement import spearman_matrix

__all__ = ["VARIANTS", "Ablated", "Ablation", "AblationRow", "Variant", "ablations"]


class Variant(NamedTuple):
    """One setting of the reward; weight `None`: the weight that the answer was scored with."""

    name: str
    without: tuple[str, ...] = ()
    bystander_weight: float | None = None


VARIANTS: tuple[Variant, ...] = (
    Variant("all parts"),
    *(Variant(f"no {left}", (left,)) for left in (*PARTS, "bystander")),
    *(Variant(f"bystander {weight:.1f}", bystander_weight=weight) for weight in (0.1, 0.5, 1.0)),
    Variant("no length", ("length",)),
)
"""The first is the full reward; 0.1, 0.5 and 1.0 are the weights of PERM Table 6."""


class Ablated(NamedTuple):
    """A model under one variant: mean points, rank among the ranked models, and ranks gained (+) or lost (-)."""

    mean: float
    rank: int | None
    moved: int


class AblationRow(NamedTuple):
    """A model: its colour number, its row, and one cell per variant."""

    number: int
    score: ModelRow
    cells: list[Ablated]


class Ablation(NamedTuple):
    """All models under all variants, with one preset."""

    preset: str
    own: bool
    """Whether it is the preset of the run."""
    rows: list[AblationRow]
    agreement: list[float | None]
    """Spearman's rho of each variant with the full reward as scored; `None` if undefined."""
    ranked: int
    """Number of ranked models."""


def ablations(members: Sequence[tuple[int, ModelRow, Sequence[Graded]]], preset: str) -> list[Ablation]:
    """One table per preset, that of the run first; empty if no model has an answer."""
    shown = [member for member in members if member[2]]
    if not shown:
        return []
    full = {row.model: statistics.fmean(g.points for g in answers) for _, row, answers in shown}
    ranked = [row.model for _, row, _ in shown if row.standing == "ranked"]
    before = _ranks({model: full[model] for model in ranked})
    tables = []
    for name in (preset, *(other for other in PRESETS if other != preset)):
        means = [{row.model: _mean(answers, name, variant) for _, row, answers in shown} for variant in VARIANTS]
        ranks = [_ranks({model: column[model] for model in ranked}) for column in means]
        rows = []
        for number, row, _ in shown:
            cells = [
                Ablated(column[row.model], now.get(row.model), before[row.model] - now[row.model] if row.model in now else 0)
                for column, now in zip(means, ranks, strict=True)
            ]
            rows.append(AblationRow(number, row, cells))
        agreement = [_rho({m: full[m] for m in ranked}, {m: column[m] for m in ranked}) for column in means]
        tables.append(Ablation(name, name == preset, rows, agreement, len(ranked)))
    return tables


def _mean(answers: Sequence[Graded], preset: str, variant: Variant) -> float:
    return statistics.fmean(100.0 * _total(g, preset, variant) for g in answers)


def _total(g: Graded, preset: str, variant: Variant) -> float:
    rules = Rules(g.weight if variant.bystander_weight is None else variant.bystander_weight, variant.without)
    return broken_form(rules.weight) if g.broken else rules.reward(g.scores, g.tokens, preset).total


def _ranks(means: dict[str, float]) -> dict[str, int]:
    """Ranks from 1; means that are equal to six decimals share one."""
    rounded = {model: round(mean, 6) for model, mean in means.items()}
    order = sorted(rounded.values(), reverse=True)
    return {model: order.index(mean) + 1 for model, mean in rounded.items()}


def _rho(full: dict[str, float], other: dict[str, float]) -> float | None:
    try:
        return spearman_matrix({"full": full, "other": {m: round(mean, 6) for m, mean in other.items()}}).between("full", "other")
    except UseError:  # fewer than two models, or all means equal
        return None
