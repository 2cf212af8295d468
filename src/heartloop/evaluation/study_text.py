"""The plan of a study as text for the terminal. Does not cover its numbers (`study`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heartloop.core.text import amount, printable
from heartloop.environments.spec import Scale
from heartloop.evaluation.study import Study
from heartloop.scoring.power import Design, Use

__all__ = ["study_text"]


def study_text(study: Study, scale: Scale) -> str:
    """The plan, about 90 columns wide."""
    return "\n".join(printable(line) for line in _lines(study, scale))


def _lines(study: Study, scale: Scale) -> Iterable[str]:
    data = study.data
    yield f"From {data.source}."
    for note in data.notes:
        yield f"! {note}"
    yield ""
    yield f"Variance of the difference of two models, in squared points of {scale.title}:"
    for one in data.components:
        below = " (estimate below 0)" if one.raw < 0 else ""
        share = "–" if one.share != one.share else f"{one.share:.0%}"
        yield f"  {one.name:<34}{one.variance:>9.1f}{share:>7}{below}"
    if study.detects is not None:
        s, r, j = data.size
        judges = f" × {amount(j, data.instrument)}" if data.instrument else ""
        yield ""
        yield (
            f"These runs ({amount(s, 'scenario')} × {amount(r, 'repeat')}{judges}) detect a difference of {study.detects:.1f} "
            f"points with {study.power:.0%} power."
        )
        for step in study.steps:
            more = data.instrument if step.more == "judge" else step.more
            gain = f", {100 * step.per_call:.2g} points per 100 calls" if step.per_call == step.per_call else ""
            yield f"  one more {more}: {step.detects:.2f} for {_calls(step.extra)}{gain}"
    yield ""
    if not study.designs:
        yield f"No design with up to 100,000 scenarios detects {study.difference:g} points."
        return
    yield f"To detect {study.difference:g} points with {study.power:.0%} power (95 % level, two models):"
    yield from _table(study)
    if data.instrument:
        yield f"With one {data.instrument} the result holds for that one; with several, for others like them."
        if missing := sorted({2, 3, 5} - {design.judges for design in study.designs}):
            yield (
                f"With {' or '.join(map(str, missing))} no number of scenarios is enough: the variance between "
                f"{data.instrument}s does not fall with it."
            )


def _table(study: Study) -> Iterable[str]:
    priced = any(design.use.cost for design in study.designs)
    heads = ["scenarios", "repeats", *([f"{study.data.instrument}s"] if study.data.instrument else []), "calls", "tokens"]
    rows = [[*heads, *(["cost"] if priced else []), ""]]
    for design in study.designs:
        rows.append([*_sizes(design, bool(study.data.instrument)), _short(design.use.calls), _short(design.use.tokens)])
        if priced:
            rows[-1].append("–" if design.use.cost is None else _money(design.use.cost))
        rows[-1].append("< cheapest" if design in study.cheapest else "")
    yield from _aligned(rows)


def _sizes(design: Design, judges: bool) -> list[str]:
    return [f"{design.scenarios:,}", str(design.repeats), *([str(design.judges)] if judges else [])]


def _calls(use: Use) -> str:
    cost = f" at a cost of {_money(use.cost)}" if use.cost else ""
    return f"{_short(use.calls)} calls{cost}"


def _money(cost: float) -> str:
    """Two decimals, or two digits of less than a cent.

    >>> _money(1234.5), _money(0.00257)
    ('1,234.50', '0.0026')
    """
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.2g}"


def _short(value: float) -> str:
    """A count in at most five characters and a unit.

    >>> _short(940), _short(12_345), _short(7_654_321)
    ('940', '12.3k', '7.7M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{value:,.0f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        yield ("  " + "  ".join([*cells, row[-1]])).rstrip()
