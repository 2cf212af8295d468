"""The result of a validation as a table for the terminal, 80 columns wide. Does not cover the page (`page`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heartloop.environments.suites import Result

if TYPE_CHECKING:
    import rich.table

__all__ = ["result_table"]


def result_table(result: Result) -> rich.table.Table:
    """The summary with the notes below it; printing needs a `rich.console.Console`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    summary = result.summary
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False, title_justify="left", caption_justify="left"
    )
    table.title = Text(summary.title, style="bold")
    table.add_column(Text(summary.corner), no_wrap=True)
    for column in summary.columns:
        table.add_column(Text(column.name), justify="right", no_wrap=True)
    for number, row in enumerate(summary.rows):
        last = number + 1 == len(summary.rows) or not summary.rows[number + 1].cells
        cells = [Text("" if cell is None else str(cell)) for cell in row.cells]
        table.add_row(Text(f" {row.head}") if cells else Text(row.head, style="bold"), *cells, end_section=bool(cells) and last)
    table.caption = Text("\n".join(result.notes))
    return table
