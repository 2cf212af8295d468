"""Pages that set models or measurements against each other: a comparison of two models, several instruments, the first matrix.

A model that is played or judged by itself is shown, marked, and left out of the agreement of instruments (as EIBench, Table 5,
leaves it out).
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple
from urllib.parse import quote

from heartloop.core.blocks import Chart, Point, Range, Series, Shade, shade
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.spec import Scale
from heartloop.evaluation.compare import Comparison, evidence_words, needed_words, verdict
from heartloop.evaluation.digests import Digest
from heartloop.evaluation.scores import ModelScore, Outcomes
from heartloop.evaluation.study import mean_over_instruments
from heartloop.report.page import Page
from heartloop.scoring.agreement import spearman

COMPARISON = "comparison.html"


def comparison_page(
    comparison: Comparison, pages: Sequence[Page], min_difference: float | None = None, gate: str = ""
) -> dict[str, Any]:
    """What the template shows; a dialogue that is on none of `pages` has no link, `min_difference` is that of `compare`.

    The pages are to show the dialogues it links to.
    """
    names = {(str(run.path), model): name for page in pages for run in page.runs for model, name in run.shown.items()}
    sides = [side._replace(model=names.get((side.run, side.model), side.model)) for side in (comparison.a, comparison.b)]
    comparison = comparison._replace(a=sides[0], b=sides[1])
    same = sides[0].model == sides[1].model  # of pages with other rules
    linked = {_played(d, side.model) for pair in comparison.extremes for side, d in zip(sides, (pair.a, pair.b), strict=True)}
    places: dict[tuple[object, ...], tuple[str, str]] = {}
    for page in pages:
        for place, dialogue in enumerate(page.dialogues):
            if (played := _played(dialogue, dialogue.model)) in linked:
                places[played] = page.file, page.ids[place]
                page.linked.add(place)
    extremes = []
    for pair in comparison.extremes:
        (file_a, a), (file_b, b) = (
            places.get(_played(d, side.model), ("", "")) for side, d in zip(sides, (pair.a, pair.b), strict=True)
        )
        together = f"{file_a}#pair?a={quote(a)}&b={quote(b)}" if file_a and file_a == file_b and a != b else ""
        title = " ".join(pair.a.facts.get("title", "").split()) or pair.a.scenario
        extremes.append((pair, title, file_a and f"{file_a}#{a}", file_b and f"{file_b}#{b}", together))
    shown = [comparison.difference, *(group.difference for group in comparison.groups)]
    reach = math.ceil(max(1.0, *(abs(value) for one in shown for value in one[:3] if not math.isnan(value))) * 1.05)
    return {
        "comparison": comparison,
        "names": [f"{side.model} ({side.run})" if same else side.model for side in sides],
        "verdict": verdict(comparison, min_difference),
        "gate": gate,
        "evidence": evidence_words(comparison),
        "needed": needed_words(comparison),
        "difference": comparison.difference.of(comparison.pairs),
        "groups": [(g.key, g.pairs, g.mean_a, g.mean_b, g.difference.of(g.pairs)) for g in comparison.groups],
        "extremes": extremes,
        "range": Range(-reach, reach, 0.0),
    }


def _played(d: Digest, model: str) -> tuple[object, ...]:
    """What distinguishes a dialogue from others of the same model, also from earlier ones that it replaced."""
    return model, d.scenario, d.fingerprint, d.repeat, d.seed, d.user, d.replies.tobytes()


FEW_MODELS = 6


class InstrumentScore(NamedTuple):
    rank: int | None
    seen: Outcomes
    own: bool


Row = tuple[str, list[InstrumentScore | None]]


RankAgreement = tuple[float | None, int]
"""Spearman's rho of two columns over the models that both rank and neither plays, if it is defined, and their number."""


