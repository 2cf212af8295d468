"""Agreement of two judges on the same dialogues: scores by dialogue, direction of change by turn.

Pure: dialogues of the source and of the rejudged run in, an `Agreement` and its text out. Does not cover differences between
models (`comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.core.text import amount, printable
from heartloop.evaluation.measures import course_of, points_of
from heartloop.evaluation.scores import latest
from heartloop.scoring.agreement import mean_pairwise_pearson, sign_agreement, spearman_matrix
from heartloop.scoring.statistics import Interval, paired_difference

__all__ = ["Agreement", "agreement", "agreement_text"]


class Agreement(NamedTuple):
    """Agreement on the dialogues scored by both judges and the replies judged by both."""

    dialogues: int
    pearson: float | None
    """Of the scores; `None` with fewer than two dialogues, or if one judge's scores are all equal."""
    spearman: float | None
    difference: Interval | None
    """Mean of second minus first in points, clustered by scenario."""
    replies: int
    signs: float | None
    """Share of replies with the same sign of the change."""
    cut: int
    """Dialogues that the second judge would have continued beyond the stored replies."""


def agreement(first: Iterable[Transcript], second: Iterable[Transcript]) -> Agreement:
    """Agreement of two judges on dialogues paired by model, scenario and repeat."""
    before = {played.key: played for played in latest(tuple(first))}
    both = [(before[read.key], read) for read in latest(tuple(second)) if read.key in before]
    points = [(a, b, points_of(a), points_of(b)) for a, b in both]
    scored = [(a, b, x, y) for a, b, x, y in points if x is not None and y is not None]
    a_scores, b_scores = [a for *_, a, _ in scored], [b for *_, b in scored]
    changes = [pair for a, b, *_ in scored for pair in _changes(a, b)]
    names = [str(a.key) for a, *_ in scored]
    table = {"first": dict(zip(names, a_scores, strict=True)), "second": dict(zip(names, b_scores, strict=True))}
    return Agreement(
        dialogues=len(scored),
        pearson=_defined(lambda: mean_pairwise_pearson([a_scores, b_scores])),
        spearman=_defined(lambda: spearman_matrix(table).between("first", "second")),
        difference=paired_difference(a_scores, b_scores, clusters=[a.scenario for a, *_ in scored]) if scored else None,
        replies=len(changes),
        signs=sign_agreement([a for a, _ in changes], [b for _, b in changes]) if changes else None,
        cut=sum(b.stop == "cut" for _, b, *_ in scored),
    )


def agreement_text(agreed: Agreement, *, first: str, second: str) -> str:
    """The agreement as text, with the names of the judges."""
    if agreed.difference is None:
        return printable(f"No dialogue is scored by both {first} and {second}.")
    lines = [f"{second} against {first}, on {amount(agreed.dialogues, 'dialogue')} scored by both:"]
    correlations = " and ".join(
        f"{name} {value:.2f}" for name, value in (("Pearson", agreed.pearson), ("Spearman", agreed.spearman)) if value is not None
    )
    lines.append(f"  scores: {correlations or 'correlation not defined: needs two dialogues and scores that differ'}")
    mean, low, high, _ = agreed.difference
    ends = "" if low != low else f", 95 % interval {low:+.1f} to {high:+.1f}"  # nan: one scenario
    lines.append(f"  mean difference {mean:+.1f}{ends}")
    if agreed.signs is not None:
        lines.append(f"  direction of the change: equal after {agreed.signs:.0%} of {amount(agreed.replies, 'reply', 'replies')}")
    if agreed.cut:
        lines.append(f"  {amount(agreed.cut, 'dialogue')} cut: {second} would have continued, but no further reply is stored")
    return "\n".join(printable(line) for line in lines)


def _changes(a: Transcript, b: Transcript) -> Sequence[tuple[float, float]]:
    """Change of the score by each reply that both judged, as pairs."""
    moves = ([round(after - before, 6) for before, after in pairwise(course_of(read))] for read in (a, b))
    return list(zip(*moves, strict=False))


def _defined(value: Callable[[], float]) -> float | None:
    try:
        return value()
    except UseError:  # too few, or all equal
        return None
