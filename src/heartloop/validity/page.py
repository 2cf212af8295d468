"""The page of a validation: paired slopes and tables as a suite gives them, and `validity.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import heartloop
from heartloop.core.blocks import Column, Estimate
from heartloop.core.errors import InputError
from heartloop.core.system import write_whole
from heartloop.environments.suites import RejudgingSuite, Result, RunSuite, Slope, SlopePanel
from heartloop.evaluation.leaderboard import terminal_table
from heartloop.report.drawing import Frame
from heartloop.report.site import Site, copy_assets, templates
from heartloop.scoring.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import rich.table

_STATIC = ("report.css", "page.js")


class DrawnSlope(NamedTuple):
    """A slope's ends as heights in its SVG, and in words."""

    before: float
    after: float
    kind: str
    """`falls`, `rises` or `ties`."""
    words: str


class DrawnPanel(NamedTuple):
    """A panel's lines in its SVG."""

    frame: Frame
    slopes: tuple[DrawnSlope, ...]
    mean: DrawnSlope
    ticks: tuple[tuple[float, str], ...]
    falling: int
    """Slopes that fall."""


class Part(NamedTuple):
    """A suite with its result."""

    name: str
    suite: RunSuite | RejudgingSuite
    result: Result

    @property
    def source(self) -> str:
        """Paper and section; empty where the suite names none."""
        return self.suite.source if isinstance(self.suite, RunSuite) else ""

    @property
    def short(self) -> str:
        """The name as words, for links."""
        return self.name.replace("-", " ").capitalize()


def write_validity_json(record: Mapping[str, Any], path: Path) -> None:
    """Writes numbers; what is not finite is null."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(_without_nan(record), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose a folder that can be written") from error


def write_validity_page(
    parts: Sequence[Part], out: Path, *, title: str, about: str = "", left_out: Sequence[tuple[str, str, str]] = ()
) -> Path:
    """Writes the page into `out` and returns its `index.html`.

    Args:
        about: what was validated, below the title; with one part, its own sentence stands there.
        left_out: suites that did not run: name, title and why.
    """
    site = Site([], [{"name": "index.html", "label": title}], "index.html", heartloop.__version__)
    html = (
        templates()
        .get_template("validity.html")
        .render(site=site, title=title, about=about, parts=parts, left_out=left_out, drawn=drawn)
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        copy_assets(out / "assets", _STATIC)
        (out / "index.html").write_text(html, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; choose a folder that can be written") from error
    return out / "index.html"


def drawn(panel: SlopePanel) -> DrawnPanel:
    """A panel as lines of an SVG of 180 by 180 pixels."""
    frame = Frame(left=40.0, top=8.0, width=132.0, height=150.0, turns=1, low=panel.low, high=panel.high)

    def line(slope: Slope) -> DrawnSlope:
        change = slope.after - slope.before
        kind = "ties" if abs(change) <= panel.tie else "falls" if change < 0 else "rises"
        words = f"{slope.name}: {slope.before:.2f} to {slope.after:.2f}"
        return DrawnSlope(frame.y(slope.before), frame.y(slope.after), kind, words)

    slopes = tuple(line(slope) for slope in panel.slopes)
    values = [value for slope in panel.slopes for value in (slope.before, slope.after)]
    marks = sorted({min(values), max(values), *([0.0] if min(values) < 0 < max(values) else [])})
    ticks = tuple((frame.y(value), f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}") for value in marks)
    return DrawnPanel(frame, slopes, line(panel.mean), ticks, sum(slope.kind == "falls" for slope in slopes))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(part) for key, part in value.items()}
    return [_without_nan(part) for part in value] if isinstance(value, (list, tuple)) else value


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
    if isinstance(value, Estimate):
        low, high = (math.nan if end is None else end for end in (value.low, value.high))
        return Interval(value.mean, low, high).words(column.digits)
    return "" if value is None else f"{value:.{column.digits}f}" if isinstance(value, float) else str(value)
