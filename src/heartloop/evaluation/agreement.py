"""How far two judges of the same words agree: scores over dialogues, directions over turns.

Pure: dialogues of the source and of the rejudged run in, an `Agreement` and its words out. Does not cover the differences
between models (`comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.core.text import printable
from heartloop.core.wording import amount
from heartloop.evaluation.measures import course_of, points_of
from heartloop.evaluation.scores import latest
from heartloop.scoring.statistics import Interval, mean_pairwise_pearson, paired_difference, sign_agreement, spearman_matrix

__all__ = ["Agreement", "agreement", "agreement_text"]


class Agreement(NamedTuple):
    """A second judge against the first, on the dialogues scored by both and the replies judged by both."""

    dialogues: int
    pearson: float | None
    """Of the scores; `None` with fewer than two dialogues, or where a judge scores all alike."""
    spearman: float | None
    difference: Interval | None
    """Mean of second less first, dialogues of one scenario taken together."""
    replies: int
    signs: float | None
    """Share of replies after which both say better, both say the same, or both say worse."""
    cut: int
    """Dialogues that end, to the second judge, where no further reply is stored."""


def agreement(first: Iterable[Transcript], second: Iterable[Transcript]) -> Agreement:
    """The two judges of the same dialogues, paired by model, scenario and repeat."""
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


def agreement_text(found: Agreement, *, first: str, second: str) -> str:
    """The same in a few lines; the judges by name."""
    if found.difference is None:
        return printable(f"No dialogue is scored by both {first} and {second}.")
    lines = [f"{second} against {first}, on {amount(found.dialogues, 'dialogue')} scored by both:"]
    correlations = " and ".join(
        f"{name} {value:.2f}" for name, value in (("Pearson", found.pearson), ("Spearman", found.spearman)) if value is not None
    )
    lines.append(f"  scores: {correlations or 'no correlation, it needs two dialogues and scores that differ'}")
    mean, low, high = found.difference
    ends = "" if low != low else f", 95 % interval {low:+.1f} to {high:+.1f}"  # nan: one scenario
    lines.append(f"  mean difference {mean:+.1f}{ends}")
    if found.signs is not None:
        lines.append(f"  direction of the change: alike after {found.signs:.0%} of {amount(found.replies, 'reply', 'replies')}")
    if found.cut:
        lines.append(f"  {amount(found.cut, 'dialogue')} cut: no further reply is stored where {second} would have gone on")
    return "\n".join(printable(line) for line in lines)


def _changes(a: Transcript, b: Transcript) -> Sequence[tuple[float, float]]:
    """How far each reply that both judged moved the score, to either."""
    moves = ([round(after - before, 6) for before, after in pairwise(course_of(read))] for read in (a, b))
    return list(zip(*moves, strict=False))


def _defined(value: Callable[[], float]) -> float | None:
    try:
        return value()
    except UseError:  # too few, or all alike
        return None
