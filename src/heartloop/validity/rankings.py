"""Suite `rankings`: do user simulators order models alike, does one favour its own model, and does the order agree with others?

SAGE, Table 1, Figure 1a and its section on robustness; EIBench, Table 5.
Models are compared on the scenarios that both users scored. A model that plays the user itself is left out of that user's ranking
(as EIBench leaves it out), and its self-preference is how much further it stands above the other models by its own judgement than
by that of the other users. Generosity is the mean difference of two users on the same models and scenarios. External rankings are
those that an environment ships (`EnvironmentSpec.rankings`) and a file of the reader's own. Departures: the papers print rank
correlations without intervals; with few models they need a p value, which is exact up to eight models. The means over users that
stand beside a leaderboard are the report's (`report.side_by_side`).
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Block, Column, Estimate, Row, Table
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount
from heartloop.environments.spec import ExternalRanking, load_attribute
from heartloop.environments.suites import Answers, Material, Result, RunSuite
from heartloop.report.page import is_same_model
from heartloop.scoring.agreement import spearman
from heartloop.scoring.statistics import estimate

_EXACT = 8
_FEWEST = 3

Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Mean points by user, model and scenario."""


class _Rho(NamedTuple):
    """Spearman's rho over n models; `rho` and `p` are `None` where it is not defined."""

    rho: float | None
    n: int
    p: float | None

    def __str__(self) -> str:
        if self.rho is None:
            return f"not defined ({amount(self.n, 'model')})"
        p = "" if self.p is None else f", p {'below 0.001' if self.p < 0.001 else f'{self.p:.2g}'}"
        return f"{self.rho:.2f} ({amount(self.n, 'model')}{p})"


def scores_of(material: Material) -> dict[str, dict[str, dict[str, float]]]:
    """Mean points of each user's dialogues by model and scenario; the user of a rejudged dialogue is its judge."""
    each: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for one in material.dialogues:
        if one.score is not None:
            each[one.user][one.model][one.scenario].append(material.spec.scale.points * one.score)
    return {
        user: {model: {s: math.fsum(v) / len(v) for s, v in cells.items()} for model, cells in models.items()}
        for user, models in each.items()
    }


