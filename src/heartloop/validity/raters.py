"""Suite `raters`: do people see the changes that the user simulator reports, and prefer what judges place higher (RLVER, App. E)?

`--labels` is one of two files. In one with `direction`, a row says whether a rater expects the score to rise or to fall after a
reply, and in `reasonable` whether the rater finds the simulator's thoughts and change so (Table 6). In one with `winner`, a row
says which of two models was better in a capability (Table 7); win rates are compared with the levels of suite `capabilities` in
the same command. Departures: scenarios count alike, with the share of each reply; a reply whose raters are divided evenly has no
majority; a tie is a win of neither model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from heartloop.core.blocks import Column, Estimate, Row, Table
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Result
from heartloop.scoring.agreement import spearman
from heartloop.scoring.statistics import estimate
from heartloop.validity.capabilities import CAPABILITIES
from heartloop.validity.rankings import rank_p
from heartloop.validity.suites import changes, has_column, only_means, recorded, rows_of, run_suite

PUBLISHED: Mapping[str, float] = {
    "consistency": 82.65, "majority": 95.0, "agreement": 75.8, "reasonable": 88.35, "agreement on reasonable": 79.75,
}  # fmt: skip
"""Percent of ten raters and 20 replies (RLVER, Table 6)."""
RHO = 0.899
"""Of win rates and judges' levels, three models by five capabilities (RLVER, Table 7)."""
_WORDS = {"up": 1.0, "down": -1.0, "none": 0.0, "yes": 1.0, "no": 0.0}
_RATED = "CSV or JSON lines with model, scenario, turn (from 0), rater, direction (up, down or none) and, for repeats, repeat"
_COMPARED = "CSV or JSON lines with scenario, first, second (models), capability and winner (first, second or tie)"

Reply = tuple[str, str, int, int]
"""Model, scenario, repeat and turn."""


