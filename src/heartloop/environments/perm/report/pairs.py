"""PERM's grades against each other: how many answers have each pair of levels, counted in a small table.

Pure: graded answers in, counts out. Levels are whole numbers, so points would lie on top of one another; a cell says how many
there are. Does not cover how a cell looks (`panel.html`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.errors import UseError
from heartloop.environments.perm.report.graded import Graded
from heartloop.scoring.statistics import spearman_matrix

__all__ = ["PAIRS", "Count", "PairTable", "pair_table", "pair_tables"]

PAIRS = (("resonation", "reception"), ("expression", "reception"), ("expression", "bystander"))
"""Across, up: is one who understands heard; is what is well said heard; is what is well said sound?"""

_LEVELS = (1, 2, 3, 4, 5)
_SCORES = ((0, 19), (20, 39), (40, 59), (60, 79), (80, 100))
"""The bystander's 0 to 100 in five stretches."""


class Count(NamedTuple):
    """Answers in a cell; `tint` in [0, 1] shades it."""

    n: int
    tint: float


class PairTable(NamedTuple):
    """One pair of judges over some answers."""

    across: str
    up: str
    columns: list[str]
    rows: list[tuple[str, list[Count]]]
    """From the highest to the lowest."""
    n: int
    rho: float | None
    """Spearman's rho of the two, over the answers; `None` where one of them does not vary."""


def pair_table(across: str, up: str, found: Sequence[Graded]) -> PairTable:
    """Counts of every pair of levels over the graded answers; a broken form has none and is left out."""
    graded = [g for g in found if not g.broken]
    at = [(_step(across, g.scores[across]), _step(up, g.scores[up])) for g in graded]
    most = max((at.count(cell) for cell in set(at)), default=1)
    names = _names(up)
    rows = []
    for y in range(len(names) - 1, -1, -1):
        counts = [at.count((x, y)) for x in range(len(_LEVELS))]
        rows.append((names[y], [Count(n, round(n / most, 3)) for n in counts]))
    return PairTable(across, up, _names(across), rows, len(graded), _rho(across, up, graded))


def pair_tables(found: Sequence[Graded]) -> list[PairTable]:
    """All of `PAIRS`."""
    return [pair_table(across, up, found) for across, up in PAIRS]


def _names(judge: str) -> list[str]:
    return [f"{low}–{high}" for low, high in _SCORES] if judge == "bystander" else [str(level) for level in _LEVELS]


def _step(judge: str, score: float) -> int:
    return min(4, int(score // 20)) if judge == "bystander" else int(score) - 1


def _rho(across: str, up: str, graded: Sequence[Graded]) -> float | None:
    table = {judge: {str(n): g.scores[judge] for n, g in enumerate(graded)} for judge in (across, up)}
    try:
        return spearman_matrix(table).between(across, up)
    except UseError:  # fewer than two answers, or one judge gave all the same
        return None
