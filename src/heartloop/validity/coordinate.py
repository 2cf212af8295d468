"""Suite `coordinate`: the social-cognition coordinate, structured to creative and solution to empathy (SAGE, Appendix G).

A judge is asked why the 10 best and the 10 worst dialogues of a model went so, then for one profile of the model from these
reasons, then three times to place it on x from structured (-1) to creative (+1) and y from solution (-1) to empathy (+1).
Departures: best and worst replace successes and failures; each model is placed alone; shares of strategies are not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, Field

from heartloop.core.blocks import Block, Chart, Column, Point, Row, Series, Table, Text
from heartloop.core.dialogue import Transcript
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.evaluation.scores import group_of
from heartloop.validity.suites import dialogue_key, needs_judge, question, run_suite, spoken, titled

EACH = 10
REPEATS = 3
ENOUGH = 0.75
"""Share of a model's reasons that must be answered before a profile is made of them."""


class _Reason(BaseModel, extra="forbid"):
    reason: Annotated[str, Field(min_length=1, max_length=1_000)]


class _Profile(BaseModel, extra="forbid"):
    role: Annotated[str, Field(max_length=120)]
    personality: Annotated[str, Field(max_length=400)]
    distance: Annotated[str, Field(max_length=400)]
    summary: Annotated[str, Field(min_length=1, max_length=1_500)]


class _Place(BaseModel, extra="forbid"):
    why: Annotated[str, Field(max_length=400)]
    x: Annotated[float, Field(ge=-1, le=1)]
    y: Annotated[float, Field(ge=-1, le=1)]


def best_and_worst(dialogues: Sequence[Transcript], each: int = EACH) -> tuple[list[Transcript], list[Transcript]]:
    """The best and the worst dialogues of one model, in turn from each group; no dialogue is both.

    A group gives at most half of its dialogues to either side; if no group has two, groups do not count.
    """
    ordered = sorted(dialogues, key=lambda one: (-(one.score or 0.0), one.key))
    groups: dict[str, list[Transcript]] = defaultdict(list)
    for one in ordered:
        groups[group_of(one)].append(one)
    if not any(len(mine) > 1 for mine in groups.values()):
        groups = {"": ordered}
    halves = [(mine[: len(mine) // 2], mine[::-1][: len(mine) // 2]) for _, mine in sorted(groups.items())]

    def in_turn(sides: Sequence[Sequence[Transcript]]) -> list[Transcript]:
        return [one for row in zip_longest(*sides) for one in row if one is not None][:each]

    return in_turn([best for best, _ in halves]), in_turn([worst for _, worst in halves])


def _questions(material: Material, answers: Answers) -> list[Question]:
    reason, profile, place = (load_prompt("heartloop.validity", f"coordinate-{name}") for name in ("reason", "profile", "place"))
    asked: list[Question] = []
    for model in material.models:
        notes: list[str] = []
        sides = best_and_worst([one for one in material.dialogues if one.model == model])
        for outcome, one in [(word, one) for word, side in zip(("better", "worse"), sides, strict=True) for one in side]:
            asked.append(question(key := f"reason|{dialogue_key(one)}", reason.fill(outcome=outcome, text=spoken(one)), _Reason))
            if key in answers:
                notes.append(f"- Went {outcome}: {answers[key]['reason']}")
        if not notes or len(notes) < ENOUGH * sum(map(len, sides)):
            continue
        asked.append(question(key := f"profile|{model}", profile.fill(reasons="\n".join(notes)), _Profile))
        if key in answers:
            placing = place.fill(profile="\n".join(_paragraphs(answers[key])))
            asked += [question(f"place|{model}|{repeat}", placing, _Place, repeat=repeat) for repeat in range(REPEATS)]
    return asked


def _paragraphs(profile: Mapping[str, Any]) -> list[str]:
    return [*(f"{name.capitalize()}: {profile[name]}" for name in ("role", "personality", "distance")), profile["summary"]]


def _lacks(material: Material) -> str | None:
    if len(material.dialogues) == len(material.models):
        return "it compares the best and the worst dialogues of a model, and no model has two"
    return needs_judge(material)


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    record: dict[str, Any] = {}
    notes: list[str] = []
    page: list[Block] = []
    summary: Table | None = None
    verdicts: list[str] = []
    for judge, given in answers.items():
        placed: dict[str, dict[str, Any]] = {}
        for model in material.models:
            places = [given[key] for repeat in range(REPEATS) if (key := f"place|{model}|{repeat}") in given]
            if places:
                xs, ys = ([one[axis] for one in places] for axis in ("x", "y"))
                spread = float(max(max(xs) - min(xs), max(ys) - min(ys)))
                placed[model] = {"x": fmean(xs), "y": fmean(ys), "n": len(places), "spread": spread}
        missing = [model for model in material.models if model not in placed]
        reasons = sum(key.startswith("reason|") for key in given)
        notes.append(f"{judge} placed {amount(len(placed), 'model')} from the reasons of {amount(reasons, 'dialogue')}.")
        if missing:
            notes.append(f"{judge} did not place {' and '.join(missing)}: too few of its answers could be read.")
        if not placed:
            continue
        profiles = {model: given[f"profile|{model}"] for model in placed}
        record[judge] = {model: {**one, "profile": profiles[model]} for model, one in placed.items()}
        title = titled("Social-cognition coordinate", judge, answers)
        numbers = {model: number for number, model in enumerate(material.models)}
        series = tuple(Series(model, (Point(one["x"], one["y"]),), numbers[model]) for model, one in placed.items())
        rows = tuple(Row(m, (one["x"], one["y"], one["spread"], one["n"]), numbers[m]) for m, one in placed.items())
        chart = Chart(
            title, "points", series, "structured (-1) to creative (+1)", "solution (-1) to empathy (+1)", -1.0, 1.0,
            help="Left: structured, right: creative. Below: solution, above: empathy.", x_low=-1.0, x_high=1.0,
        )  # fmt: skip
        columns = (Column("x", digits=2), Column("y", digits=2), Column("Spread", digits=2), Column("n"))
        table = Table(f"{title}: values", columns, rows, help="Mean of n answers; spread is their largest range on either axis.")
        summary = summary or table
        kinds = (
            f"{m} {'creative' if one['x'] > 0 else 'structured'} and towards {'empathy' if one['y'] > 0 else 'solutions'}"
            for m, one in placed.items()
        )
        verdicts.append(f"{judge} places {', '.join(kinds)}.")
        texts = [Text(titled(f"Profile of {m}", judge, answers), tuple(_paragraphs(one))) for m, one in profiles.items()]
        page += [chart, table, *texts]
    return Result(record, notes, summary or Table("Nothing placed", (), ()), page, " ".join(verdicts))


COORDINATE = run_suite("coordinate", _result, lacks=_lacks, questions=_questions)
