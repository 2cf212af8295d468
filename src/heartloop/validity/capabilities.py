"""Suite `capabilities`: how far do models master five capabilities of support, and do judges agree on it?

RLVER, Appendix B, Table 5 and Figures 2 and 3.
A judge reads one dialogue and places empathic depth, core insight, solution crafting, dialogue guidance and style adaptability on
levels from 1 to 5. A model's value is the mean over judges and dialogues. Agreement of judges is the mean over pairs of judges of
Pearson's r over models; published for five judges and seven models: 0.981, 0.943, 0.671, 0.778, 0.822. Checkpoints of one
training are drawn over its steps. Departures: one question covers all five; the rubric is in our own words; a dialogue counts
only if every judge placed it, so that no model is compared by a stricter set of judges than another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.blocks import Block, Chart, Column, Estimate, Point, Row, Series, Table
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result, RunSuite
from heartloop.scoring.agreement import mean_pairwise_pearson
from heartloop.scoring.statistics import estimate
from heartloop.validity.suites import dialogue_key, items_of, needs_judge, only_means, question, recorded, spoken

_LEVELS = 5
_STEP = re.compile(r"(?P<before>.*?(?:global_step|checkpoint|step)[-_])(?P<step>\d+)(?P<after>.*)")

PUBLISHED: Mapping[str, float] = {
    "empathic depth": 0.981,
    "core insight": 0.943,
    "solution crafting": 0.671,
    "dialogue guidance": 0.778,
    "style adaptability": 0.822,
}
"""Mean pairwise Pearson's r of five judges over seven models (RLVER, Table 5)."""


class Capability(NamedTuple):
    """A capability and its rubric."""

    name: str
    asks: str
    levels: tuple[str, ...]
    """From 1 to 5."""

    @property
    def field(self) -> str:
        """Its name in a judge's answer."""
        return self.name.replace(" ", "_")


@cache
def load_capabilities() -> tuple[Capability, ...]:
    """The shipped rubric, `items/capabilities.toml`."""
    return tuple(Capability(one["name"], one["asks"], tuple(one["levels"])) for one in items_of("capabilities")["capability"])


def judge_agreement(values: Mapping[str, Mapping[str, float]]) -> float | None:
    """Mean over pairs of judges of Pearson's r over models; `None` below two judges or three models, or where a judge's values
    are all the same.

    Args:
        values: by judge and model; all judges have the same models.
    """
    models = list(next(iter(values.values()), {}))
    if len(values) < 2 or len(models) < 3:
        return None
    try:
        return mean_pairwise_pearson([[mine[model] for model in models] for mine in values.values()])
    except UseError:
        return None


def checkpoints(models: Sequence[str]) -> dict[str, dict[int, str]]:
    """Trainings of which there are at least two checkpoints: models by step, by what else their names have in common.

    >>> checkpoints(["checkpoint:a/global_step_20/hf", "checkpoint:a/global_step_5/hf", "openai/gpt-4.1"])
    {'checkpoint:a/global_step_*/hf': {5: 'checkpoint:a/global_step_5/hf', 20: 'checkpoint:a/global_step_20/hf'}}
    """
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for model in models:
        if match := _STEP.fullmatch(model):
            found[f"{match['before']}*{match['after']}"][int(match["step"])] = model
    return {name: dict(sorted(steps.items())) for name, steps in found.items() if len(steps) > 1}


class _Placed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    why: Annotated[str, Field(max_length=400)]
    level: Annotated[int, Field(ge=1, le=_LEVELS)]


@cache
def _form() -> type[BaseModel]:
    fields: dict[str, Any] = {one.field: (_Placed, ...) for one in load_capabilities()}
    return create_model("Capabilities", __config__=ConfigDict(extra="forbid"), **fields)


def _questions(material: Material, answers: Answers) -> list[Question]:
    parts = load_capabilities()
    rubric = "\n\n".join(
        "\n".join([f"{one.name.upper()}. {one.asks}", *(f"{level}: {text}" for level, text in enumerate(one.levels, start=1))])
        for one in parts
    )
    each = ", ".join(f'"{one.field}": {{"why": "what in the talk shows it, in one sentence", "level": 1 to 5}}' for one in parts)
    prompt = load_prompt("heartloop.validity", "capabilities")
    return [
        question(
            dialogue_key(dialogue),
            [Message(role="user", content=prompt.fill(text=spoken(dialogue), rubric=rubric, form=f"{{{each}}}"))],
            _form(),
        )
        for dialogue in material.dialogues
    ]


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    names = [one.name for one in load_capabilities()]
    judging = {judge: given for judge, given in answers.items() if given}
    notes = [f"{judge} answered no question." for judge in answers if judge not in judging]
    whole = [one for one in material.dialogues if judging and all(dialogue_key(one) in given for given in judging.values())]
    if not whole:
        notes.append("No dialogue was placed by every judge, so there is no result.")
        return Result({}, tuple(notes), Table("Nothing answered", (), ()), ())
    levels_d_j_c = np.array([[_levels(given[dialogue_key(one)]) for given in judging.values()] for one in whole], dtype=float)
    models = [model for model in material.models if any(one.model == model for one in whole)]
    rows = [_row(model, whole, levels_d_j_c.mean(axis=1), material.models.index(model)) for model in models]
    by_judge = {
        judge: [[float(value) for value in _of(model, whole, levels_d_j_c[:, place]).mean(axis=0)] for model in models]
        for place, judge in enumerate(judging)
    }
    agreement = {
        name: judge_agreement({j: dict(zip(models, (row[n] for row in rows_m), strict=True)) for j, rows_m in by_judge.items()})
        for n, name in enumerate(names)
    }
    notes.insert(0, _said(whole, material.dialogues, list(judging), models, agreement))
    page = _page(models, rows, names, by_judge, agreement)
    record = {
        "dialogues": len(whole),
        "left_out": len(material.dialogues) - len(whole),
        "judges": {
            judge: {model: dict(zip(names, values, strict=True)) for model, values in zip(models, rows_m, strict=True)}
            for judge, rows_m in by_judge.items()
        },
        "models": {row.head: recorded(row, names) for row in rows},
        "pearson_of_judges": agreement,
    }
    columns = tuple(Column(name.split()[0].capitalize(), digits=2) for name in names)
    short = Table("Capabilities, 1 to 5", columns, only_means(rows))
    return Result(record, tuple(notes), short, tuple(page))


