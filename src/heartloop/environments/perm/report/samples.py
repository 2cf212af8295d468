"""Which answers of PERM are worth opening first: the best and the worst of each model, and samples on which models differ most.

Pure: graded answers in, values out, each with what its judges said. Does not cover the opened answer (`answers`), nor the best
and worst talks of the other environments (`highlights`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.blocks import ModelRow
from heartloop.core.content import HEAVY_TAGS, content_tags
from heartloop.environments.perm.environment import JUDGES
from heartloop.environments.perm.report.answers import TOPS, said_by
from heartloop.environments.perm.report.graded import Graded, broken_words

__all__ = ["MOST_APART", "Apart", "ApartCell", "Judged", "ModelSamples", "Sample", "samples_apart", "samples_of"]

MOST_APART = 10
"""Samples on which models differ that the page shows."""
EACH = 2
"""Best answers of a model, and worst."""


class Judged(NamedTuple):
    """What one judge said: its name, its grade, the highest one, why, and the words it quotes."""

    judge: str
    score: float
    top: int
    reason: str
    quote: str


class Sample(NamedTuple):
    """An answer worth opening."""

    address: str
    points: float
    title: str
    about: str
    """Person, emotion and want."""
    tags: str
    heavy: bool
    broken: str
    """What was wrong with the form, in words."""
    judged: list[Judged]


class ModelSamples(NamedTuple):
    """A model: its colour number, its row, its best answers from the best on, its worst from the worst on."""

    number: int
    score: ModelRow
    best: list[Sample]
    worst: list[Sample]


class ApartCell(NamedTuple):
    """One model with one sample: its mean points, how many answers, the first of them to open, a shade, whether below 0."""

    points: float
    n: int
    address: str
    tint: float
    below: bool


class Apart(NamedTuple):
    """A sample over all models; `None` where a model has no scored answer to it."""

    title: str
    about: str
    spread: float
    """Points between the highest and the lowest model; failure cases do not widen it."""
    cells: list[ApartCell | None]


Member = tuple[int, ModelRow, Sequence[Graded]]


def samples_of(members: Sequence[Member], ids: Sequence[str]) -> list[ModelSamples]:
    """The best and the worst `EACH` of every model with an answer; no answer is both."""
    found = []
    for number, row, mine in members:
        order = sorted(mine, key=lambda g: (-g.points, g.place))
        best = order[:EACH]
        worst = sorted(order[len(best) :], key=lambda g: (g.points, g.place))[:EACH]
        if mine:
            found.append(ModelSamples(number, row, [_sample(g, ids) for g in best], [_sample(g, ids) for g in worst]))
    return found


def samples_apart(members: Sequence[Member], ids: Sequence[str]) -> list[Apart]:
    """The `MOST_APART` samples with the largest spread, the largest first; nothing for a single model."""
    shown = [(row, mine) for _, row, mine in members if mine]
    if sum(row.standing != "failure case" for row, _ in shown) < 2:
        return []
    by: dict[tuple[str, str], list[list[Graded]]] = {}
    for at, (_, mine) in enumerate(shown):
        for g in mine:
            by.setdefault((g.dialogue.scenario, g.dialogue.fingerprint), [[] for _ in shown])[at].append(g)
    found = []
    for columns in by.values():
        means = [
            statistics.fmean(g.points for g in column)
            for (row, _), column in zip(shown, columns, strict=True)
            if column and row.standing != "failure case"
        ]
        if len(means) > 1:
            first = next(column[0] for column in columns if column)
            cells = [_cell(column, ids) for column in columns]
            found.append(Apart(_title(first), _about(first), max(means) - min(means), cells))
    return sorted(found, key=lambda one: -one.spread)[:MOST_APART]


def _cell(column: Sequence[Graded], ids: Sequence[str]) -> ApartCell | None:
    if not column:
        return None
    points = statistics.fmean(g.points for g in column)
    return ApartCell(points, len(column), ids[column[0].place], round(min(1.0, abs(points) / 100.0), 3), points < 0)


def _sample(g: Graded, ids: Sequence[str]) -> Sample:
    tags = content_tags(g.dialogue)
    judged = [Judged(judge, g.scores[judge], TOPS[judge], *said_by(judge, g.dialogue.turns[0])) for judge in JUDGES if g.scores]
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
