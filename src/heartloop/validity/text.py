"""The result of a validation as a table for the terminal, 80 columns wide. Does not cover the page (`page`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heartloop.core.blocks import Column, Estimate
from heartloop.environments.suites import Result
from heartloop.evaluation.leaderboard import terminal_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import rich.table

    from heartloop.validity.page import Part

__all__ = ["print_results", "result_table"]


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
        cells = [Text(_cell(cell, column)) for cell, column in zip(row.cells, summary.columns, strict=bool(row.cells))]
        table.add_row(Text(f" {row.head}") if cells else Text(row.head, style="bold"), *cells, end_section=bool(cells) and last)
    return table


def print_results(parts: Sequence[Part], left_out: Sequence[tuple[str, str, str]]) -> None:
    """Prints the summary of every suite, and which were left out and why."""
    from rich.console import Console

    console = Console()
    for part in parts:
        console.print(result_table(part.result))
    for name, _, why in left_out:
        console.print(f"Left out: {name}, {why}.", markup=False, highlight=False, soft_wrap=True)


def _cell(value: Estimate | float | int | str | None, column: Column) -> str:
    if value is None or isinstance(value, (str, int)):
        return "" if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.{column.digits}f}"
    interval = "" if value.low is None else f" ({value.low:.{column.digits}f} to {value.high:.{column.digits}f})"
    return f"{value.mean:.{column.digits}f}{interval}"