def with_people(own: float, ratings: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Of one reply: share of raters equal to `own`, whether their majority is, share of their pairs that are equal.

    >>> with_people(1, [1, 1, -1])
    (0.6666666666666666, 1.0, 0.3333333333333333)
    >>> with_people(1, [1, -1])[1] is None
    True
    """
    counts = sorted(((ratings.count(one), one) for one in set(ratings)), reverse=True)
    clear = len(counts) == 1 or counts[0][0] > counts[1][0]
    pairs = [float(a == b) for a, b in combinations(ratings, 2)]
    return (
        fmean(float(one == own) for one in ratings),
        float(counts[0][1] == own) if clear else None,
        fmean(pairs) if pairs else None,
    )


def read_ratings(path: Path, column: str) -> dict[Reply, list[float]]:
    """What raters say of each reply in `direction` (1, 0, -1) or `reasonable` (1, 0); empty cells are left out."""
    found: dict[Reply, dict[str, float]] = defaultdict(dict)
    for where, row in rows_of(path, ("model", "scenario", "turn", "rater"), _RATED):
        if (given := str(row.get(column) or "").strip().casefold()) == "":
            continue
        try:
            value = _WORDS[given]
            reply = (str(row["model"]), str(row["scenario"]), int(row.get("repeat") or 0), int(row["turn"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: {dict(row)}; expected {_RATED}, and reasonable (yes or no) if asked") from error
        if str(row["rater"]) in found[reply]:
            raise InputError(f"{where}: {row['rater']} rates turn {reply[3]} of {reply[1]} twice; expected once")
        found[reply][str(row["rater"])] = value
    return {reply: list(mine.values()) for reply, mine in found.items()}


def _directions(material: Material, path: Path) -> Result:
    own: dict[Reply, float] = {}
    for dialogue in material.dialogues:
        own |= {(*dialogue.key, turn.index): float(np.sign(change)) for turn, change in changes(material.spec, dialogue)}
    columns: dict[str, list[tuple[str, float]]] = {name: [] for name in PUBLISHED}
    directions, reasons = read_ratings(path, "direction"), read_ratings(path, "reasonable")
    rated, reasoned = ([reply for reply in one if reply in own] for one in (directions, reasons))
    if not rated:
        raise InputError(f"{path} rates no judged reply of these runs; expected models such as {material.models[0]!r}")
    for reply in rated:
        for name, value in zip(("consistency", "majority", "agreement"), with_people(own[reply], directions[reply]), strict=True):
            columns[name] += [] if value is None else [(reply[1], value)]
    for reply in reasoned:
        share, _, agreed = with_people(1.0, reasons[reply])
        columns["reasonable"].append((reply[1], share))
        columns["agreement on reasonable"] += [] if agreed is None else [(reply[1], agreed)]
    cells = {name: _percent(mine) for name, mine in columns.items() if mine}
    rows = tuple(Row(name.capitalize(), (cell, len(columns[name]), PUBLISHED[name])) for name, cell in cells.items())
    names = (Column("%"), Column("Replies"), Column("Published", 2))
    about = "Consistency: raters who expect the simulator's direction. Agreement: pairs of raters who say the same."
    table = Table("Raters and the user simulator", names, rows, about, "Measure")
    left_out = len(directions) - len(rated)
    notes = [f"{amount(len(rated), 'reply', 'replies')} rated; {left_out} unknown or unjudged, left out."]
    record = {name: cell and cell._asdict() for name, cell in cells.items()}
    expected = cells["consistency"]
    verdict = f"Raters expect the simulator's direction in {expected.words(1)} % of ratings." if expected else ""
    return Result({"replies": len(rated), **record}, notes, table._replace(rows=only_means(rows)), [table], verdict)


def read_comparisons(path: Path) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """By model and capability, its comparisons: the scenario, and 1 for a win."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for where, row in rows_of(path, ("scenario", "first", "second", "capability", "winner"), _COMPARED):
        winner = str(row["winner"]).strip()
        if winner not in ("first", "second", "tie"):
            raise InputError(f"{where}: winner {winner!r}; expected {_COMPARED}")
        for side in ("first", "second"):
            capability = str(row["capability"]).replace("_", " ").strip().casefold()
            found[str(row[side]).strip(), capability].append((str(row["scenario"]), float(winner == side)))
    return found


def _wins(material: Material, path: Path) -> Result:
    wins = read_comparisons(path)
    placed = CAPABILITIES.result(material, material.earlier.get("capabilities", {})).record.get("models", {})
    names = list(dict.fromkeys(name for _, name in wins))
    models = dict.fromkeys(model for model, _ in wins)
    rows = tuple(Row(model, tuple(_percent(wins.get((model, name), [])) for name in names)) for model in models)
    rates = {
        (row.head, name): cell.mean
        for row in rows
        for name, cell in zip(names, row.cells, strict=True)
        if isinstance(cell, Estimate)
    }
    levels = {(model, name): cell["mean"] for model, mine in placed.items() for name, cell in mine.items()}
    common = [key for key in rates if key in levels]
    correlation: dict[str, Any] = {"n": len(common), "rho": None, "p": None}
    try:
        sides = [{str(key): one[key] for key in common} for one in (rates, levels)]
        correlation |= {"rho": spearman(*sides), "p": rank_p(*(list(side.values()) for side in sides))}
        verdict = f"Win rates and judges' levels agree with Spearman's rho {correlation['rho']:.2f}, p {correlation['p']:.2g}."
    except UseError:
        verdict = "Win rates and judges' levels are not compared: too few of both."
    notes = [f"{len(common)} pairs of model and capability have both. Published: rho {RHO} over 15, p 0.000005."]
    if not placed:
        notes.append("No levels: pass --suite capabilities and a judge, too.")
    table = Table(
        "Win rates", tuple(Column(name.capitalize()) for name in names), rows, "Percent of comparisons; a tie is no win."
    )
    record = {"win_rates": {row.head: recorded(row, names) for row in rows}, "correlation": correlation}
    return Result(record, notes, table._replace(rows=only_means(rows)), [table], verdict)


def _percent(shares: Sequence[tuple[str, float]]) -> Estimate | None:
    """The mean of shares, each with its scenario."""
    return estimate([100 * share for _, share in shares], [scenario for scenario, _ in shares], within=(0.0, 100.0))


def _lacks(material: Material) -> str | None:
    if material.labels is None or not any(has_column(material.labels, name) for name in ("direction", "winner")):
        return "it compares with raters; pass --labels FILE with the column direction, or winner"
    return None


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    assert material.labels is not None
    return (_directions if has_column(material.labels, "direction") else _wins)(material, material.labels)


RATERS = run_suite("raters", _result, lacks=_lacks)
