"""What a validation found as a table for the terminal, 80 columns wide. Does not cover the page (`validity_page`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from heartloop.core.wording import amount
from heartloop.validity.perturbation import ALIGNED, ALL, PERTURBED, SCORERS, Validity

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NAMES", "validity_notes", "validity_table"]

NAMES = {
    "persona_flip": "persona flipped",
    "sycophancy": "all attacks",
    "pure_empathy": "pure empathy",
    "self_empowerment": "self-empowerment",
    "psycho_jargon": "psycho-jargon",
    "epm": "EPM energy",
    "alignment": "EPM alignment",
    "rubric": "rubric only",
    "magnitude": "magnitude only",
    "direct": "direct judge",
}
"""Perturbations and scorers in a reader's words."""


def validity_table(found: Validity) -> Table:
    """The shifts of the aligned pairs, or of all where none is aligned; printing needs a `rich.console.Console`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    pairs = ALIGNED if any(cell.pairs == ALIGNED for cell in found.cells) else ALL
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False, title_justify="left", caption_justify="left"
    )
    what = "replies that led the right way" if pairs == ALIGNED else "all replies, as none led the right way"
    table.title = Text(f"Perturbed less original: {what}", style="bold")
    table.add_column("", no_wrap=True)
    for head in ("n", "mean", "median", "over cases\n95 %", "p,\ncases", "falls", "ties", "in sd"):
        table.add_column(head, justify="right", no_wrap=True, style="bold" if head == "mean" else None)
    for perturbation in PERTURBED:
        cells = [cell for scorer in SCORERS if (cell := found.cell(perturbation, scorer, pairs)) is not None]
        if cells:
            table.add_row(Text(NAMES[perturbation], style="bold"))
        for number, cell in enumerate(cells):
            s = cell.shift
            row = (
                f" {NAMES[cell.scorer]}",
                f"{s.n:,}",
                _short(s.mean),
                _short(s.median),
                "–" if math.isnan(s.cluster_low) else f"{_short(s.cluster_low)} {_short(s.cluster_high)}",
                "<.001" if s.cluster_p < 1e-3 else f"{s.cluster_p:.3f}".removeprefix("0"),
                f"{s.decrease_rate:.0%}",
                f"{s.tie_rate:.0%}",
                "–" if math.isnan(s.standardised) else f"{s.standardised:+.2f}",
            )
            table.add_row(*map(Text, row), end_section=number == len(cells) - 1)
    table.caption = Text("\n".join(validity_notes(found)))
    return table


def _short(shift: float) -> str:
    return f"{shift:+.2f}" if abs(shift) < 9.995 else f"{shift:+.1f}"


def validity_notes(found: Validity) -> list[str]:
    """What a reader must know of the numbers, in sentences."""
    cases = max((len(cell.cases) for cell in found.cells), default=0)
    notes = [
        f"{amount(cases, 'case')}, {amount(len(found.models), 'model')}, judged by {found.judge}, preset {found.preset}.",
    ]
    out = [f"{n} under {NAMES[variant]}" for variant, n in found.left_out.items() if n]
    if out:
        notes.append(f"Dialogues left out, not scored in both: {', '.join(out)}.")
    if found.judge == "embedded":
        notes.append("The judge is rules: they show that the arithmetic does its part, and nothing about a model as the judge.")
    if cases < 10:
        notes.append("Few cases: the intervals are too narrow.")
    return notes