def _levels(answer: Mapping[str, Any]) -> list[int]:
    return [answer[one.field]["level"] for one in load_capabilities()]


def _of(model: str, dialogues: Sequence[Transcript], values_d_c: Any) -> Any:
    """The rows of one model."""
    return values_d_c[[place for place, one in enumerate(dialogues) if one.model == model]]


def _row(model: str, dialogues: Sequence[Transcript], values_d_c: Any, place: int) -> Row:
    scenarios = [one.scenario for one in dialogues if one.model == model]
    mine_d_c = _of(model, dialogues, values_d_c)
    return Row(model, tuple(estimate(list(column), scenarios, within=(1.0, _LEVELS)) for column in mine_d_c.T), place)


def _said(
    whole: Sequence[Transcript],
    every: Sequence[Transcript],
    judges: Sequence[str],
    models: Sequence[str],
    agreement: Mapping[str, float | None],
) -> str:
    words = f"{amount(len(whole), 'dialogue')} of {amount(len(models), 'model')}, placed by {' and '.join(judges)}."
    if len(whole) < len(every):
        words += f" {len(every) - len(whole)} of {len(every)} dialogues are left out: a judge gave no usable answer."
    known = [r for r in agreement.values() if r is not None]
    if known:
        words += f" Over {amount(len(models), 'model')} the judges agree with a mean Pearson's r of {min(known):.2f} to "
        return words + f"{max(known):.2f} per capability (published: 0.67 to 0.98)."
    return words + " Agreement of judges needs two judges and three models, and values that differ between models."


def _page(
    models: Sequence[str],
    rows: Sequence[Row],
    names: Sequence[str],
    by_judge: Mapping[str, Sequence[Sequence[float]]],
    agreement: Mapping[str, float | None],
) -> list[Block]:
    columns = tuple(Column(name.capitalize(), digits=2) for name in names)
    page: list[Block] = [Table("Capabilities", columns, tuple(rows), help="1 to 5, mean over judges and dialogues.")]
    bars = tuple(Series(row.head, _points(names, row), row.model) for row in rows)
    page.append(Chart("Capabilities by model", "bars", bars, "capability", "level", 0.0, float(_LEVELS)))
    means = {row.head: row.cells for row in rows}
    for training, steps in checkpoints(models).items():
        lines = tuple(
            Series(name.capitalize(), tuple(_point(step, means[model][n]) for step, model in steps.items()))
            for n, name in enumerate(names)
        )
        page.append(Chart(f"Over training, {training}", "lines", lines, "step", "level", 1.0, float(_LEVELS)))
    if len(by_judge) > 1:
        placed = []
        for judge, values_m in by_judge.items():
            placed.append(Row(judge, ()))
            placed += [Row(model, tuple(values), row.model) for model, values, row in zip(models, values_m, rows, strict=True)]
        page.append(Table("Each judge", columns, tuple(placed), corner="Judge and model"))
        page.append(
            Table(
                "Agreement of the judges",
                (Column("Pearson's r", digits=3), Column("Published", digits=3)),
                tuple(Row(name.capitalize(), (agreement[name], PUBLISHED[name])) for name in names),
                help="Mean over pairs of judges of the correlation over models; published for five judges and seven models.",
                corner="Capability",
            )
        )
    return page


def _points(names: Sequence[str], row: Row) -> tuple[Point, ...]:
    return tuple(_point(name.capitalize(), cell) for name, cell in zip(names, row.cells, strict=True))


def _point(x: float | str, cell: object) -> Point:
    if not isinstance(cell, Estimate):
        raise TypeError(f"{cell!r} is no estimate")
    return Point(x, cell.mean, cell.low, cell.high)


CAPABILITIES = RunSuite(
    "What are the models able to do?",
    "Each judge reads a dialogue and places five capabilities on levels from 1 to 5: empathic depth, core insight, solution "
    "crafting, dialogue guidance and style adaptability. Several judges show how far such a judgement depends on who judges.",
    "Reinforcement Learning with Verifiable Emotion Rewards, Appendix B, Table 5 and Figure 2",
    _result,
    lacks=needs_judge,
    questions=_questions,
)
