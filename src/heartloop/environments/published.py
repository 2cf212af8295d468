"""Published results and settings as data: CSV tables in the folder `published` of a package.

Covers reading a table, typed. Does not cover how it is shown (`core.blocks.Published`). The published numbers were measured with
other user simulators, prompts and scenarios; single values are not comparable with ours.
"""

from __future__ import annotations

import csv
from importlib import resources

from heartloop.core.errors import UseError

__all__ = ["PrintedRow", "published", "published_names"]

PrintedRow = dict[str, str | int | float | None]
"""One row of a table, by column; an empty cell is `None`."""


def published_names(package: str) -> tuple[str, ...]:
    """Names of a package's tables.

    >>> "sage_table02_leaderboard" in published_names("heartloop.environments.sage.report")
    True
    """
    files = (resources.files(package) / "published").iterdir()
    return tuple(sorted(file.name.removesuffix(".csv") for file in files if file.name.endswith(".csv")))


def published(package: str, name: str) -> list[PrintedRow]:
    """A table as published. A column has the first type that fits all its filled cells: int, float or str.

    Raises:
        UseError: no such table.

    >>> published("heartloop.environments.sage.report", "rlver_table05_average_judge_correlation")[0]
    {'capability': 'empathic_depth', 'average_correlation': 0.981}
    """
    names = published_names(package)
    if name not in names:
        raise UseError(f"{package} has no published table {name!r}; expected one of {', '.join(names)}")
    text = (resources.files(package) / "published" / f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    columns = {column: _typed([row[column] for row in rows]) for column in rows[0]}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _typed(cells: list[str]) -> list[str | int | float | None]:
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]
