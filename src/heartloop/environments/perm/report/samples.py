"""Selected answers of PERM: best and worst of each model, and the scenarios on which models differ most."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.blocks import ModelRow
from heartloop.core.dialogue import HEAVY_TAGS, content_tags
from heartloop.environments.perm.environment import JUDGES
from heartloop.environments.perm.report.answers import HIGHEST, reason_and_quote
from heartloop.environments.perm.report.graded import Graded, broken_words

__all__ = ["MOST_APART", "Apart", "ApartCell", "Judged", "ModelSamples", "Sample", "samples_apart", "samples_of"]

MOST_APART = 10
"""Number of scenarios on which models differ most."""
EACH = 2
"""Number of best and of worst answers per model."""


class Judged(NamedTuple):
    """One judge's grade: name, grade, highest possible grade, reason and quote."""

    judge: str
    score: float
    top: int
    reason: str
    quote: str


class Sample(NamedTuple):
    """A selected answer."""

    address: str
    points: float
    title: str
    about: str
    """Person, emotion and want."""
    tags: str
    heavy: bool
    broken: str
    """Description of an invalid form, or empty."""
    judged: list[Judged]


class ModelSamples(NamedTuple):
    """A model: its colour number, its row, its best answers (best first), its worst answers (worst first)."""

    number: int
    score: ModelRow
    best: list[Sample]
    worst: list[Sample]


class ApartCell(NamedTuple):
    """One model with one scenario: mean points, number of answers, address of the first, shade, whether the mean is below 0."""

    points: float
    n: int
    address: str
    tint: float
    below: bool


class Apart(NamedTuple):
    """A scenario over all models."""

    title: str
    about: str
    spread: float
    """Points between the highest and the lowest model, without failure cases."""
    cells: list[ApartCell | None]
    """One per model; `None` without a scored answer."""


Member = tuple[int, ModelRow, Sequence[Graded]]


def samples_of(members: Sequence[Member], ids: Sequence[str]) -> list[ModelSamples]:
    """The `EACH` best and worst answers of every model; no answer is both."""
    samples = []
    for number, row, answers in members:
        order = sorted(answers, key=lambda g: (-g.points, g.place))
        best = order[:EACH]
        worst = sorted(order[len(best) :], key=lambda g: (g.points, g.place))[:EACH]
        if answers:
            samples.append(ModelSamples(number, row, [_sample(g, ids) for g in best], [_sample(g, ids) for g in worst]))
    return samples


def samples_apart(members: Sequence[Member], ids: Sequence[str]) -> list[Apart]:
    """The `MOST_APART` scenarios with the largest spread, largest first; empty for a single model."""
    shown = [(row, answers) for _, row, answers in members if answers]
    if sum(row.standing != "failure case" for row, _ in shown) < 2:
        return []
    by_scenario: dict[tuple[str, str], list[list[Graded]]] = {}
    for column, (_, answers) in enumerate(shown):
        for g in answers:
            by_scenario.setdefault((g.dialogue.scenario, g.dialogue.fingerprint), [[] for _ in shown])[column].append(g)
    lines = []
    for columns in by_scenario.values():
        means = [
            statistics.fmean(g.points for g in answers)
            for (row, _), answers in zip(shown, columns, strict=True)
            if answers and row.standing != "failure case"
        ]
        if len(means) > 1:
            first = next(answers[0] for answers in columns if answers)
            cells = [_cell(answers, ids) for answers in columns]
            lines.append(Apart(_title(first), _about(first), max(means) - min(means), cells))
    return sorted(lines, key=lambda line: -line.spread)[:MOST_APART]


def _cell(answers: Sequence[Graded], ids: Sequence[str]) -> ApartCell | None:
    if not answers:
        return None
    points = statistics.fmean(g.points for g in answers)
    return ApartCell(points, len(answers), ids[answers[0].place], round(min(1.0, abs(points) / 100.0), 3), points < 0)


def _sample(g: Graded, ids: Sequence[str]) -> Sample:
    tags = content_tags(g.dialogue)
    judged = [
        Judged(judge, g.scores[judge], HIGHEST[judge], *reason_and_quote(judge, g.dialogue.turns[0]))
        for judge in JUDGES
        if g.scores
    ]
    return Sample(
        address=ids[g.place],
        points=g.points,
        title=_title(g),
        about=_about(g, with_person=True),
        tags=", ".join(tags),
        heavy=any(tag in HEAVY_TAGS for tag in tags),
        broken=broken_words(g.broken) if g.broken else "",
        judged=judged,
    )


def _title(g: Graded) -> str:
    return g.fact("title") or g.dialogue.scenario


def _about(g: Graded, *, with_person: bool = False) -> str:
    want = g.fact("want")
    parts = (g.fact("person") if with_person else "", g.fact("emotion"), f"wants {want}" if want else "")
    return " · ".join(filter(None, parts))
