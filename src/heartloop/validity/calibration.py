"""Suite `calibration`: human labels of some dialogues correct the scores of all (`scoring.calibration`).

The page lists which dialogues to label next, a systematic sample along the score of each model: every unlabelled dialogue has
the same chance, since the estimate is valid for a random sample only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heartloop.core.blocks import Block, Chart, Column, Point, Row, Series, Table
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import chance
from heartloop.environments.suites import Answers, Material, Result
from heartloop.scoring.calibration import calibrated_mean, labels_to_halve
from heartloop.scoring.statistics import estimate, pearson_if_known
from heartloop.validity.suites import has_column, how_to_read, rows_of, run_suite, verdict_of

_Floats = npt.NDArray[np.float64]
_BINS = 5
_TO_LABEL = 10


def read_labels(path: Path) -> dict[tuple[str, str, int], float]:
    """Labels by dialogue, of a CSV file with a heading, or of JSON lines: `model`, `scenario`, `label`, and `repeat` if not 0.

    Rows of one dialogue are of several annotators and are averaged. A row without a label is skipped.
    """
    expected = "CSV with a heading, or JSON lines, with model, scenario, label and, for repeats, repeat"
    values: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for where, row in rows_of(path, ("model", "scenario"), expected):
        if "label" not in row:
            raise InputError(f"{where}: {dict(row)}; expected {expected}")
        if row["label"] in (None, ""):
            continue
        try:
            value, repeat = float(row["label"]), int(row.get("repeat") or 0)
        except (TypeError, ValueError):
            value, repeat = math.nan, 0
        if not math.isfinite(value):
            raise InputError(
                f"{where}: label {row['label']!r}, repeat {row.get('repeat')!r}; expected a number and a whole number"
            )
        values[str(row["model"]), str(row["scenario"]), repeat].append(value)
    return {key: sum(each) / len(each) for key, each in values.items()}


def to_label(dialogues: Sequence[Transcript], number: int = _TO_LABEL) -> list[Transcript]:
    """A systematic sample: sorted by model and score, every k-th from a place drawn at random but the same in every process."""
    ordered = sorted(dialogues, key=lambda one: (one.model, one.score or 0.0, one.key))
    if number >= len(ordered):
        return ordered
    step = len(ordered) / number
    start = chance("label", len(ordered), *ordered[0].key) * step
    return [ordered[math.floor(start + place * step)] for place in range(number)]


def _lacks(material: Material) -> str | None:
    if material.labels is None:
        return "it compares with people; pass --labels FILE"
    if len(material.users) > 1:  # a label names no user, and scores of two users are two measurements
        users = f"{len(material.users)} ({', '.join(material.users)})"
        return f"labels correct the scores of one user, these runs have {users}; validate each alone"
    if any(has_column(material.labels, name) for name in ("direction", "winner")):
        return "its labels are for suite raters"
    return None


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    assert material.labels is not None
    labels = read_labels(material.labels)
    labelled = [one for one in material.dialogues if one.key in labels]
    if not labelled:
        raise InputError(
            f"{material.labels} has no label of a dialogue of these runs; expected models such as {material.models[0]!r} and "
            f"scenarios such as {material.dialogues[0].scenario!r}"
        )
    others = [one for one in material.dialogues if one.key not in labels]
    scores, values = np.array([(material.points(one), labels[one.key]) for one in labelled]).T
    notes = [f"{amount(len(labelled), 'dialogue')} of {len(material.dialogues)} have a label."]
    r = pearson_if_known(scores.tolist(), values.tolist())
    verdict = verdict_of(r, "the score agrees with the labels")
    if unknown := len(labels) - len(labelled):
        notes.append(f"{amount(unknown, 'label')} of dialogues that these runs do not hold, or that are unscored, left out.")
    rows: list[Row] = []
    record: dict[str, Any] = {"labelled": len(labelled), "dialogues": len(material.dialogues), "models": {}}
    for number, model in enumerate(material.models):
        mine = [one for one in labelled if one.model == model]
        rest = [one for one in others if one.model == model]
        scenarios = [one.scenario for one in mine]
        if len(set(scenarios)) < 2:
            notes.append(f"{model} has labels of {amount(len(set(scenarios)), 'scenario')}; expected at least two.")
            continue
        numbers = [labels[one.key] for one in mine], *([material.points(one) for one in side] for side in (mine, rest))
        result = calibrated_mean(*numbers, clusters=scenarios, other_clusters=[one.scenario for one in rest])
        more = labels_to_halve(*numbers)
        cells = (result.powered.of(result.items), result.labels_only.of(result.labelled), result.labelled, more)
        rows.append(Row(model, cells, number))
        intervals = {"powered": result.powered._asdict(), "labels_only": result.labels_only._asdict()}
        record["models"][model] = {**result._asdict(), **intervals, "labels_to_halve": more}
    columns = (Column("Mean label, all dialogues", 2), Column("Labels alone", 2), Column("Labels"), Column("Labels to halve it"))
    about = "Labels to halve it: how many in all would halve the interval; empty where all would not do."
    table = Table("Estimated human labels", columns, tuple(rows), help=about)
    short = tuple(row._replace(cells=(row.cells[0], *row.cells[2:])) for row in rows)
    chosen = to_label(others)
    record["label_next"] = [list(one.key) for one in chosen]
    asked = Table(
        "Label these next", (Column("Scenario"), Column("Repeat"), Column("Score")),
        tuple(
            Row(one.model, (one.scenario, one.repeat, material.points(one)), material.models.index(one.model)) for one in chosen
        ),
        help="Every unlabelled dialogue has the same chance to be listed, so that the labels stay a random sample.",
    )  # fmt: skip
    plot, furthest = _plot(labelled, scores, values), _furthest(labelled, scores, values, material.models)
    page: list[Block] = [table, plot, asked, furthest, how_to_read("calibration")]
    return Result(record, notes, table._replace(columns=(columns[0], *columns[2:]), rows=short), page, verdict)


def _plot(labelled: Sequence[Transcript], scores: _Floats, values: _Floats) -> Chart:
    """The mean label in groups of dialogues with similar scores."""
    points: list[Point] = []
    for places in np.array_split(np.argsort(scores, kind="stable"), min(_BINS, len(labelled))):
        mean = estimate(values[places].tolist(), [labelled[place].scenario for place in places])
        if mean is not None:
            points.append(Point(float(scores[places].mean()), mean.mean, mean.low, mean.high))
    about = "Labelled dialogues in groups of similar scores. A score that measures what people felt rises from left to right."
    series = (Series("labelled dialogues", tuple(points)),)
    return Chart("Labels by score", "points", series, "score", "mean label", float(values.min()), float(values.max()), help=about)


def _furthest(labelled: Sequence[Transcript], scores: _Floats, values: _Floats, models: Sequence[str]) -> Table:
    """Labelled dialogues whose label is furthest from what their score predicts, by a straight line through all."""
    slope = float(np.cov(scores, values)[0, 1] / np.var(scores, ddof=1)) if len(labelled) > 1 and np.ptp(scores) else 0.0
    expected = values.mean() + slope * (scores - scores.mean())
    order = np.argsort(-np.abs(values - expected), kind="stable")[:_TO_LABEL]
    rows = []
    for place in order:
        one, numbers = labelled[place], (float(side[place]) for side in (scores, values, expected))
        rows.append(Row(one.model, (one.scenario, *numbers), models.index(one.model)))
    columns = (Column("Scenario"), Column("Score"), Column("Label", 2), Column("Expected by the score", 2))
    return Table("Read these first", columns, tuple(rows), help="Labelled dialogues on which people and score differ most.")


CALIBRATION = run_suite("calibration", _result, lacks=_lacks)
