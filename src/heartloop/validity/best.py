"""Suite `best`: what would the best of a model's N dialogues with each person score, and the best of its N runs (PERM, Table 1)?

One user or judge chooses by its score, at ties the first. PERM records the highest score of N runs: the same judge chooses and
scores, and its luck counts as gain. With `heartloop rejudge` another judge scores what the first chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from heartloop.core.blocks import Block, Column, Row, Table
from heartloop.environments.suites import Answers, Material, Result
from heartloop.scoring.statistics import estimate
from heartloop.validity.suites import only_means, recorded, run_suite

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("Mean", "Best run", "Best of N", "Gain")
_HELP = "Best of N: the dialogue of the highest score with each person; gain: less the mean. Best run: of the highest mean."


def _grids(material: Material, model: str) -> dict[str, pandas.DataFrame]:
    """A model's points by user: a row for each scenario whose repeats all users scored, a column for each repeat."""
    import pandas

    rows = [(one.user, one.scenario, one.repeat, material.points(one)) for one in material.dialogues if one.model == model]
    frame = pandas.DataFrame(rows, columns=["user", "scenario", "repeat", "points"])
    table = frame.pivot_table(index=["scenario", "repeat"], columns="user", values="points", sort=False).dropna()
    return {user: table[user].unstack("repeat").dropna() for user in table}


def _rows(by_model: Mapping[str, Mapping[str, Any]], chooser: str, scorer: str) -> Iterator[tuple[Row, int]]:
    """A row for each model that both scored, with the number of its repeats."""
    for place, (model, grids) in enumerate(by_model.items()):
        if chooser not in grids or scorer not in grids or grids[chooser].empty:
            continue
        chosen, scored = grids[chooser], grids[scorer]
        means, run = scored.mean(axis=1), scored[chosen.mean().idxmax()]
        best = [scored.loc[scenario, repeat] for scenario, repeat in chosen.idxmax(axis=1).items()]
        each = (means.tolist(), run.tolist(), best, [b - mean for b, mean in zip(best, means, strict=True)])
        yield Row(model, tuple(estimate(values, means.index.tolist()) for values in each), place), len(chosen.columns)


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    columns = tuple(Column(heading) for heading in _COLUMNS)
    record: dict[str, Any] = {}
    page: list[Block] = []
    summary: list[Row] = []
    by_model = {model: _grids(material, model) for model in material.models}
    for chooser in material.users:
        for scorer in material.users:
            found = list(_rows(by_model, chooser, scorer))
            title = f"Chosen by {chooser}, scored by {scorer}"
            rows = [row for row, _ in found]
            page.append(Table(title, columns, tuple(rows), help=_HELP))
            summary += [Row(title, ()), *only_means(rows)]
            record[f"{chooser} | {scorer}"] = {row.head: {"n": n, **recorded(row, _COLUMNS)} for row, n in found}
    notes = ["Who chose also scored, so luck counts as gain; `heartloop rejudge` the run and pass both."]
    return Result(record, notes if len(material.users) == 1 else [], Table("Best of N", columns, tuple(summary)), page)


def _lacks(material: Material) -> str | None:
    if all(one.repeat == 0 for one in material.dialogues):
        return "it needs several dialogues with each person; pass a run of heartloop eval with --repeats 8"
    return None


BEST = run_suite("best", _result, lacks=_lacks)
