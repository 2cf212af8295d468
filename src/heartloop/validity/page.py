"""The page of a validation and `validity.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_jsonable_python

import heartloop
from heartloop.core.blocks import Column, Estimate
from heartloop.core.system import reported, write_whole
from heartloop.environments.suites import RejudgingSuite, Result, RunSuite, Slope, SlopePanel
from heartloop.evaluation.leaderboard import terminal_table, with_notes
from heartloop.evaluation.remote import with_urls
from heartloop.report.drawing import Frame
from heartloop.report.site import Site, copy_assets, templates

if TYPE_CHECKING:
    import rich.table


class Part(NamedTuple):
    name: str
    suite: RunSuite | RejudgingSuite
    result: Result

    @property
    def source(self) -> str:
        return self.suite.source if isinstance(self.suite, RunSuite) else ""

    @property
    def short(self) -> str:
        """The name as words, for links."""
        return self.name.replace("-", " ").capitalize()


def write_validity_json(record: Mapping[str, Any], path: Path) -> None:
    """Writes numbers; what is not finite is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = to_jsonable_python(record, inf_nan_mode="null")
    write_whole(path, json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


def show_results(
    parts: Sequence[Part], record: Mapping[str, Any], path: Path, *, title: str, about: str = "",
    left_out: Sequence[tuple[str, str, str]] = (), warning: str = "",
) -> None:  # fmt: skip
    """Writes numbers into a path and the page into `report` next to it, and prints the summaries and what was left out.

    With one part, its own sentence replaces `about`. `left_out`: name and title of suites that did not run, and why.
    """
    from rich.console import Console
    from rich.text import Text

    site = Site([], [{"name": "index.html", "label": title}], "index.html", heartloop.__version__)
    template = templates().get_template("validity.html")
    html = template.render(site=site, title=title, about=about, parts=parts, left_out=left_out, warning=warning, drawn=drawn)
    page = path.parent / "report" / "index.html"
    with reported(f"write {path.parent}", "choose a folder that can be written"):
        write_validity_json(record, path)
        copy_assets(page.parent / "assets", ("report.css", "page.js"))
        page.write_text(html, encoding="utf-8", errors="backslashreplace")
    console = Console()
    for part in parts:
        summary, result = part.result.summary, part.result
        console.print(Text(part.suite.title, style="bold"), Text(result.verdict), sep="\n" if result.verdict else "")
        console.print(with_notes(summary.title, result_table(result), [*filter(None, [summary.help]), *result.notes]), "")
    lines = [*([f"Warning: {warning}"] if warning else []), *(f"Left out: {name}, {why}." for name, _, why in left_out)]
    console.print(
        "\n".join([*lines, "", with_urls(f"Numbers: {path}\nPage: {page}")]), markup=False, highlight=False, soft_wrap=True
    )


def drawn(panel: SlopePanel) -> dict[str, Any]:
    frame = Frame(left=40.0, top=8.0, width=132.0, height=150.0, turns=1, low=panel.low, high=panel.high)

    def line(slope: Slope) -> dict[str, Any]:
        change = slope.after - slope.before
        kind = "ties" if abs(change) <= panel.tie else "falls" if change < 0 else "rises"
        words = f"{slope.name}: {slope.before:.2f} to {slope.after:.2f}"
        return {"before": frame.y(slope.before), "after": frame.y(slope.after), "kind": kind, "words": words}

    slopes = [line(slope) for slope in panel.slopes]
    values = [value for slope in panel.slopes for value in (slope.before, slope.after)]
    marks = sorted({min(values), max(values), *([0.0] if min(values) < 0 < max(values) else [])})
    ticks = [(frame.y(value), f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}") for value in marks]
    falling = sum(slope["kind"] == "falls" for slope in slopes)
    return {"frame": frame, "slopes": slopes, "mean": line(panel.mean), "ticks": ticks, "falling": falling}


def result_table(result: Result) -> rich.table.Table:
    from rich.text import Text

    summary = result.summary
    table = terminal_table()
    table.add_column(Text(summary.corner), no_wrap=True)
    for column in summary.columns:
        table.add_column(Text(column.name), justify="right", no_wrap=True)
    for number, row in enumerate(summary.rows):
        last = number + 1 == len(summary.rows) or not summary.rows[number + 1].cells
        cells = [Text(_cell(cell, column)) for cell, column in zip(row.cells, summary.columns, strict=bool(row.cells))]
        table.add_row(Text(f" {row.head}") if cells else Text(row.head, style="bold"), *cells, end_section=bool(cells) and last)
    return table


def _cell(value: Estimate | float | int | str | None, column: Column) -> str:
    if isinstance(value, Estimate):
        return value.words(column.digits)
    return "" if value is None else f"{value:.{column.digits}f}" if isinstance(value, float) else str(value)
