"""The same models with the same scenarios under several simulators or judges: do their orders agree?

Pure: pages in, tables out. Each column is the leaderboard of a measurement's own page, number for number. A model that is
played or judged by itself is shown, marked, and left out of the agreement (as EIBench, Table 5, leaves it out). Does not cover
the rank correlation itself (`scoring.agreement.spearman_matrix`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from heartloop.core.errors import UseError
from heartloop.environments.spec import Scale
from heartloop.evaluation.scores import Outcomes
from heartloop.evaluation.study import mean_over_instruments
from heartloop.report.page import Page
from heartloop.scoring.agreement import spearman_matrix
from heartloop.scoring.variance import JudgeMean

__all__ = ["FEW_MODELS", "Against", "Agreement", "Column", "Dot", "Place", "SideBySide", "side_by_side"]

SQUARE = 280.0
"""Pixels of a scatter's side."""
FEW_MODELS = 6
"""A rank correlation over fewer is said to rest on few."""


class Column(NamedTuple):
    """One simulator or judge: what it is called, the page its numbers come from, and how many scenarios they rest on."""

    label: str
    address: str
    number: int
    scenarios: int


class Place(NamedTuple):
    """One model under one simulator."""

    rank: int | None
    seen: Outcomes
    own: bool
    """The instrument is the model itself."""


class Agreement(NamedTuple):
    """Spearman's rho of two columns over the models that both rank and neither plays; `rho` is `None` where it is not defined."""

    rho: float | None
    n: int


class Dot(NamedTuple):
    """A model that both columns score, in pixels; `number` is its line in the table."""

    number: int
    model: str
    x: float
    y: float
    first: float
    second: float
    own: bool


class Against(NamedTuple):
    """The models under one instrument against another: how they are called, the dots, and the ticks as (pixel, points)."""

    first: str
    second: str
    dots: list[Dot]
    ticks: list[tuple[float, int]]


class SideBySide(NamedTuple):
    """A table of models by simulators, and how well the simulators agree."""

    rules: str
    columns: list[Column]
    rows: list[tuple[str, list[Place | None]]]
    agreement: list[list[Agreement]]
    notes: list[str]
    scatters: list[Against]
    title: str
    """The environment's."""
    published: str
    """Published agreement of its simulators or judges; empty where there is none."""
    scale: Scale
    start: float
    over: dict[str, JudgeMean | None]
    """By model the mean over the instruments that it does not play itself; `None` for fewer than two of them or of scenarios."""


def side_by_side(pages: Sequence[tuple[str, Page]]) -> list[SideBySide]:
    """Tables of the pages that share everything but the user simulator and judge, with at least one model and scenario in common.

    Args:
        pages: pages with the file names they are written to.
    """
    groups: list[list[tuple[str, Page]]] = []
    for address, page in pages:
        group = next((g for g in groups if _belong(g[0][1], page)), None)
        if group is not None:
            group.append((address, page))
        elif page.rules:
            groups.append([(address, page)])
    return [_table(group) for group in groups if len(group) > 1]


def _belong(first: Page, page: Page) -> bool:
    models = {row.model for row in first.card.models if row.scored} & {row.model for row in page.card.models if row.scored}
    return bool(page.rules) and first.rules == page.rules and bool(models) and bool(first.scenarios & page.scenarios)


def _table(group: Sequence[tuple[str, Page]]) -> SideBySide:
    labels = [page.instrument for _, page in group]
    labels = [
        f"{label} · {page.run_names}" if labels.count(label) > 1 else label
        for label, (_, page) in zip(labels, group, strict=True)
    ]
    columns = [
        Column(label, address, page.number, len(page.scenarios)) for label, (address, page) in zip(labels, group, strict=True)
    ]
    places: dict[str, list[Place | None]] = {}
    for at, (_, page) in enumerate(group):
        for row in page.card.models:
            if row.scored:
                own = row.model in page.self_scored
                places.setdefault(row.model, [None] * len(group))[at] = Place(row.rank, row.headline, own)
    rows = sorted(places.items(), key=lambda item: (_mean_rank(item[1]), item[0]))
    first = group[0][1]
    agreement = _agreement(rows, len(group))
    return SideBySide(
        first.rules_words,
        columns,
        rows,
        agreement,
        _notes(group, rows, agreement),
        _scatters(labels, rows, first.scale),
        first.title,
        first.panel.agreement,
        first.scale,
        first.start,
        {
            model: _over([page for (_, page), place in zip(group, own, strict=True) if place], model)
            for model, own in _others(rows)
        },
    )


