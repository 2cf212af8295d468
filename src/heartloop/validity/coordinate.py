"""Suite `coordinate`: the social-cognition coordinate, structured to creative and solution to empathy (SAGE, Appendices C and G).

A judge is asked why 10 successes and 10 failures of a model went so, drawn at random and in turn from emotional and rational
intentions, then for one profile of the model from these reasons, then three times to place all models, from their profiles and
their shares of strategies, on x from structured (-1) to creative (+1) and y from solution (-1) to empathy (+1). Departures:
where a kind has too few successes or failures, its best or worst dialogues follow; the judge reads numbers in place of names;
strategies are labelled by the first judge of suite `strategies` in the same command, else by the embedded reader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.blocks import Block, Chart, Column, Point, Row, Series, Table, Text
from heartloop.core.dialogue import Transcript
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import chance
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.evaluation.scores import group_of
from heartloop.reader.aspects import STRATEGIES
from heartloop.validity.strategies import LABELS, labels_by_judge, labels_by_reader, shares
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


def successes_and_failures(material: Material, model: str, each: int = EACH) -> tuple[list[Transcript], list[Transcript]]:
    """Dialogues of a model that went well, and that did not, in turn from each kind of scenario; no dialogue is both.

    A kind gives at most half of its dialogues to either side; if no kind has two, kinds do not count.
    """
    scale, known = material.spec.scale, material.spec.report.group_kinds

    def order(one: Transcript) -> tuple[float, float]:
        return -min(scale.success_at, max(scale.failure_below, material.points(one))), chance("coordinate", *one.key)

    kinds: dict[str, list[Transcript]] = defaultdict(list)
    ordered = sorted((one for one in material.dialogues if one.model == model), key=order)
    for one in ordered:
        kinds[known.get(group_of(one), group_of(one))].append(one)
    if not any(len(mine) > 1 for mine in kinds.values()):
        kinds = {"": ordered}
    halves = [(mine[: len(mine) // 2], mine[::-1][: len(mine) // 2]) for _, mine in sorted(kinds.items())]

    def in_turn(sides: Sequence[Sequence[Transcript]]) -> list[Transcript]:
        return [one for row in zip_longest(*sides) for one in row if one is not None][:each]

    return in_turn([best for best, _ in halves]), in_turn([worst for _, worst in halves])


def _questions(material: Material, answers: Answers) -> list[Question]:
    reason, profile, place = (load_prompt("heartloop.validity", f"coordinate-{name}") for name in ("reason", "profile", "place"))
    asked: list[Question] = []
    for model in material.models:
        notes: list[str] = []
        sides = successes_and_failures(material, model)
        for outcome, one in [(word, one) for word, side in zip(("better", "worse"), sides, strict=True) for one in side]:
            asked.append(question(key := f"reason|{dialogue_key(one)}", reason.fill(outcome=outcome, text=spoken(one)), _Reason))
            if key in answers:
                notes.append(f"- Went {outcome}: {answers[key]['reason']}")
        if notes and len(notes) >= ENOUGH * sum(map(len, sides)):
            asked.append(question(f"profile|{model}", profile.fill(reasons="\n".join(notes)), _Profile))
    if models := _profiled(material, answers):
        used = _strategies(material, models)
        texts = [[f"ASSISTANT {n}", *_paragraphs(answers[f"profile|{m}"]), used[m]] for n, m in enumerate(models, start=1)]
        fields: dict[str, Any] = {f"assistant_{n}": (_Place, ...) for n in range(1, len(models) + 1)}
        form = create_model("Places", __config__=ConfigDict(extra="forbid"), **fields)
        placing = place.fill(assistants="\n\n".join(map("\n".join, texts)), number=str(len(models)))
        asked += [question(f"place|{len(models)}|{repeat}", placing, form, repeat=repeat) for repeat in range(REPEATS)]
    return asked


def _profiled(material: Material, answers: Answers) -> list[str]:
    return [model for model in material.models if f"profile|{model}" in answers]


def _strategies(material: Material, models: Sequence[str]) -> dict[str, str]:
    """The shares of strategies of each model, in words."""
    labelled = (labels_by_judge(material.dialogues, given) for given in material.earlier.get("strategies", {}).values())
    labels = next(filter(None, labelled), None) or labels_by_reader(material.dialogues)
    words = {}
    for model in models:
        used = shares([one for one in material.dialogues if one.model == model], labels)
        most = sorted(((cell.mean, name) for name, cell in used.items() if name in STRATEGIES and cell), reverse=True)
        listed = ", ".join(f"{LABELS[name].lower()} {share:.0f} %" for share, name in most if share >= 0.5)
        words[model] = f"Share of its replies that use a strategy: {listed or 'not known'}."
    return words


def _paragraphs(profile: Mapping[str, Any]) -> list[str]:
    return [*(f"{name.capitalize()}: {profile[name]}" for name in ("role", "personality", "distance")), profile["summary"]]


def _lacks(material: Material) -> str | None:
    if len(material.dialogues) == len(material.models):
        return "it compares successes and failures of a model, and no model has two dialogues"
    return needs_judge(material)


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    record: dict[str, Any] = {}
    notes: list[str] = []
    page: list[Block] = []
    summary: Table | None = None
    verdicts: list[str] = []
    for judge, given in answers.items():
        placed: dict[str, dict[str, Any]] = {}
        models = _profiled(material, given)
        answered = [given[key] for repeat in range(REPEATS) if (key := f"place|{len(models)}|{repeat}") in given]
        for number, model in enumerate(models, start=1):
            if places := [one[f"assistant_{number}"] for one in answered]:
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
