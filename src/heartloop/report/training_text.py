"""Training runs as a table for the terminal, 80 columns wide. Does not cover the page (`training_page`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heartloop.evaluation.leaderboard import terminal_table
from heartloop.report.training_page import TrainingPage, pages_of
from heartloop.report.training_runs import is_training_run, read_training_run
from heartloop.report.training_summary import Course, Summary

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["training_tables"]


def training_tables(runs: Sequence[Path]) -> list[Table]:
    """A table for each environment that was trained on; folders of evaluations are left out.

    A line for each arm: runs that differ only in their seed. Printing needs a `rich.console.Console`; rich is imported here,
    so that the page alone does not load it.

    Raises:
        InputError: a run does not fit.
    """
    return [_table(page) for page in pages_of([read_training_run(run) for run in runs if is_training_run(run)])]


def _table(page: TrainingPage) -> Table:
    from rich.text import Text

    scale = f", points from {page.scale.low:g} to {page.scale.high:g}" if page.scale else ""
    title = f"Training on {page.environment or 'an unknown environment'}{scale}"
    table = terminal_table(title, "\n".join(_caption(page.summaries, page.notes)))
    table.add_column("recipe", overflow="fold", min_width=12)
    for head in ("seeds", "steps", "held out", "change", "training", "tokens\na reply", "failed"):
        table.add_column(head, justify="right", no_wrap=True, style="bold" if head == "change" else None)
    for row in page.summaries:
        table.add_row(*map(Text, _cells(row)))
    return table


def _cells(row: Summary) -> tuple[str, ...]:
    held_out = row.held_out
    change = "–"
    if held_out is not None:
        change = f"{held_out.change.mean:+.1f}"
        if held_out.change.n > 1:
            change += f"\n{held_out.change.low:+.1f} to\n{held_out.change.high:+.1f}"
    return (
        row.arm.name,
        str(len(row.arm.runs)),
        row.steps.replace(" of", "\nof"),
        _way(held_out, 1),
        change,
        _way(row.score, 1),
        _way(row.reply_tokens, 0),
        f"{row.failed_share:.1%}" if row.failed else "0",
    )


def _way(course: Course | None, digits: int) -> str:
    return "–" if course is None else f"{course.first.mean:.{digits}f}\n→ {course.last.mean:.{digits}f}"


def _caption(rows: Sequence[Summary], notes: Sequence[str]) -> list[str]:
    several = any(len(row.arm.runs) > 1 for row in rows)
    lines = [
        "First → last; all but the held-out score are smoothed." + (" Mean over seeds, lowest to highest." if several else "")
    ]
    calls, tokens = sum(row.calls for row in rows), sum(row.tokens for row in rows)
    if calls:
        costs = [row.cost for row in rows]
        cost = f", cost {sum(c for c in costs if c is not None):.2f}" if None not in costs else ""
        lines.append(f"User simulator and judges: {calls:,.0f} calls, {tokens:,.0f} tokens{cost}.")
    return [*lines, *notes]
