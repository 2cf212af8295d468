"""Contingency tables of PERM's grades: the number of answers with each pair of grades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.errors import UseError
from heartloop.environments.perm.report.graded import Graded
from heartloop.scoring.agreement import spearman_matrix

__all__ = ["PAIRS", "Count", "PairTable", "pair_table", "pair_tables"]

PAIRS = (("resonation", "reception"), ("expression", "reception"), ("expression", "bystander"))
"""Pairs of judges: horizontal and vertical."""

_LEVELS = (1, 2, 3, 4, 5)
_SCORES = ((0, 19), (20, 39), (40, 59), (60, 79), (80, 100))
"""Five ranges of the bystander's grade."""


class Count(NamedTuple):
    """Number of answers in a cell; `tint` in [0, 1] is its shade."""

    n: int
    tint: float


class PairTable(NamedTuple):
    """The table of one pair of judges."""

    across: str
    up: str
    columns: list[str]
    rows: list[tuple[str, list[Count]]]
    """From the highest to the lowest."""
    n: int
    rho: float | None
    """Spearman's rho over the answers; `None` if one judge's grades do not vary."""


def pair_table(across: str, up: str, answers: Sequence[Graded]) -> PairTable:
    """Counts of each pair of grades over the answers in valid form."""
    graded = [g for g in answers if not g.broken]
    at = [(_index(across, g.scores[across]), _index(up, g.scores[up])) for g in graded]
    most = max((at.count(cell) for cell in set(at)), default=1)
    names = _names(up)
    rows = []
    for y in range(len(names) - 1, -1, -1):
        counts = [at.count((x, y)) for x in range(len(_LEVELS))]
        rows.append((names[y], [Count(n, round(n / most, 3)) for n in counts]))
    return PairTable(across, up, _names(across), rows, len(graded), _rho(across, up, graded))


def pair_tables(answers: Sequence[Graded]) -> list[PairTable]:
    """The tables of all `PAIRS`."""
    return [pair_table(across, up, answers) for across, up in PAIRS]


def _names(judge: str) -> list[str]:
    return [f"{low}–{high}" for low, high in _SCORES] if judge == "bystander" else [str(level) for level in _LEVELS]


def _index(judge: str, score: float) -> int:
    return min(4, int(score // 20)) if judge == "bystander" else int(score) - 1


def _rho(across: str, up: str, graded: Sequence[Graded]) -> float | None:
    table = {judge: {str(n): g.scores[judge] for n, g in enumerate(graded)} for judge in (across, up)}
    try:
        return spearman_matrix(table).between(across, up)
    except UseError:  # fewer than two answers, or a judge gave the same grade to all
        return None
