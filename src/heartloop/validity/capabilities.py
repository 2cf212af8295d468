"""Suite `capabilities`: five capabilities of support, and whether judges agree on them (RLVER, Appendix B, Table 5, Figures 2
and 3).

A judge places five capabilities on levels from 1 to 5. Agreement is the mean over pairs of judges of Pearson's r over models;
published: 0.981, 0.943, 0.671, 0.778, 0.822. With `--published` a judge reads each dialogue three times (Appendices H.2 and I.2).
Departures: one question covers all five; our own rubric; a dialogue counts only if every judge placed it in every reading; a
judge may say that a capability was not wanted, then the dialogue does not count for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from heartloop.core.blocks import Block, Chart, Column, Estimate, Row, Series, Table
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.scoring.agreement import mean_pairwise_pearson
from heartloop.scoring.statistics import estimate
from heartloop.validity.suites import (
    dialogue_key,
    items_of,
    needs_judge,
    only_means,
    points_of,
    reading_keys,
    recorded,
    rubric_questions,
    run_suite,
)

_LEVELS = 5
READINGS = 3
"""Readings of a dialogue by each judge with `--published` (RLVER, Tables 9 and 11)."""
_STEP = re.compile(r"(?P<before>.*?(?:global_step|checkpoint|step)[-_])(?P<step>\d+)(?P<after>.*)")


class Capability(NamedTuple):
    name: str
    asks: str
    levels: Sequence[str]
    published: float
    """Mean pairwise Pearson's r of five judges over seven models (RLVER, Table 5)."""


@cache
def load_capabilities() -> tuple[Capability, ...]:
    return tuple(Capability(**one) for one in items_of("capabilities")["capability"])


def judge_agreement(values: Mapping[str, Mapping[str, float]]) -> float | None:
    """Mean over pairs of judges of Pearson's r over models, the same for all judges.

    `None` below two judges or three models, or if a judge's values are all the same.
    """
    models = list(next(iter(values.values()), {}))
    if len(values) < 2 or len(models) < 3:
        return None
    try:
        return mean_pairwise_pearson([[mine[model] for model in models] for mine in values.values()])
    except UseError:
        return None


def checkpoints(models: Sequence[str]) -> dict[str, dict[int, str]]:
    """Trainings with at least two checkpoints: models by step, by what else their names have in common.

    >>> checkpoints(["checkpoint:a/global_step_20/hf", "checkpoint:a/global_step_5/hf", "openai/gpt-6-luna"])
    {'checkpoint:a/global_step_*/hf': {5: 'checkpoint:a/global_step_5/hf', 20: 'checkpoint:a/global_step_20/hf'}}
    """
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for model in models:
        if match := _STEP.fullmatch(model):
            found[f"{match['before']}*{match['after']}"][int(match["step"])] = model
    return {name: dict(sorted(steps.items())) for name, steps in found.items() if len(steps) > 1}


class _Placed(BaseModel, extra="forbid"):
    why: Annotated[str, Field(max_length=400)]
    level: Annotated[int, Field(ge=0, le=_LEVELS)]
    """0: not wanted in this talk."""


def _questions(material: Material, answers: Answers) -> list[Question]:
    parts = {
        one.name: (one.asks, *(f"{level}: {text}" for level, text in enumerate(one.levels, start=1)))
        for one in load_capabilities()
    }
    each = '{"why": "what in the talk shows it, in one sentence", "level": 1 to 5, or 0}'
    return rubric_questions("capabilities", material, parts, each, _Placed, readings=_readings(material))


