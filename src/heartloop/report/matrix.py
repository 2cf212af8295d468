"""Models against the measurements of a report: the table that its first page opens with.

Pure: pages in, cells out. Every measurement has a scale of its own, so the shade of a cell is its place on that scale. Does not
cover the same environment under several simulators or judges (`side_by_side`), or markup (`templates/matrix.html`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.blocks import Shade, shade
from heartloop.evaluation.scores import Outcomes
from heartloop.report.page import Page

__all__ = ["Cell", "Column", "Matrix", "matrix_of"]


class Column(NamedTuple):
    """One measurement: its file, its page, and what distinguishes it from others of its environment, if there are any."""

    address: str
    page: Page
    under: str


class Cell(NamedTuple):
    """A model in a measurement."""

    address: str
    """The model's section, as file and fragment."""
    rank: int | None
    seen: Outcomes
    shade: Shade


class Matrix(NamedTuple):
    """Models in the order of their mean rank, failure cases last, each with a cell for every column it was scored in."""

    columns: list[Column]
    rows: list[tuple[str, list[Cell | None]]]


def matrix_of(pages: Sequence[tuple[str, str, Page]]) -> Matrix | None:
    """The matrix of some pages, as (file, label, page); `None` for fewer than two pages, or if nothing is scored."""
    cells: dict[str, list[Cell | None]] = {}
    outside: set[str] = set()
    for at, (file, _, page) in enumerate(pages):
        for row in page.card.models:
            if row.headline.mean is not None:
                tint = shade([row.headline.mean], page.scale.low, page.scale.high)
                cells.setdefault(row.model, [None] * len(pages))[at] = Cell(
                    f"{file}#{page.model_ids[row.model]}", row.rank, row.headline, tint
                )
                if row.standing == "failure case":
                    outside.add(row.model)
    if len(pages) < 2 or not cells:
        return None

    def order(item: tuple[str, list[Cell | None]]) -> tuple[bool, float, str]:
        ranks = [cell.rank for cell in item[1] if cell is not None and cell.rank is not None]
        return (item[0] in outside, statistics.fmean(ranks) if ranks else float("inf"), item[0])

    titles = [page.title for _, _, page in pages]
    columns = [Column(file, page, label if titles.count(page.title) > 1 else "") for file, label, page in pages]
    return Matrix(columns, sorted(cells.items(), key=order))
