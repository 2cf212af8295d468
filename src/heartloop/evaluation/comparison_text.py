"""A comparison as lines for the terminal. Covers words and columns; the numbers come from `comparison`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from heartloop.core.text import printable
from heartloop.core.wording import amount
from heartloop.evaluation.comparison import FEW_SCENARIOS, Comparison
from heartloop.scoring.statistics import Interval

__all__ = ["comparison_text"]


def comparison_text(found: Comparison, *, min_difference: float | None = None) -> str:
    """Everything a reader needs, at most 100 columns wide where names allow."""
    return "\n".join(printable(line) for line in _lines(found, min_difference))


def _lines(found: Comparison, min_difference: float | None) -> Iterable[str]:
    for name, side, mean in (("A", found.a, found.mean_a), ("B", found.b, found.mean_b)):
        yield f"{name}  {side.model}  ({side.run})  mean {found.scale.title} {mean:.1f}"
    yield f"Paired on {amount(found.pairs, 'dialogue')} of {amount(found.scenarios, 'scenario')}, scored in both."
    for reason, n in found.left_out:
        yield f"  left out: {n} {reason}"
    for warning in found.warnings:
        yield f"! {warning}"
    yield ""
    yield f"B - A: {_signed(found.difference.mean)}{_ends(found.difference, ', 95 % interval ')}"
    how = "all patterns of signs" if found.exact else "10,000 drawn patterns of signs"
    yield f"permutation p {_p(found.p)} ({how}, by scenario)"
    yield f"effect d_z {_effect(found.effect)}, rank-biserial {_signed(found.rank_biserial, 2)}"
    yield _verdict(found, min_difference)
    yield _needed(found)
    if found.groups:
        yield from ("", *_groups(found))
    if found.extremes:
        yield from ("", *_extremes(found))


def _groups(found: Comparison) -> Iterable[str]:
    rows = [
        (i.key, str(i.pairs), f"{i.mean_a:.1f}", f"{i.mean_b:.1f}", _signed(i.difference.mean), _ends(i.difference))
        for i in found.groups
    ]
    yield from _table((f"by {found.scale.group}", "n", "A", "B", "B - A", "95 % interval"), rows)
    if any(i.pairs < FEW_SCENARIOS for i in found.groups):
        yield f"Few dialogues give too narrow an interval; by {found.scale.group} it is a hint, no finding."


def _extremes(found: Comparison) -> Iterable[str]:
    repeats = len({pair.a.repeat for pair in found.extremes}) > 1
    rows = [
        (
            pair.a.scenario + (f" (repeat {pair.a.repeat + 1})" if repeats else ""),
            f"{pair.score_a:.0f}",
            f"{pair.score_b:.0f}",
            _signed(pair.difference, 0),
            " ".join(pair.a.facts.get("title", "").split()),
        )
        for pair in found.extremes
    ]
    yield from _table(("differ most", "A", "B", "B - A", "title"), rows, left=(0, 4))


def _verdict(found: Comparison, min_difference: float | None) -> str:
    low, high = found.difference.low, found.difference.high
    if math.isnan(low):
        return "One scenario: no verdict."
    if min_difference is not None and -min_difference < low and high < min_difference:
        return f"Equivalent: the interval holds no difference of {min_difference:g} or more."
    if low > 0:
        return "B is better: the interval lies above 0."
    if high < 0:
        return "B is worse: the interval lies below 0."
    return "Not distinguished: the interval includes 0, which does not prove that they are equal."


def _needed(found: Comparison) -> str:
    if found.needed is None:
        return "The sample size is not defined: no difference, or no spread, was found."
    return (
        f"A difference of {found.aim:.1f} needs about {found.needed:,} scenarios (80 % power, 95 % level); "
        f"this comparison has {found.scenarios}."
    )


def _ends(interval: Interval, before: str = "") -> str:
    return "" if math.isnan(interval.low) else f"{before}{_signed(interval.low)} to {_signed(interval.high)}"


def _signed(value: float, digits: int = 1) -> str:
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0.0 else text


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else f"{value:.1e}"


def _effect(value: float) -> str:
    if math.isnan(value):
        return "not defined for one scenario"
    if math.isinf(value):
        return "infinite (every scenario differs by the same)"
    size = abs(value)
    words = "large" if size >= 0.8 else "medium" if size >= 0.5 else "small" if size >= 0.2 else "very small"
    return f"{_signed(value, 2)} ({words})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterable[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, *rows):
        cells = [cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(cells).rstrip()