def side_by_side(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """Tables of the pages that differ only in user simulator and judge and share a model and a scenario.

    `over`: by model the mean over the instruments it does not play itself; `None` for fewer than two of them or of scenarios.
    """
    groups: list[list[Page]] = []
    for page in pages:
        group = next((group for group in groups if _belong(group[0], page)), None)
        if group is not None:
            group.append(page)
        elif page.rules:
            groups.append([page])
    return [_table(group) for group in groups if len(group) > 1]


def _belong(first: Page, page: Page) -> bool:
    first_models, models = ({row.model for row in one.card.models if row.scored} for one in (first, page))
    return first.rules == page.rules and bool(first_models & models) and bool(first.scenarios & page.scenarios)


def _table(pages: Sequence[Page]) -> dict[str, Any]:
    places: dict[str, list[InstrumentScore | None]] = {}
    for at, page in enumerate(pages):
        for row in page.card.models:
            if row.scored:
                own = row.model in page.self_scored
                places.setdefault(row.model, [None] * len(pages))[at] = InstrumentScore(row.rank, row.headline, own)

    def order(item: Row) -> tuple[float, str]:
        return mean_rank(place.rank for place in item[1] if place is not None), item[0]

    rows = sorted(places.items(), key=order)
    labels = distinct_labels(pages, [page.instrument for page in pages])
    agreement = _agreement(rows, len(pages))
    return {
        "columns": list(zip(pages, labels, strict=True)),
        "rows": rows,
        "agreement": agreement,
        "notes": _notes(pages, rows, agreement),
        "scatters": _scatters(labels, rows, pages[0].scale),
        "over": {
            model: mean_over_instruments(
                [page.dialogues for page, place in zip(pages, scores, strict=True) if place is not None and not place.own], model
            )
            for model, scores in rows
        },
    }


def tab_labels(pages: Sequence[Page]) -> list[str]:
    """Each measurement in words: who played if that differs, preset and variant if pages of its environment differ in them."""
    players = len({page.instrument for page in pages}) > 1

    def label(page: Page) -> str:
        peers = [other.card for other in pages if other.environment == page.environment]
        parts = [page.title, *([page.played] if players and page.card.simulators else [])]
        for name, values, others in (
            ("preset", page.card.presets, {peer.presets for peer in peers}),
            ("variant", page.card.variants, {peer.variants for peer in peers}),
        ):
            parts += [f"{name} {' and '.join(values)}"] if values and len(others) > 1 else []
        return ", ".join(parts)

    return distinct_labels(pages, [label(page) for page in pages])


def distinct_labels(pages: Sequence[Page], labels: Sequence[str]) -> list[str]:
    return [
        f"{label}, run {' and '.join(page.run_names)}" if labels.count(label) > 1 else label
        for label, page in zip(labels, pages, strict=True)
    ]


def mean_rank(ranks: Iterable[int | None]) -> float:
    known = [rank for rank in ranks if rank is not None]
    return statistics.fmean(known) if known else math.inf


def _agreement(rows: Sequence[Row], size: int) -> list[list[RankAgreement]]:
    scores: list[dict[str, float]] = [{} for _ in range(size)]
    for model, places in rows:
        for mine, place in zip(scores, places, strict=True):
            if place is not None and place.rank is not None and not place.own and place.seen.mean is not None:
                mine[model] = place.seen.mean

    def agreement(a: dict[str, float], b: dict[str, float]) -> RankAgreement:
        rho = None
        with contextlib.suppress(UseError):  # fewer than two models in common, or all level
            rho = 1.0 if a is b else spearman(a, b)
        return rho, len(a.keys() & b.keys())

    return [[agreement(a, b) for b in scores] for a in scores]


def _scatters(labels: Sequence[str], rows: Sequence[Row], scale: Scale) -> list[Chart]:
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
        charts.append(chart)
    return charts


def _point(a: InstrumentScore | None, b: InstrumentScore | None) -> tuple[Point, ...]:
    if a is None or b is None or a.seen.mean is None or b.seen.mean is None:
        return ()
    return (Point(a.seen.mean, b.seen.mean, square=a.own or b.own),)


def _notes(pages: Sequence[Page], rows: Sequence[Row], agreement: Sequence[Sequence[RankAgreement]]) -> list[str]:
    scenarios = [page.scenarios for page in pages]
    notes = []
    if len(set(scenarios)) > 1:
        all_of_them = len(frozenset.intersection(*scenarios))
        counts = ", ".join(str(len(one)) for one in scenarios)
        notes.append(f"The columns rest on different scenarios: {counts}, of which {all_of_them} are in every column.")
    own = sorted({model for model, places in rows if any(place is not None and place.own for place in places)})
    if own:
        notes.append(f"◇ Played or judged by itself in one column, and left out of the agreement there: {', '.join(own)}.")
    fewest = min(n for line in agreement for _, n in line)
    if fewest < FEW_MODELS:
        notes.append(
            f"The rank correlation rests on {amount(fewest, 'model')}{' where it rests on fewest' if len(pages) > 2 else ''}; "
            "over so few it moves with a single swap."
        )
    return notes


Cell = tuple[ModelScore, Shade] | None


def matrix_of(pages: Sequence[Page], labels: Sequence[str]) -> dict[str, Any] | None:
    """Models by mean rank, failure cases last, against measurements; a label is shown if an environment has several pages."""
    cells: dict[str, list[Cell]] = {}
    for at, page in enumerate(pages):
        for row in page.card.models:
            if row.headline.mean is not None:
                tint = shade([row.headline.mean], page.colours)
                cells.setdefault(row.model, [None] * len(pages))[at] = (row, tint)
    if len(pages) < 2 or not cells:
        return None

    def order(item: tuple[str, list[Cell]]) -> tuple[bool, float, str]:
        rows = [cell[0] for cell in item[1] if cell is not None]
        return any(row.standing == "failure case" for row in rows), mean_rank(row.rank for row in rows), item[0]

    titles = [page.title for page in pages]
    columns = [(page, label if titles.count(page.title) > 1 else "") for page, label in zip(pages, labels, strict=True)]
    return {"columns": columns, "rows": sorted(cells.items(), key=order)}
