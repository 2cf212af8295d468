"""The page of a validation: paired slopes, the shifts in numbers, the paper's own beside them.

Covers what stands on it and writing it with its assets. Does not cover the numbers (`validity`) or markup (`templates/`). It is a
site of one page, as validations are made apart from reports; nothing is fetched from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import heartloop
from heartloop.core.errors import InputError
from heartloop.report.published import Row, published
from heartloop.report.site import Site, copy_assets, templates
from heartloop.report.trajectories import Frame
from heartloop.scoring.shifts import TIE
from heartloop.validity.perturbation import ALIGNED, ALL, PERTURBED, SCORERS, Cell, Validity
from heartloop.validity.text import NAMES, validity_notes

__all__ = ["Panel", "Slope", "write_validity_page"]

_MARGIN = 0.06
"""Room above and below the lines, as a share of their range."""
_STATIC = ("report.css", "page.js")


class Slope(NamedTuple):
    """One case: its mean before and after, as heights in the picture, and in words."""

    before: float
    after: float
    kind: str
    """`falls`, `rises` or `ties`."""
    words: str


class Panel(NamedTuple):
    """One scorer under one perturbation; all panels of a scorer have the same scale."""

    cell: Cell
    frame: Frame
    slopes: tuple[Slope, ...]
    mean: Slope
    ticks: tuple[tuple[float, str], ...]
    falling: int
    """Cases that fall."""


def write_validity_page(found: Validity, out: Path) -> Path:
    """Writes the page into `out` and returns its `index.html`.

    Raises:
        InputError: it cannot be written.
    """
    shown: dict[str, Any] = {
        "found": found,
        "names": NAMES,
        "notes": validity_notes(found),
        "rows": [(name, panels) for name in PERTURBED if (panels := _panels(found, name))],
        "tables": [(pairs, cells) for pairs in (ALIGNED, ALL) if (cells := [c for c in found.cells if c.pairs == pairs])],
        "theirs": _theirs(),
        "tie": TIE,
    }
    site = Site([], [{"name": "index.html", "label": "Validity of EMPA"}], "index.html", heartloop.__version__)
    html = templates().get_template("validity.html").render(site=site, **shown)
    try:
        out.mkdir(parents=True, exist_ok=True)
        copy_assets(out / "assets", _STATIC)
        (out / "index.html").write_text(html, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; choose a folder that can be written") from error
    return out / "index.html"


def _panels(found: Validity, perturbation: str) -> list[Panel]:
    """The scorers side by side, over the aligned pairs, or over all where none is aligned."""
    chosen = ALIGNED if any(cell.pairs == ALIGNED for cell in found.cells) else ALL
    return [
        _panel(found, cell, [c for c in found.cells if (c.scorer, c.pairs) == (scorer, chosen)])
        for scorer in SCORERS
        if (cell := found.cell(perturbation, scorer, chosen)) is not None
    ]


def _panel(found: Validity, cell: Cell, alike: list[Cell]) -> Panel:
    """A picture of the cases, on a scale that holds every picture of this scorer."""
    values = [x for other in alike for case in other.cases for x in (case.original, case.perturbed)]
    room = _MARGIN * ((max(values) - min(values)) or 1.0)
    frame = Frame(left=40.0, top=8.0, width=132.0, height=150.0, turns=1, low=min(values) - room, high=max(values) + room)
    tie = TIE * found.scales[cell.scorer]

    def slope(before: float, after: float, name: str) -> Slope:
        change = after - before
        kind = "ties" if abs(change) <= tie else "falls" if change < 0 else "rises"
        return Slope(frame.y(before), frame.y(after), kind, f"{name}: {before:.2f} to {after:.2f}")

    slopes = tuple(slope(case.original, case.perturbed, found.titles.get(case.case, case.case)) for case in cell.cases)
    n = len(cell.cases)
    mean = slope(sum(c.original for c in cell.cases) / n, sum(c.perturbed for c in cell.cases) / n, "mean over cases")
    marks = sorted({min(values), max(values), *([0.0] if min(values) < 0 < max(values) else [])})
    ticks = tuple((frame.y(value), f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}") for value in marks)
    return Panel(cell, frame, slopes, mean, ticks, sum(s.kind == "falls" for s in slopes))


def _theirs() -> list[Row]:
    """The paper's Table 6, with the interval and p of Table 5 where it prints them."""
    ends = {row["dataset"]: row for row in published("empa_table05_perturbation") if row["metric"] == "delta_E"}
    rows = []
    for row in published("empa_table06_ablation"):
        printed = ends[row["dataset"]] if str(row["component"]).startswith("EPM") else {}
        rows.append({**row, **{name: printed.get(name) for name in ("ci95_low", "ci95_high", "p_value")}})
    return rows
