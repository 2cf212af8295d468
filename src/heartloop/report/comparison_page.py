"""The result of `compare` as a page of the report, with links to the dialogues behind it.

Covers where the dialogues of a pair stand in the report, and the range that the differences are drawn in. Does not cover the
numbers (`evaluation.comparison`), their words (`evaluation.comparison_text`) or markup (`templates/comparison.html`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from heartloop.core.blocks import Estimate, Range
from heartloop.core.dialogue import Transcript
from heartloop.evaluation.compare import Comparison, Pair, evidence_words, needed_words, verdict
from heartloop.report.page import Page
from heartloop.scoring.statistics import Interval

__all__ = ["COMPARISON", "ComparisonPage", "Extreme", "comparison_page"]

COMPARISON = "comparison.html"
"""The file of the page."""


class Extreme(NamedTuple):
    """A pair with a large difference, and the addresses of its dialogues; empty where the report does not show one."""

    pair: Pair
    title: str
    a: str
    b: str
    together: str
    """Both beside each other; empty where they are not on one page."""


class ComparisonPage(NamedTuple):
    """A comparison and its words."""

    comparison: Comparison
    verdict: str
    evidence: tuple[str, str]
    needed: str
    difference: Estimate
    groups: list[tuple[str, int, float, float, Estimate]]
    """Key, pairs, mean of A, mean of B, B - A."""
    extremes: list[Extreme]
    range: Range
    """Of the drawn differences: the same to both sides of 0."""


def comparison_page(
    comparison: Comparison, pages: Sequence[tuple[str, Page]], min_difference: float | None = None
) -> ComparisonPage:
    """What the template shows.

    Args:
        pages: file and page of every measurement of the report.
        min_difference: as `compare` was called with.
    """
    places = {
        (d.model, d.scenario, d.fingerprint, d.repeat, d.seed, d.user, tuple(turn.reply for turn in d.turns)): (file, address)
        for file, page in pages
        for d, address in zip(page.dialogues, page.ids, strict=True)
    }

    def place(d: Transcript) -> tuple[str, str]:
        key = (d.model, d.scenario, d.fingerprint, d.repeat, d.seed, d.user, tuple(turn.reply for turn in d.turns))
        return places.get(key, ("", ""))

    extremes = []
    for pair in comparison.extremes:
        (file_a, a), (file_b, b) = place(pair.a), place(pair.b)
        together = f"{file_a}#pair?a={quote(a)}&b={quote(b)}" if file_a and file_a == file_b and a != b else ""
        title = " ".join(pair.a.facts.get("title", "").split()) or pair.a.scenario
        extremes.append(Extreme(pair, title, f"{file_a}#{a}" if file_a else "", f"{file_b}#{b}" if file_b else "", together))
    shown = [comparison.difference, *(group.difference for group in comparison.groups)]
    widest = max(abs(value) for one in shown for value in one[:3] if not math.isnan(value))
    reach = math.ceil(max(widest, 1.0) * 1.05)
    return ComparisonPage(
        comparison=comparison,
        verdict=verdict(comparison, min_difference),
        evidence=evidence_words(comparison),
        needed=needed_words(comparison),
        difference=_estimate(comparison.difference, comparison.pairs),
        groups=[(g.key, g.pairs, g.mean_a, g.mean_b, _estimate(g.difference, g.pairs)) for g in comparison.groups],
        extremes=extremes,
        range=Range(-reach, reach, 0.0),
    )


def _estimate(interval: Interval, n: int) -> Estimate:
    if math.isnan(interval.low):
        return Estimate(n, interval.mean)
    return Estimate(n, interval.mean, interval.low, interval.high)
