"""Suites `blri` and `utterance`: does the score agree with how the user would describe the relation (SAGE, Appendix F)?

A judge fills in a questionnaire as the user, three times: from the thoughts alone (`blri`: 12 statements in four dimensions, 0
to 100), or from the dialogue alone (`utterance`: 15 statements in three dimensions, 1 to 5). Published over ten models: Pearson
0.818 and 0.788. Departures: agreement is a number from 1 to 6 in both (the paper's `blri` has labels A to F); our own
statements; `blri` reads none of the user simulator's thoughts that tells a number, and all others, or with `--published` only
activity and feeling, as Appendix F has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from statistics import fmean
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.blocks import Block, Chart, Column, Table
from heartloop.core.dialogue import Transcript
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result, RunSuite
from heartloop.scoring.statistics import pearson_if_known
from heartloop.validity.suites import (
    dialogue_key,
    items_of,
    model_points,
    model_rows,
    needs_judge,
    question,
    recorded,
    run_suite,
    spoken,
    thoughts_of,
    titled,
    verdict_of,
)

REPEATS = 3
_PUBLISHED = {"blri": 0.818, "utterance": 0.788}
_TITLES = {"blri": "Thoughts and score", "utterance": "Words and score"}
_LEVELS = 6
_FIELDS = ("activity", "feeling")
"""The thoughts that `blri` reads in the paper (Appendix F: Activity and Analyze), where the user simulator has them."""


class Questionnaire(NamedTuple):
    """Statements in dimensions, answered on six levels, and the scale of the result."""

    low: float
    high: float
    parts: Mapping[str, tuple[tuple[str, bool], ...]]
    """By dimension: each statement, and whether it is reversed."""

    @property
    def items(self) -> list[tuple[str, bool]]:
        return [item for items in self.parts.values() for item in items]


@cache
def load_questionnaire(name: str) -> Questionnaire:
    table = items_of(name)
    parts = {
        part["name"]: tuple((item["text"], bool(item.get("reversed", False))) for item in part["items"]) for part in table["part"]
    }
    return Questionnaire(float(table["low"]), float(table["high"]), parts)


def dimension_scores(questionnaire: Questionnaire, agreement: Sequence[int]) -> dict[str, float]:
    """The mean of each dimension's items on the questionnaire's scale, from agreement 1 (strongly disagree) to 6 with each item.

    >>> dimension_scores(Questionnaire(0, 100, {"regard": (("a", False), ("b", True))}), [6, 1])
    {'regard': 100.0}
    """
    scores: dict[str, float] = {}
    rest = iter(agreement)
    for name, items in questionnaire.parts.items():
        shares = [(level - 1) / (_LEVELS - 1) for _, level in zip(items, rest, strict=False)]
        turned = [1 - share if reverse else share for share, (_, reverse) in zip(shares, items, strict=True)]
        scores[name] = questionnaire.low + (questionnaire.high - questionnaire.low) * math.fsum(turned) / len(turned)
    return scores


class _Answer(BaseModel, extra="forbid"):
    why: Annotated[str, Field(max_length=400)]
    agreement: Annotated[int, Field(ge=1, le=_LEVELS)]


@cache
def _form(number: int) -> type[BaseModel]:
    answers = Annotated[list[_Answer], Field(min_length=number, max_length=number)]
    return create_model(f"Questionnaire{number}", __config__=ConfigDict(extra="forbid"), answers=(answers, ...))


def _text(name: str, material: Material, dialogue: Transcript) -> str:
    if name == "utterance":
        return spoken(dialogue)
    only = _FIELDS if material.published else ()
    thoughts = (thoughts_of(material.spec, turn, only=only) for turn in dialogue.turns)
    return "\n".join(f"After reply {number}: {text}" for number, text in enumerate(thoughts, start=1) if text)


def _keys(name: str, material: Material, dialogue: Transcript) -> list[str]:
    """The published form of `blri` reads another text, so its answers have keys of their own."""
    form = "|published" if name == "blri" and material.published else ""
    return [f"{dialogue_key(dialogue)}|{n}{form}" for n in range(REPEATS)]


def _questions(name: str, material: Material, answers: Answers) -> list[Question]:
    items = load_questionnaire(name).items
    listed = "\n".join(f"{number}. {text}" for number, (text, _) in enumerate(items, start=1))
    prompt = load_prompt("heartloop.validity", name)
    form = _form(len(items))
    asked: list[Question] = []
    for dialogue in material.dialogues:
        if text := _text(name, material, dialogue):
            content = prompt.fill(text=text, items=listed, number=str(len(items)))
            asked += [question(key, content, form, repeat=n) for n, key in enumerate(_keys(name, material, dialogue))]
    return asked


def _lacks(name: str, material: Material) -> str | None:
    if name == "blri" and not any(_text(name, material, dialogue) for dialogue in material.dialogues):
        return "the dialogues hold no thoughts of the user"
    return needs_judge(material)


def _rated(name: str, material: Material, answers: Answers) -> list[tuple[Transcript, list[float]]]:
    """Points, the mean over the dimensions, and each dimension of every dialogue, over the repeats that were answered."""
    questionnaire = load_questionnaire(name)
    rated: list[tuple[Transcript, list[float]]] = []
    for dialogue in material.dialogues:
        given = [answers[key] for key in _keys(name, material, dialogue) if key in answers]
        if given:
            each = [dimension_scores(questionnaire, [item["agreement"] for item in one["answers"]]) for one in given]
            dimensions = [fmean(one[part] for one in each) for part in questionnaire.parts]
            rated.append((dialogue, [material.points(dialogue), fmean(dimensions), *dimensions]))
    return rated


def _result(name: str, material: Material, answers: Mapping[str, Answers]) -> Result:
    questionnaire = load_questionnaire(name)
    columns = (Column("Score"), *(Column(part.capitalize(), digits=2) for part in ("mean", *questionnaire.parts)))
    record: dict[str, Any] = {}
    notes: list[str] = []
    page: list[Block] = []
    summary: Table | None = None
    verdicts: list[str] = []
    for judge, given in answers.items():
        rated = _rated(name, material, given)
        if not rated:
            notes.append(f"{judge} answered no question.")
            continue
        rows = model_rows(material, rated)
        pairs = [(points, total) for _, (points, total, *_) in rated]
        of_models = [[(points, total) for dialogue, (points, total, *_) in rated if dialogue.model == row.head] for row in rows]
        within = pearson_if_known(*zip(*pairs, strict=True))
        over = pearson_if_known(*zip(*([fmean(side) for side in zip(*mine, strict=True)] for mine in of_models), strict=True))
        verdicts.append(verdict_of(within, f"over dialogues the score agrees with the answers of {judge}"))
        correlations = [
            f"{r.words()} over {amount(number, what)}"
            for r, number, what in ((within, len(rated), "dialogue"), (over, len(rows), "model"))
            if r is not None
        ]
        notes.append(
            f"Pearson's r of the score and the mean of {judge}'s answers: {', '.join(correlations)}. Published for the score of "
            f"the source, over ten models: {_PUBLISHED[name]:.3f}."
            if correlations
            else f"{judge} rated {amount(len(rated), 'dialogue')}, too few or too alike to correlate with the score."
        )
        title = titled(_TITLES[name], judge, answers)
        low, high = questionnaire.low, questionnaire.high
        table = Table(title, columns, tuple(rows), help=f"Questionnaire from {low:g} to {high:g}.")
        summary = summary or table._replace(columns=columns[:2], rows=tuple(row._replace(cells=row.cells[:2]) for row in rows))
        axes = ("score", "mean of the questionnaire", low, high)
        page += [table, Chart(f"{title}: models", "points", model_points(rows), *axes)]
        record[judge] = {
            "dialogues": len(rated),
            "pearson_dialogues": within and within._asdict(),
            "pearson_models": over and over._asdict(),
            "models": {row.head: recorded(row, (column.name for column in columns)) for row in rows},
        }
    return Result(record, notes, summary or Table("Nothing answered", (), ()), page, " ".join(verdicts))


def _suite(name: str) -> RunSuite:
    return run_suite(name, partial(_result, name), lacks=partial(_lacks, name), questions=partial(_questions, name))


BLRI, UTTERANCE = _suite("blri"), _suite("utterance")
