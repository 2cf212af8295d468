"""Results the papers printed, as data: to stand beside one's own, and to check our statistics against.

Covers reading the tables of this folder, typed; `README.md` names table and paper of each. Does not cover their sense:
they were measured with other simulators, prompts and scenarios than a run of ours, and do not compare number by number.
"""

from __future__ import annotations

import csv
from importlib import resources
from importlib.resources.abc import Traversable

from heartloop.core.errors import UseError

__all__ = ["Row", "available", "published"]

Row = dict[str, str | int | float | None]
"""One line of a table by column; an empty cell is `None`."""


def available() -> tuple[str, ...]:
    """Names of the tables.

    >>> "sage_table02_leaderboard" in available()
    True
    """
    return tuple(sorted(file.name.removesuffix(".csv") for file in _folder().iterdir() if file.name.endswith(".csv")))


def published(name: str) -> list[Row]:
    """A table as printed. A column is of whole numbers, of numbers, or else of text, as all its filled cells allow.

    Raises:
        UseError: no such table.

    >>> published("rlver_table05_average_judge_correlation")[0]
    {'capability': 'empathic_depth', 'average_correlation': 0.981}
    """
    if name not in available():
        raise UseError(f"no published table {name!r}; expected one of {', '.join(available())}")
    rows = list(csv.DictReader((_folder() / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
    columns = {column: _typed([row[column] for row in rows]) for column in rows[0]}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _folder() -> Traversable:
    return resources.files(__name__)


def _typed(cells: list[str]) -> list[str | int | float | None]:
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]