def _others(rows: Sequence[tuple[str, Sequence[Place | None]]]) -> Iterable[tuple[str, list[bool]]]:
    """By model, the columns that score it and are not the model itself."""
    for model, places in rows:
        yield model, [place is not None and not place.own for place in places]


def _over(pages: Sequence[Page], model: str) -> JudgeMean | None:
    return mean_over_instruments([page.dialogues for page in pages], model)


def _mean_rank(places: Sequence[Place | None]) -> float:
    ranks = [place.rank for place in places if place is not None and place.rank is not None]
    return sum(ranks) / len(ranks) if ranks else float("inf")


def _agreement(rows: Sequence[tuple[str, Sequence[Place | None]]], size: int) -> list[list[Agreement]]:
    scores: list[dict[str, float]] = [{} for _ in range(size)]
    for model, places in rows:
        for at, place in enumerate(places):
            if place is not None and place.rank is not None and not place.own and place.seen.mean is not None:
                scores[at][model] = place.seen.mean
    table = [[Agreement(1.0, len(scores[i])) for i in range(size)] for _ in range(size)]
    for i, j in combinations(range(size), 2):
        shared = len(scores[i].keys() & scores[j].keys())
        try:
            rho = spearman_matrix({"first": scores[i], "second": scores[j]}).between("first", "second")
        except UseError:  # fewer than two models in common, or all level
            table[i][j] = table[j][i] = Agreement(None, shared)
        else:
            table[i][j] = table[j][i] = Agreement(rho, shared)
    return table


def _scatters(labels: Sequence[str], rows: Sequence[tuple[str, Sequence[Place | None]]], scale: Scale) -> list[Against]:
    """Every two columns as a square with the same scale on both sides, just wide enough for all means."""
    means = [place.seen.mean for _, places in rows for place in places if place is not None and place.seen.mean is not None]
    least, most = min(means, default=scale.low), max(means, default=scale.high)
    step = next((size for size in (2, 5, 10, 20, 25) if most - least <= 4 * size), 50)
    low = max(scale.low, float(step * math.floor(least / step - 0.1)))
    high = min(scale.high, float(step * math.ceil(most / step + 0.1)))

    def at(points: float) -> float:
        return round(SQUARE * (points - low) / (high - low), 1)

    ticks = [(at(points), round(points)) for points in range(round(low), round(high) + 1) if points % step == 0]
    found = []
    for i, j in combinations(range(len(labels)), 2):
        dots = []
        for number, (model, places) in enumerate(rows, start=1):
            a, b = places[i], places[j]
            if a is not None and b is not None and a.seen.mean is not None and b.seen.mean is not None:
                own = a.own or b.own
                dots.append(Dot(number, model, at(a.seen.mean), SQUARE - at(b.seen.mean), a.seen.mean, b.seen.mean, own))
        found.append(Against(labels[i], labels[j], dots, ticks))
    return found


def _notes(
    group: Sequence[tuple[str, Page]],
    rows: Sequence[tuple[str, Sequence[Place | None]]],
    agreement: Sequence[Sequence[Agreement]],
) -> list[str]:
    scenarios = [page.scenarios for _, page in group]
    notes = []
    if len(set(scenarios)) > 1:
        all_of_them = len(frozenset.intersection(*scenarios))
        counts = ", ".join(str(len(one)) for one in scenarios)
        notes.append(f"The columns rest on different scenarios: {counts}, of which {all_of_them} are in every column.")
    own = sorted({model for model, places in rows if any(place is not None and place.own for place in places)})
    if own:
        notes.append(f"◇ Played or judged by itself in one column, and left out of the agreement there: {', '.join(own)}.")
    fewest = min(cell.n for line in agreement for cell in line)
    if fewest < FEW_MODELS:
        notes.append(
            f"The rank correlation rests on {fewest} {'model' if fewest == 1 else 'models'}"
            f"{' where it rests on fewest' if len(group) > 2 else ''}; over so few it moves with a single swap."
        )
    return notes
