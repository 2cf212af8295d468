"""Pages that set models or measurements against each other: a comparison of two models, several instruments, the first matrix.

A model that is played or judged by itself is shown, marked, and left out of the agreement of instruments (as EIBench, Table 5,
leaves it out).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple
from urllib.parse import quote

from heartloop.core.blocks import Chart, Estimate, Point, Range, Series, Shade, shade
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.spec import Scale
from heartloop.evaluation.compare import Comparison, Pair, evidence_words, needed_words, verdict
from heartloop.evaluation.scores import Outcomes
from heartloop.evaluation.study import mean_over_instruments
from heartloop.report.page import Page
from heartloop.scoring.agreement import spearman
from heartloop.scoring.statistics import Interval
from heartloop.scoring.variance import JudgeMean

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
    """Of the drawn differences, symmetric about 0."""


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


FEW_MODELS = 6
"""A rank correlation over fewer is said to rest on few."""


class Instrument(NamedTuple):
    """One simulator or judge: what it is called, the page its numbers come from, and how many scenarios they rest on."""

    label: str
    address: str
    number: int
    scenarios: int


class InstrumentScore(NamedTuple):
    """One model under one simulator."""

    rank: int | None
    seen: Outcomes
    own: bool
    """The instrument is the model itself."""


class RankAgreement(NamedTuple):
    """Spearman's rho of two columns over the models that both rank and neither plays; `rho` is `None` where it is not defined."""

    rho: float | None
    n: int


class SideBySide(NamedTuple):
    """A table of models by simulators, and how well the simulators agree."""

    rules: str
    columns: list[Instrument]
    rows: list[tuple[str, list[InstrumentScore | None]]]
    agreement: list[list[RankAgreement]]
    notes: list[str]
    scatters: list[tuple[str, str, Chart]]
    """The means of every two instruments against each other."""
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
        Instrument(label, address, page.number, len(page.scenarios)) for label, (address, page) in zip(labels, group, strict=True)
    ]
    places: dict[str, list[InstrumentScore | None]] = {}
    for at, (_, page) in enumerate(group):
        for row in page.card.models:
            if row.scored:
                own = row.model in page.self_scored
                places.setdefault(row.model, [None] * len(group))[at] = InstrumentScore(row.rank, row.headline, own)
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


def _others(rows: Sequence[tuple[str, Sequence[InstrumentScore | None]]]) -> Iterable[tuple[str, list[bool]]]:
    """By model, the columns that score it and are not the model itself."""
    for model, places in rows:
        yield model, [place is not None and not place.own for place in places]


def _over(pages: Sequence[Page], model: str) -> JudgeMean | None:
    return mean_over_instruments([page.dialogues for page in pages], model)


def _mean_rank(places: Sequence[InstrumentScore | None]) -> float:
    ranks = [place.rank for place in places if place is not None and place.rank is not None]
    return sum(ranks) / len(ranks) if ranks else float("inf")


def _agreement(rows: Sequence[tuple[str, Sequence[InstrumentScore | None]]], size: int) -> list[list[RankAgreement]]:
    scores: list[dict[str, float]] = [{} for _ in range(size)]
    for model, places in rows:
        for at, place in enumerate(places):
            if place is not None and place.rank is not None and not place.own and place.seen.mean is not None:
                scores[at][model] = place.seen.mean
    table = [[RankAgreement(1.0, len(scores[i])) for i in range(size)] for _ in range(size)]
    for i, j in combinations(range(size), 2):
        shared = len(scores[i].keys() & scores[j].keys())
        try:
            rho = spearman(scores[i], scores[j])
        except UseError:  # fewer than two models in common, or all level
            table[i][j] = table[j][i] = RankAgreement(None, shared)
        else:
            table[i][j] = table[j][i] = RankAgreement(rho, shared)
    return table


def _scatters(
    labels: Sequence[str], rows: Sequence[tuple[str, Sequence[InstrumentScore | None]]], scale: Scale
) -> list[tuple[str, str, Chart]]:
    """Every two columns as a square with one scale on both sides, just wide enough for all means."""
    means = [place.seen.mean for _, places in rows for place in places if place is not None and place.seen.mean is not None]
    least, most = min(means, default=scale.low), max(means, default=scale.high)
    margin = 0.08 * (most - least) or 1.0
    low, high = max(scale.low, least - margin), min(scale.high, most + margin)
    charts = []
    for i, j in combinations(range(len(labels)), 2):
        series = [Series(model, _point(places[i], places[j]), number) for number, (model, places) in enumerate(rows)]
        title = f"{labels[j]} (up) against {labels[i]} (across)"
        across, up = (f"{scale.title} under {labels[n]}" for n in (i, j))
        chart = Chart(title, "points", tuple(series), across, up, low, high, x_low=low, x_high=high, numbered=True, diagonal=True)
        charts.append((labels[i], labels[j], chart))
    return charts


def _point(a: InstrumentScore | None, b: InstrumentScore | None) -> tuple[Point, ...]:
    """The point of a model that both instruments score."""
    if a is None or b is None or a.seen.mean is None or b.seen.mean is None:
        return ()
    return (Point(a.seen.mean, b.seen.mean, square=a.own or b.own),)


def _notes(
    group: Sequence[tuple[str, Page]],
    rows: Sequence[tuple[str, Sequence[InstrumentScore | None]]],
    agreement: Sequence[Sequence[RankAgreement]],
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


class MatrixColumn(NamedTuple):
    """One measurement: its file, its page, and what distinguishes it from others of its environment, if there are any."""

    address: str
    page: Page
    under: str


class MatrixCell(NamedTuple):
    """A model in a measurement."""

    address: str
    """The model's section, as file and fragment."""
    rank: int | None
    seen: Outcomes
    shade: Shade


class Matrix(NamedTuple):
    """Models in the order of their mean rank, failure cases last, each with a cell for every column it was scored in."""

    columns: list[MatrixColumn]
    rows: list[tuple[str, list[MatrixCell | None]]]


def matrix_of(pages: Sequence[tuple[str, str, Page]]) -> Matrix | None:
    """The matrix of some pages, as (file, label, page); `None` for fewer than two pages, or if nothing is scored."""
    cells: dict[str, list[MatrixCell | None]] = {}
    outside: set[str] = set()
    for at, (file, _, page) in enumerate(pages):
        for row in page.card.models:
            if row.headline.mean is not None:
                tint = shade([row.headline.mean], page.scale.low, page.scale.high)
                cells.setdefault(row.model, [None] * len(pages))[at] = MatrixCell(
                    f"{file}#{page.model_ids[row.model]}", row.rank, row.headline, tint
                )
                if row.standing == "failure case":
                    outside.add(row.model)
    if len(pages) < 2 or not cells:
        return None

    def order(item: tuple[str, list[MatrixCell | None]]) -> tuple[bool, float, str]:
        ranks = [cell.rank for cell in item[1] if cell is not None and cell.rank is not None]
        return (item[0] in outside, statistics.fmean(ranks) if ranks else float("inf"), item[0])

    titles = [page.title for _, _, page in pages]
    columns = [MatrixColumn(file, page, label if titles.count(page.title) > 1 else "") for file, label, page in pages]
    return Matrix(columns, sorted(cells.items(), key=order))
