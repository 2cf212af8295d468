"""The result of a validation as a table for the terminal, 80 columns wide. Does not cover the page (`page`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heartloop.environments.suites import Result
from heartloop.evaluation.leaderboard import terminal_table

if TYPE_CHECKING:
    import rich.table

__all__ = ["result_table"]


def result_table(result: Result) -> rich.table.Table:
    """The summary with the notes below it; printing needs a `rich.console.Console`."""
    from rich.text import Text

    summary = result.summary
    table = terminal_table(summary.title, "\n".join(result.notes))
    table.add_column(Text(summary.corner), no_wrap=True)
    for column in summary.columns:
        table.add_column(Text(column.name), justify="right", no_wrap=True)
    for number, row in enumerate(summary.rows):
        last = number + 1 == len(summary.rows) or not summary.rows[number + 1].cells
        cells = [Text("" if cell is None else str(cell)) for cell in row.cells]
        table.add_row(Text(f" {row.head}") if cells else Text(row.head, style="bold"), *cells, end_section=bool(cells) and last)
    return table
