"""A comparison as text for the terminal. Does not cover its numbers (`comparison`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from heartloop.core.text import amount, printable
from heartloop.evaluation.comparison import FEW_SCENARIOS, Comparison
from heartloop.scoring.statistics import Interval

__all__ = ["comparison_text", "evidence_words", "needed_words", "verdict"]


def comparison_text(comparison: Comparison, *, min_difference: float | None = None) -> str:
    """The comparison as text, about 100 columns wide.

    Args:
        min_difference: smallest difference that matters, in points; an interval within it is called equivalent.
    """
    return "\n".join(printable(line) for line in _lines(comparison, min_difference))


def _lines(comparison: Comparison, min_difference: float | None) -> Iterable[str]:
    for name, side, mean in (("A", comparison.a, comparison.mean_a), ("B", comparison.b, comparison.mean_b)):
        yield f"{name}  {side.model}  ({side.run})  mean {comparison.scale.title} {mean:.1f}"
    yield f"Paired on {amount(comparison.pairs, 'dialogue')} of {amount(comparison.scenarios, 'scenario')}, scored in both."
    for reason, n in comparison.left_out:
        yield f"  left out: {n} {reason}"
    for warning in comparison.warnings:
        yield f"! {warning}"
    yield ""
    yield f"B - A: {_signed(comparison.difference.mean)}{_ends(comparison.difference, ', 95 % interval ')}"
    yield from evidence_words(comparison)
    yield verdict(comparison, min_difference)
    yield needed_words(comparison)
    if comparison.groups:
        yield from ("", *_groups(comparison))
    if comparison.extremes:
        yield from ("", *_extremes(comparison))


def _groups(comparison: Comparison) -> Iterable[str]:
    rows = [
        (i.key, str(i.pairs), f"{i.mean_a:.1f}", f"{i.mean_b:.1f}", _signed(i.difference.mean), _ends(i.difference))
        for i in comparison.groups
    ]
    yield from _table((f"by {comparison.scale.group}", "n", "A", "B", "B - A", "95 % interval"), rows)
    if any(i.pairs < FEW_SCENARIOS for i in comparison.groups):
        yield "Groups of fewer than 10 dialogues are too few to conclude from."


def _extremes(comparison: Comparison) -> Iterable[str]:
    repeats = len({pair.a.repeat for pair in comparison.extremes}) > 1
    rows = [
        (
            pair.a.scenario + (f" (repeat {pair.a.repeat + 1})" if repeats else ""),
            f"{pair.score_a:.0f}",
            f"{pair.score_b:.0f}",
            _signed(pair.difference, 0),
            " ".join(pair.a.facts.get("title", "").split()),
        )
        for pair in comparison.extremes
    ]
    yield from _table(("largest differences", "A", "B", "B - A", "title"), rows, left=(0, 4))


def evidence_words(comparison: Comparison) -> tuple[str, str]:
    """The test and the effect sizes, a sentence each."""
    how = "exact" if comparison.exact else "10,000 random sign patterns"
    return (
        f"permutation test p {_p(comparison.p)} ({how}, by scenario)",
        f"effect d_z {_effect(comparison.effect)}, rank-biserial {_signed(comparison.rank_biserial, 2)}",
    )


def verdict(comparison: Comparison, min_difference: float | None = None) -> str:
    """What the interval supports, as a sentence."""
    low, high = comparison.difference.low, comparison.difference.high
    if math.isnan(low):
        return "One scenario: no verdict."
    if min_difference is not None and -min_difference < low and high < min_difference:
        return f"Equivalent: the interval excludes differences of {min_difference:g} or more."
    if low > 0:
        return "B is better: the interval lies above 0."
    if high < 0:
        return "B is worse: the interval lies below 0."
    return "Not distinguished: the interval includes 0. This does not show that they are equal."


def needed_words(comparison: Comparison) -> str:
    """How many scenarios a comparison needs, as a sentence."""
    if comparison.needed is None:
        return "The sample size is not defined: the difference or its spread is 0."
    return (
        f"A difference of {comparison.aim:.1f} needs about {comparison.needed:,} scenarios (80 % power, 95 % level); "
        f"this comparison has {comparison.scenarios}."
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
        return "infinite (the difference is the same in every scenario)"
    size = abs(value)
    words = "large" if size >= 0.8 else "medium" if size >= 0.5 else "small" if size >= 0.2 else "very small"
    return f"{_signed(value, 2)} ({words})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterable[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, *rows):
        cells = [cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(cells).rstrip()
