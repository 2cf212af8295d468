"""Suite `rankings`: do user simulators order models alike, and does one favour its own (SAGE, Tables 1 and 2; EIBench, Table 5)?

Models are compared on the scenarios that both users scored, without a model that plays the user itself (as in EIBench). Its
self-preference is how much larger its lead over the other models is by its own judgement than by that of the other users.
Departure: a p value, exact up to eight models; the papers print rank correlations without intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Column, Estimate, Row, Table
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.spec import ExternalRanking, load_attribute
from heartloop.environments.suites import Answers, Material, Result
from heartloop.report.page import is_same_model
from heartloop.scoring.statistics import estimate
from heartloop.validity.suites import recorded, rows_of, run_suite

if TYPE_CHECKING:
    import pandas

_EXACT = 8
_FEWEST = 3


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


def scores_of(material: Material) -> pandas.DataFrame:
    """Mean points with a row for each model and scenario and a column for each user; of a rejudged dialogue that is its judge."""
    import pandas

    rows = [(one.model, one.scenario, one.user, material.points(one)) for one in material.dialogues]
    frame = pandas.DataFrame(rows, columns=["model", "scenario", "user", "points"])
    means = frame.groupby(["model", "scenario", "user"], sort=False)["points"].mean()
    return means.unstack("user")[material.users]


_LEVELS = (("", 1), (", tokens", 0))


def _levels(material: Material) -> tuple[list[Row], bool]:
    """Mean score and mean completion tokens of each model with each user (SAGE, Figures 6, 8); whether tokens are estimated."""
    rows: list[Row] = []
    for place, model in enumerate(material.models):
        cells: list[float | None] = []
        for user in material.users:
            mine = [one for one in material.dialogues if (one.model, one.user) == (model, user)]
            tokens = [one.usage["policy"].completion_tokens for one in mine if "policy" in one.usage]
            cells += [fmean(each) if each else None for each in (list(map(material.points, mine)), tokens)]
        rows.append(Row(model, tuple(cells), place))
    return rows, any(one.usage["policy"].estimated for one in material.dialogues if "policy" in one.usage)


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


def _rho(rankings: pandas.DataFrame) -> _Rho:
    """Of two columns over the models that both have."""
    both = rankings.dropna()
    rho = float(both.corr(method="spearman", min_periods=_FEWEST).iloc[0, 1])
    if math.isnan(rho):  # few models, or all level
        return _Rho(None, len(both), None)
    return _Rho(rho, len(both), rank_p(*(both[name].tolist() for name in both)))


def _without_own(frame: pandas.DataFrame, *users: str) -> pandas.DataFrame:
    """The rows of models that play none of some users."""
    return frame[[not any(is_same_model(model, user) for user in users) for model in frame.index.get_level_values("model")]]


def own_preference(scores: pandas.DataFrame, user: str) -> Estimate | None:
    """A user's own model's lead over the other models by its own judgement, less the same by the other users, in points.

    Over the scenarios that this user and at least one other scored for the own model and for a further one.
    """
    own = next((model for model in scores[user].dropna().index.unique("model") if is_same_model(model, user)), None)
    if own is None:
        return None
    others = _without_own(scores, *scores.columns)
    leads = scores.loc[own] - others.groupby("scenario").mean()
    lead: pandas.Series = (leads[user] - leads.drop(columns=user).mean(axis=1)).dropna()
    return estimate(lead.tolist(), lead.index.tolist())


def read_ratings(path: Path) -> dict[str, float]:
    """Ratings of models, from a CSV file with the columns `model` and `rating`; higher is better."""
    expected = "CSV with a heading and the columns model and rating"
    ratings: dict[str, float] = {}
    for where, row in rows_of(path, ("model", "rating"), expected):
        try:
            model, rating = str(row["model"]).strip(), float(row["rating"])
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: {dict(row)}; expected {expected}") from error
        if not math.isfinite(rating) or not model or model in ratings:
            raise InputError(f"{where}: {dict(row)}; expected a finite rating, and every model once")
        ratings[model] = rating
    if not ratings:
        raise InputError(f"{path} has no rating; expected {expected}")
    return ratings


def same_name(first: str, second: str) -> bool:
    """Whether names mean the same model, apart from service, case and punctuation.

    >>> same_name("google/gemini-2.5-pro", "Gemini2.5-Pro"), same_name("openai/gpt-6.1-terra", "GPT-6.1")
    (True, False)
    """
    first, second = (re.sub(r"[^a-z0-9.]", "", name.rsplit("/", 1)[-1].casefold()) for name in (first, second))
    return first == second != ""


def _external(material: Material) -> dict[str, ExternalRanking]:
    rankings = {title: load_attribute(path)() for title, path in material.spec.rankings.items()}
    if material.ratings is not None:
        rankings[material.ratings.name] = ExternalRanking(read_ratings(material.ratings))
    return rankings


def _matched(models: Sequence[str], ranking: ExternalRanking) -> dict[str, float]:
    """Ratings by our model names; a model that several rated names or several of ours mean is left out."""
    names = {name: (name, *ranking.aliases.get(name, ())) for name in ranking.ratings}
    pairs = [(model, name) for model in models for name in names if any(same_name(model, other) for other in names[name])]
    ours, theirs = [model for model, _ in pairs], [name for _, name in pairs]
    return {model: ranking.ratings[name] for model, name in pairs if ours.count(model) == theirs.count(name) == 1}


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    scores = scores_of(material)
    users = material.users
    record: dict[str, Any] = {"users": users, "agreement": {}, "generosity": {}, "own_preference": {}, "external": {}}
    notes: list[str] = []
    agreement: list[Row] = []
    generosity: list[Row] = []
    for first, second in combinations(users, 2):
        both = scores[[first, second]].dropna()
        means = both.groupby("model", sort=False).mean()
        rho = _rho(_without_own(means, first, second))
        agreement.append(Row(f"{first} and {second}", (str(rho), str(_rho(means)))))
        record["agreement"][f"{first} | {second}"] = rho._asdict()
        others = _without_own(both, first, second)
        scenarios = others.index.get_level_values("scenario").tolist()
        difference = estimate((others[second] - others[first]).tolist(), scenarios)
        if difference is not None:
            generosity.append(Row(f"{second} less {first}", (difference,)))
            record["generosity"][f"{second} | {first}"] = difference._asdict()
    own = [Row(user, (lead,)) for user in users if (lead := own_preference(scores, user)) is not None]
    record["own_preference"] = {row.head: recorded(row, ("lead",))["lead"] for row in own}
    external: list[Row] = []
    for title, ranking in _external(material).items():
        for user in users:
            means = _without_own(scores[[user]].dropna(), user).groupby("model", sort=False).mean()
            ratings = _matched(list(means.index), ranking)
            rho = _rho(means.assign(rating=ratings))
            if rho.n >= _FEWEST or (material.ratings and title == material.ratings.name):
                external.append(Row(f"{title}, {user}", (str(rho), ", ".join(ratings) or "none")))
                record["external"][f"{title} | {user}"] = {**rho._asdict(), "models": list(ratings)}
        if ranking.published and any(row.head.startswith(title) for row in external):
            notes.append(f"{title}: published {ranking.published}.")
    levels, estimated = _levels(material)
    if estimated:
        notes.append("Token counts are estimates from the text, where no endpoint counted.")
    record["levels"] = {row.head: row.cells for row in levels}
    tables = [
        Table(
            "Agreement of rankings", (Column("Spearman's rho"), Column("with own models")), tuple(agreement), corner="Users",
            help="Over the models that both scored, on the same scenarios; a model that plays one of the users is left out.",
        ),
        Table(
            "Generosity", (Column("Points"),), tuple(generosity), corner="Users",
            help="Difference of the scores on the same models and scenarios.",
        ),
        Table(
            "Self-preference", (Column("Points"),), tuple(own), corner="User",
            help="How much larger the lead of a user's own model over the other models is than by the other users.",
        ),
        Table(
            "External rankings", (Column("Spearman's rho"), Column("Models")), tuple(external), corner="Ranking and user",
            help="Over the models whose names, or other names of the same model, match apart from service, case and punctuation.",
        ),
    ]  # fmt: skip
    page = [table for table in tables if table.rows]
    if agreement:
        notes.insert(0, f"{amount(len(users), 'user')}, {amount(len(material.models), 'model')}. A rho of few models moves much.")
    if not page:
        raise InputError("no two users scored the same models, and no external ranking has three of them")
    names = tuple(Column(f"{user}{what}", digits) for user in users for what, digits in _LEVELS)
    about = "Mean score, and mean completion tokens of the model in a dialogue, with each user."
    page.append(Table("Score and tokens by user", names, tuple(levels), help=about))
    verdict = " ".join(f"{row.head} rank the models with Spearman's rho {row.cells[0]}." for row in agreement)
    cells = (f"{cell.mean:+.1f}" if isinstance(cell := row.cells[0], Estimate) else cell for row in page[0].rows)
    rows = tuple(row._replace(cells=(cell,)) for row, cell in zip(page[0].rows, cells, strict=True))
    return Result(record, notes, page[0]._replace(columns=page[0].columns[:1], rows=rows), page, verdict)


def _lacks(material: Material) -> str | None:
    known = any(len(_matched(material.models, one)) >= _FEWEST for one in _external(material).values())
    if len(material.users) < 2 and not known and material.ratings is None:
        return "it compares users, or with an external ranking; pass runs with two user simulators, or --ratings FILE"
    return None


RANKINGS = run_suite("rankings", _result, lacks=_lacks)