def rank_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided p value of Spearman's rho: over all orders up to eight models, by the t distribution above; `None` below three.

    >>> rank_p([1, 2, 3], [1, 2, 3])
    0.3333333333333333
    """
    if len(a) < _FEWEST:
        return None
    from scipy.stats import permutation_test, rankdata, spearmanr  # a third of a second to import

    if len(a) > _EXACT:
        return float(spearmanr(a, b).pvalue)
    middle = (len(a) + 1) / 2
    ranks_a, ranks_b = rankdata(a) - middle, rankdata(b) - middle
    test = permutation_test(
        (ranks_a,), lambda order, axis: np.abs(np.sum(order * ranks_b, axis=axis)), permutation_type="pairings",
        alternative="greater", n_resamples=np.inf, batch=10_000, vectorized=True,
    )  # fmt: skip
    return float(test.pvalue)


def _rho(first: Mapping[str, float], second: Mapping[str, float]) -> _Rho:
    shared = [model for model in first if model in second]
    try:
        rho = spearman(first, second) if len(shared) >= _FEWEST else None
    except UseError:  # all level
        rho = None
    p = None if rho is None else rank_p([first[model] for model in shared], [second[model] for model in shared])
    return _Rho(rho, len(shared), p)


def _means(scores: Scores, user: str, other: str) -> tuple[dict[str, float], dict[str, float]]:
    """Mean points of the models of two users on the scenarios that both scored, by user."""
    found: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for model in scores[user]:
        shared = scores[user][model].keys() & scores[other].get(model, {}).keys()
        if shared:
            for place, name in zip(found, (user, other), strict=True):
                place[model] = math.fsum(scores[name][model][scenario] for scenario in shared) / len(shared)
    return found


def _without_own(means: Mapping[str, float], *users: str) -> dict[str, float]:
    return {model: mean for model, mean in means.items() if not any(is_same_model(model, user) for user in users)}


def own_preference(scores: Scores, user: str) -> Estimate | None:
    """How far a user's own model stands above the other models by its own judgement, less the same by the other users, in points.

    Over the scenarios that this user and at least one other scored for the own model and for a further one. `None` where
    no model is its own, or nobody else scored it.
    """
    own = next((model for model in scores[user] if is_same_model(model, user)), None)
    if own is None:
        return None
    values: list[float] = []
    scenarios: list[str] = []
    for scenario in scores[user][own]:
        lead = _lead(scores, user, own, scenario)
        others = [found for other in scores if other != user and (found := _lead(scores, other, own, scenario)) is not None]
        if lead is not None and others:
            values.append(lead - math.fsum(others) / len(others))
            scenarios.append(scenario)
    return estimate(values, scenarios)


def _lead(scores: Scores, user: str, own: str, scenario: str) -> float | None:
    """A model's points less the mean of the others', of which none plays a user."""
    others = [
        cells[scenario]
        for model, cells in scores[user].items()
        if scenario in cells and model != own and not any(is_same_model(model, name) for name in scores)
    ]
    mine = scores[user].get(own, {}).get(scenario)
    return None if mine is None or not others else mine - math.fsum(others) / len(others)


def _generosity(scores: Scores, user: str, other: str) -> Estimate | None:
    """Points by `user` less those by `other` on the same models and scenarios, without models that play one of them."""
    values, scenarios = [], []
    for model in _without_own(dict.fromkeys(scores[user], 0.0), user, other):
        for scenario in scores[user][model].keys() & scores[other].get(model, {}).keys():
            values.append(scores[user][model][scenario] - scores[other][model][scenario])
            scenarios.append(scenario)
    return estimate(values, scenarios)


def read_ratings(path: Path) -> dict[str, float]:
    """Ratings of models, from a CSV file with the columns `model` and `rating`; higher is better."""
    expected = "CSV with a heading and the columns model and rating"
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}; expected {expected}") from error
    found: dict[str, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            model, rating = str(row["model"]).strip(), float(row["rating"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}, line {number}: {row}; expected {expected}") from error
        if not math.isfinite(rating) or not model or model in found:
            raise InputError(f"{path}, line {number}: {row}; expected a finite rating, and every model once")
        found[model] = rating
    if not found:
        raise InputError(f"{path} has no rating; expected {expected}")
    return found


def same_name(first: str, second: str) -> bool:
    """Whether names mean the same model, apart from service, case and punctuation.

    >>> same_name("google/gemini-2.5-pro", "Gemini2.5-Pro"), same_name("openai/gpt-4.1-mini", "GPT-4.1")
    (True, False)
    """
    return _bare(first) == _bare(second) != ""


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.rsplit("/", 1)[-1].casefold())


def _external(material: Material) -> dict[str, ExternalRanking]:
    """External rankings by title."""
    found = {title: load_attribute(path)() for title, path in material.spec.rankings.items()}
    if material.ratings is not None:
        found[material.ratings.name] = ExternalRanking(read_ratings(material.ratings))
    return found


def _matched(models: Sequence[str], ratings: Mapping[str, float]) -> dict[str, float]:
    """Ratings by our model names; a model that several rated names or several of ours mean is left out."""
    pairs = [(model, name) for model in models for name in ratings if same_name(model, name)]
    ours, theirs = [model for model, _ in pairs], [name for _, name in pairs]
    return {model: ratings[name] for model, name in pairs if ours.count(model) == theirs.count(name) == 1}


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    scores = scores_of(material)
    users = list(scores)
    record: dict[str, Any] = {"users": users, "agreement": {}, "generosity": {}, "own_preference": {}, "external": {}}
    notes: list[str] = []
    agreement: list[Row] = []
    generosity: list[Row] = []
    for first, second in combinations(users, 2):
        means = _means(scores, first, second)
        found = _rho(*(_without_own(one, first, second) for one in means))
        agreement.append(Row(f"{first} and {second}", (str(found), str(_rho(*means)))))
        record["agreement"][f"{first} | {second}"] = found._asdict()
        difference = _generosity(scores, second, first)
        if difference is not None:
            generosity.append(Row(f"{second} less {first}", (difference,)))
            record["generosity"][f"{second} | {first}"] = difference._asdict()
    own = [Row(user, (lead,)) for user in users if (lead := own_preference(scores, user)) is not None]
    record["own_preference"] = {row.head: cell._asdict() for row in own if isinstance(cell := row.cells[0], Estimate)}
    rows: list[Row] = []
    for title, ranking in _external(material).items():
        for user in users:
            means_of = {model: math.fsum(cells.values()) / len(cells) for model, cells in scores[user].items()}
            matched = _matched(list(_without_own(means_of, user)), ranking.ratings)
            rho = _rho({model: means_of[model] for model in matched}, matched)
            if rho.n >= _FEWEST or title == (material.ratings.name if material.ratings else None):
                rows.append(Row(f"{title}, {user}", (str(rho), ", ".join(matched) or "none")))
                record["external"][f"{title} | {user}"] = {**rho._asdict(), "models": list(matched)}
        if ranking.published and any(row.head.startswith(title) for row in rows):
            notes.append(f"{title}: published {ranking.published}.")
    tables = [
        (agreement, Table(
            "Agreement of rankings", (Column("Spearman's rho"), Column("with own models")), tuple(agreement), corner="Users",
            help="Over the models that both scored, on the same scenarios; a model that plays one of the users is left out.",
        )),
        (generosity, Table(
            "Generosity", (Column("Points"),), tuple(generosity), corner="Users",
            help="Difference of the scores on the same models and scenarios.",
        )),
        (own, Table(
            "Self-preference", (Column("Points"),), tuple(own), corner="User",
            help="How much further a user's own model stands above the other models than by the other users.",
        )),
        (rows, Table(
            "External rankings", (Column("Spearman's rho"), Column("Models")), tuple(rows), corner="Ranking and user",
            help="Over the models whose names match, apart from service, case and punctuation.",
        )),
    ]  # fmt: skip
    page: list[Block] = [table for part, table in tables if part]
    if agreement:
        notes.insert(0, f"{amount(len(users), 'user')}, {amount(len(material.models), 'model')}. A rho of few models moves much.")
    if not page:
        raise InputError("no two users scored the same models, and no external ranking has three of them")
    first_table = next(table for part, table in tables if part)
    summary = first_table._replace(
        help="",
        columns=first_table.columns[:1],
        rows=tuple(
            row._replace(cells=(f"{cell.mean:+.1f}" if isinstance(cell := row.cells[0], Estimate) else cell,))
            for row in first_table.rows
        ),
    )
    return Result(record, tuple(notes), summary, tuple(page))


def _lacks(material: Material) -> str | None:
    users = {dialogue.user for dialogue in material.dialogues}
    known = any(len(_matched(material.models, one.ratings)) >= _FEWEST for one in _external(material).values())
    if len(users) < 2 and not known and material.ratings is None:
        return "it compares users, or with an external ranking; pass runs with two user simulators, or --ratings FILE"
    return None


RANKINGS = RunSuite(
    "Do users and others order the models alike?",
    "Rank correlation of users over the models that both scored, without those that play a user; how generous each user is, "
    "whether it favours its own model, and agreement with external rankings.",
    "Sentient Agent as a Judge, Table 1 and Figure 1",
    _result,
    lacks=_lacks,
)