def _readings(material: Material) -> int:
    return READINGS if material.published else 1


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    names = [one.name for one in load_capabilities()]
    fields = [name.replace(" ", "_") for name in names]
    judging = {judge: given for judge, given in answers.items() if given}
    notes = [f"{judge} answered no question." for judge in answers if judge not in judging]
    keys = {dialogue_key(one): reading_keys(one, _readings(material)) for one in material.dialogues}
    whole = [
        one
        for one in material.dialogues
        if judging and all(given.keys() >= set(keys[dialogue_key(one)]) for given in judging.values())
    ]
    if not whole:
        notes.append("No dialogue was placed by every judge, so there is no result.")
        return Result({}, notes, Table("Nothing answered", (), ()), ())
    levels_j_d_r_c = np.array(
        [
            [[[given[key][field]["level"] for field in fields] for key in keys[dialogue_key(one)]] for one in whole]
            for given in judging.values()
        ],
        dtype=float,
    )
    wanted_d_c = levels_j_d_r_c.min(axis=(0, 2)) > 0
    levels_j_d_c = levels_j_d_r_c.mean(axis=2)
    mean_d_c = levels_j_d_c.mean(axis=0)
    rows: list[Row] = []
    by_judge: dict[str, dict[str, list[float | None]]] = {judge: {} for judge in judging}
    for number, model in enumerate(material.models):
        of_each = [[d for d, one in enumerate(whole) if one.model == model and wanted_d_c[d, c]] for c in range(len(names))]
        if not any(of_each):
            continue
        cells = (
            estimate(mean_d_c[mine, c].tolist(), [whole[d].scenario for d in mine], within=(1.0, _LEVELS))
            for c, mine in enumerate(of_each)
        )
        rows.append(Row(model, tuple(cells), number))
        for judge, levels_d_c in zip(judging, levels_j_d_c, strict=True):
            by_judge[judge][model] = [float(levels_d_c[mine, c].mean()) if mine else None for c, mine in enumerate(of_each)]
    agreement = {
        name: judge_agreement(
            {judge: {m: x for m, each in values.items() if (x := each[n]) is not None} for judge, values in by_judge.items()}
        )
        for n, name in enumerate(names)
    }
    not_wanted = {name: int(count) for name, count in zip(names, (~wanted_d_c).sum(axis=0), strict=True) if count}
    words = f"{amount(len(whole), 'dialogue')} of {amount(len(rows), 'model')}, placed by {' and '.join(judging)}."
    if left_out := len(material.dialogues) - len(whole):
        words += f" {left_out} of {len(material.dialogues)} dialogues are left out: a judge gave no usable answer."
    if not_wanted:
        listed = ", ".join(f"{name} {count}" for name, count in not_wanted.items())
        words += f" Dialogues in which a judge found that it was not wanted, left out of it: {listed}."
    known = [r for r in agreement.values() if r is not None]
    if known:
        words += (
            f" Over {amount(len(rows), 'model')} the judges agree with a mean Pearson's r of {min(known):.2f} to "
            f"{max(known):.2f} per capability (published: 0.67 to 0.98)."
        )
    else:
        words += " Agreement of judges needs two judges and three models, and values that differ between models."
    record = {
        "dialogues": len(whole),
        "left_out": left_out,
        "not_wanted": not_wanted,
        "judges": {
            judge: {model: dict(zip(names, each, strict=True)) for model, each in values.items()}
            for judge, values in by_judge.items()
        },
        "models": {row.head: recorded(row, names) for row in rows},
        "pearson_of_judges": agreement,
    }
    short = tuple(Column(name.split()[0].capitalize(), digits=2) for name in names)
    legend = "; ".join(f"{column.name}: {name}" for column, name in zip(short, names, strict=True)) + "."
    ranked = {row.head: fmean(cell.mean for cell in row.cells if isinstance(cell, Estimate)) for row in rows}
    best = max(ranked, key=ranked.__getitem__, default="")
    verdict = f"{best} has the highest mean level over the capabilities, {ranked[best]:.2f} of {_LEVELS:g}." if best else ""
    page = _page(rows, by_judge, agreement)
    return Result(record, [words, *notes], Table("Capabilities, 1 to 5", short, only_means(rows), help=legend), page, verdict)


def _page(
    rows: Sequence[Row], by_judge: Mapping[str, Mapping[str, Sequence[float | None]]], agreement: Mapping[str, float | None]
) -> list[Block]:
    names = [name.capitalize() for name in agreement]
    columns = tuple(Column(name, digits=2) for name in names)
    bars = tuple(Series(row.head, points_of(names, row.cells), row.model) for row in rows)
    page: list[Block] = [
        Table("Capabilities", columns, tuple(rows), help="1 to 5, mean over judges and dialogues."),
        Chart("Capabilities by model", "bars", bars, "capability", "level", 0.0, float(_LEVELS)),
        Chart("Capabilities as a radar", "radar", bars, "capability", "level", 1.0, float(_LEVELS)),
    ]
    cells = {row.head: row.cells for row in rows}
    for training, steps in checkpoints(list(cells)).items():
        lines = tuple(
            Series(name, points_of(steps, (cells[model][n] for model in steps.values()))) for n, name in enumerate(names)
        )
        page.append(Chart(f"Over training, {training}", "lines", lines, "step", "level", 1.0, float(_LEVELS)))
    if len(by_judge) > 1:
        placed: list[Row] = []
        for judge, values in by_judge.items():
            placed += [Row(judge, ()), *(Row(row.head, tuple(values[row.head]), row.model) for row in rows)]
        of_each = zip(names, agreement.values(), load_capabilities(), strict=True)
        agreed = tuple(Row(name, (r, one.published)) for name, r, one in of_each)
        both = (Column("Pearson's r", digits=3), Column("Published", digits=3))
        about = "Mean over pairs of judges of the correlation over models; published for five judges and seven models."
        page += [
            Table("Each judge", columns, tuple(placed), corner="Judge and model"),
            Table("Agreement of the judges", both, agreed, help=about, corner="Capability"),
        ]
    return page


CAPABILITIES = run_suite("capabilities", _result, lacks=needs_judge, questions=_questions)
