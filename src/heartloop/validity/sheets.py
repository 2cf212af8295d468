"""Sheets for people who check scenarios, extracted segments or replies by hand, and how far they agree.

EMPA, section 3.2: whether 200 segments and their features are right. EIBench, section 3.2.2: plausibility, consistency and
anchors of every scenario. RLVER, App. E.1: direction and reasonableness of 20 changes. Departures: the questions are ours, as no
paper prints its form; only segments in which the model found a need are drawn, and one reply of a dialogue; raters of replies read
the scenario with its written lines, which a user simulator that is a language model does not see.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from heartloop.core.blocks import Column, Estimate, Row, Table
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import InputError, UseError
from heartloop.core.judging import parse
from heartloop.core.system import packaged_table, readable, reported
from heartloop.core.text import amount, csv_cell
from heartloop.environments.registry import environment_names, load_environment, owner_of
from heartloop.environments.sampling import Labels, balanced
from heartloop.environments.spec import EnvironmentSpec, load_attribute
from heartloop.environments.suites import Result
from heartloop.environments.writing import Seeded, Writing
from heartloop.evaluation.store import RAW, check_new, scenarios_of
from heartloop.integrations.export import finished_run
from heartloop.scoring.agreement import kappa, nominal_alpha
from heartloop.scoring.statistics import share_interval
from heartloop.validity.raters import changes, with_people
from heartloop.validity.suites import material_of, rows_of, spoken

KEY, LABELS = "key.json", "labels.csv"
_N = {"scenarios": 200, "segments": 200, "replies": 20}  # EMPA, section 3.2; RLVER, Table 6


class Question(NamedTuple):
    ask: str
    answers: Sequence[str] = ("yes", "no")
    published: float | None = None
    """Percent of the first answer."""


class Filled(NamedTuple):
    """The sheets of a folder."""

    questions: Mapping[str, Question]
    items: Mapping[str, Mapping[str, Any]]
    """What each item is, by its number."""
    answers: Mapping[str, dict[str, dict[str, str]]]
    """By question, item and rater."""
    empty: Counter[str]
    """Empty cells of each question."""


class Item(NamedTuple):
    key: Mapping[str, Any]
    """What it is, for the file of labels; raters do not see it."""
    strata: Labels
    reads: Mapping[str, str]


def export_sheets(source: Path, out: Path | None = None, *, n: int | None = None, raters: int = 2, seed: int = 0) -> list[Path]:
    """Writes a sheet per rater with the same items in another order, `README.md`, and `key.json`, which is not for raters.

    `source`: a run, for its replies; the steps of a distilling run, for its segments; else an environment or a set, file or
    folder of scenarios. `n` defaults to the published number, or all items if there are fewer.
    """
    if raters < 1:
        raise UseError(f"--raters is {raters}; expected 1 or more")
    kind, spec, items = _items_of(source, seed)
    if not items:
        raise InputError(f"{source} has no {kind} to check")
    if n is not None and n > len(items):
        raise UseError(f"--n is {n}; {source} has {len(items)} {kind} to check")
    strata = [item.strata for item in items]
    chosen = [items[place] for place in balanced(strata, n or min(_N[kind], len(items)), list(strata[0]), seed=seed)]
    random.Random(seed).shuffle(chosen)
    sheets = {name: sheet for name, sheet in packaged_table(__package__, "sheets.toml").items() if sheet["items"] == kind}
    questions = {name: {asked: Question(**one) for asked, one in sheet["questions"].items()} for name, sheet in sheets.items()}
    if kind == "scenarios":
        questions["scenario"] |= {name: Question(ask) for name, ask in spec.scenarios.questions.items()}
    key = {
        "source": str(source), "environment": spec.name, "seed": seed,
        "questions": {name: one._asdict() for asked in questions.values() for name, one in asked.items()},
        "items": {str(number): dict(item.key) for number, item in enumerate(chosen, start=1)},
    }  # fmt: skip
    files = {"README.md": _readme(questions, raters), KEY: json.dumps(key, indent=2, ensure_ascii=False) + "\n"}
    for name, sheet in sheets.items():
        for rater in map(str, range(1, raters + 1)):
            rows = [[number, rater, *map(item.reads.get, sheet["reads"])] for number, item in enumerate(chosen, start=1)]
            random.Random(f"{seed}|{name}|{rater}").shuffle(rows)
            files[f"{name}-{rater}.csv"] = _csv(["item", "rater", *sheet["reads"], *questions[name], "note"], rows)
    folder = out or (source / "sheet" if kind == "replies" else Path(f"{source.name.partition('.')[0]}-sheet"))
    check_new(folder)
    with reported(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8-sig" if name.endswith(".csv") else "utf-8", newline="")
    return [folder / name for name in files]


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose rows may lack their last cells."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows([*map(csv_cell, row), *[""] * (len(columns) - len(row))] for row in rows)
    return file.getvalue()


def _readme(questions: Mapping[str, Mapping[str, Question]], raters: int) -> str:
    lines = [
        "# Sheets to fill",
        f"For {amount(raters, 'rater')}. Open your file in a spreadsheet, answer the questions of every row with one of their "
        "answers, and save it as CSV (UTF-8). Leave a cell empty if you cannot answer. `note` is free. `rater` may be any label: "
        "keep it the same in all your files. Change nothing else. Discuss no item before all have finished. "
        f"`{KEY}` is not for raters.",
    ]  # fmt: skip
    if len(questions) > 1:
        lines.append(
            f"Fill all of {' before you open '.join(f'`{name}`' for name in questions)}, which shows the model's answer."
        )
    for name, asked in questions.items():
        lines.append(f"## `{name}-1.csv` and so on")
        lines.append("\n".join(f"- `{column}`: {one.ask} Answers: {', '.join(one.answers)}." for column, one in asked.items()))
    return "\n\n".join(lines) + "\n"


def _items_of(source: Path, seed: int) -> tuple[str, EnvironmentSpec, list[Item]]:
    if (source / "settings.json").is_file():
        spec = load_environment(finished_run(source).transcripts[0].environment)
        return "replies", spec, _replies(spec, source, random.Random(seed))
    if source.name.endswith(".steps.jsonl"):
        return "segments", *_segments(source)
    spec = load_environment(str(source)) if str(source) in environment_names() else owner_of(str(source))
    loaded = spec.load(None if spec.name == str(source) else str(source))
    text = spec.scenarios.text
    items = [Item({"scenario": one.id}, {spec.scale.group: (str(one.stratum),)}, {"scenario": text(one)}) for one in loaded]
    return "scenarios", spec, items


def _replies(spec: EnvironmentSpec, run: Path, rng: random.Random) -> list[Item]:
    """A judged reply of each dialogue of a run; a second one would show the person's answer to the first."""
    material = material_of(spec, [run])
    known = dict(material.scenarios)
    if (run / RAW).is_file():
        stored = finished_run(run).transcripts
        known |= {one.scenario: scenario for one, scenario in zip(stored, scenarios_of(run, stored), strict=True)}
    if missing := sorted({one.scenario for one in material.dialogues} - known.keys()):
        raise InputError(f"scenario {missing[0]} of {run} is not found; expected the scenario set of the run, unchanged")
    items: list[Item] = []
    for dialogue in material.dialogues:
        if not (judged := changes(spec, dialogue)):
            continue
        turn, change = rng.choice(judged)
        direction = "up" if change > 0 else "down" if change < 0 else "none"
        reads = {
            "person": spec.scenarios.text(known[dialogue.scenario]),
            "dialogue": _until(dialogue, turn),
            "thoughts": "\n".join(f"{name}: {text}" for name, text in turn.thoughts.items()),
            "change": direction if direction == "none" else f"{direction} by {abs(change):.3g} points",
        }
        key = dict(zip(("model", "scenario", "repeat", "turn"), (*dialogue.key, turn.index), strict=True))
        strata = {"model": (dialogue.model,), spec.scale.group: (dialogue.facts.get(spec.scale.group, ""),)}
        items.append(Item(key, strata, reads))
    return items


def _until(dialogue: Transcript, last: Turn) -> str:
    """The dialogue up to a reply, without the person's answer to it."""
    turns = [turn for turn in dialogue.turns if turn.index < last.index]
    return spoken(dialogue.model_copy(update={"turns": (*turns, last.model_copy(update={"message": None}))}))


def _segments(path: Path) -> tuple[EnvironmentSpec, list[Item]]:
    """The dialogues of a distilling run with what was extracted: the answers of the stages that read the dialogue.

    Left out: dialogues that came no further, and those whose last such answer is a list of corrections.
    """
    expected = "the steps of heartloop scenarios distil"
    with readable(path, expected):
        lines = path.read_text(encoding="utf-8").splitlines()
    try:
        settings, *steps = map(json.loads, lines)
        spec = load_environment(settings["settings"]["environment"])
        writing: Writing = load_attribute(spec.writing["distil"])([])
        answers = {(step["scenario"], step["of"]): step for step in steps if step["step"] == "answer"}
        seeds = {one["scenario"]: Seeded(one["scenario"], one["id"], one["seed"]) for one in steps if one["step"] == "seed"}
        sources = {number: str(seeded.facts["source"]) for number, seeded in seeds.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read {path}: {error!r}; expected {expected}") from error
    reading = [stage for stage in writing.stages if stage.system is not None]
    after = writing.stages[len(reading)].name
    items: list[Item] = []
    for number, seeded in seeds.items():
        if (number, after) not in answers:
            continue
        stored = [answers[number, stage.name] for stage in reading]
        replies = [Reply(one["text"], finish_reason=one["finish_reason"]) for one in stored]
        parsed = [parse(reply, stage.answer)[0] for reply, stage in zip(replies, reading, strict=True)]
        fields = [(name, value) for answer in parsed if answer for name, value in answer.model_dump(mode="json").items()]
        if all(parsed):
            extracted = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields)
            reads = {"dialogue": writing.as_read(seeded), "extracted": extracted}
            items.append(Item({"source": sources[number]}, {}, reads))
    return spec, items


def read_sheets(folder: Path) -> Filled:
    """The answers in the CSV files of a folder that `export_sheets` wrote."""
    with readable(folder / KEY, f"a folder that heartloop export --to sheet wrote, with its {KEY}"):
        text = (folder / KEY).read_text(encoding="utf-8")
    try:
        key = json.loads(text)
        questions = {name: Question(**one) for name, one in key["questions"].items()}
        filled = Filled(questions, dict(key["items"]), {name: {} for name in questions}, Counter())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder / KEY} is not as it was written: {error!r}; expected the file of the export") from error
    for path in sorted(folder.glob("*.csv")):
        if path.name == LABELS:
            continue
        for where, row in rows_of(path, ("item", "rater"), "a sheet with item, rater and a column for each question"):
            item, rater = str(row["item"]).strip(), str(row["rater"]).strip()
            if item not in filled.items or not rater:
                raise InputError(f"{where}: item {item!r}, rater {rater!r}; expected item 1 to {len(filled.items)} and a label")
            asked = [name for name in questions if name in row]
            if not asked:
                raise InputError(f"{where}: columns {', '.join(row)}; expected one of {', '.join(questions)}")
            for name in asked:
                given, mine = str(row[name] or "").strip().casefold(), filled.answers[name].setdefault(item, {})
                if rater in mine:
                    raise InputError(f"{where}: rater {rater!r} has item {item} twice; expected once in each kind of sheet")
                if given and given not in questions[name].answers:
                    raise InputError(
                        f"{where}: {name} is {row[name]!r}; expected {', '.join(questions[name].answers)} or nothing"
                    )
                if given:
                    mine[rater] = given
                filled.empty[name] += not given
    if not any(given for mine in filled.answers.values() for given in mine.values()):
        raise InputError(f"the sheets in {folder} have no answer; expected the filled files of the raters")
    return filled


def write_labels(path: Path, filled: Filled) -> None:
    """A row for each item and rater, with what the item is: what suite `raters` reads, if the items are replies."""
    answers = filled.answers
    places = {(int(item), rater): item for mine in answers.values() for item, given in mine.items() for rater in given}
    rows = [
        [*filled.items[item].values(), rater, *(mine.get(item, {}).get(rater, "") for mine in answers.values())]
        for (_, rater), item in sorted(places.items())
    ]
    with reported(f"write {path}"):
        columns = [*next(iter(filled.items.values())), "rater", *answers]
        path.write_text(_csv(columns, rows), encoding="utf-8", newline="")


def agreement_of(filled: Filled) -> Result:
    """Of each question: share of its first answer with Wilson's interval over items, and how far raters agree.

    Agreement: pairs of raters with the same answer, averaged over items. Kappa: over the items that all raters answered.
    """
    rows, record = [], {}
    for name, question in filled.questions.items():
        mine = {item: given for item, given in filled.answers[name].items() if given}
        if not mine:
            continue
        codes = {answer: float(code) for code, answer in enumerate(question.answers)}
        raters = sorted({rater for one in mine.values() for rater in one})
        table = [[codes[one[rater]] if rater in one else None for rater in raters] for one in mine.values()]
        ratings = [[code for code in row if code is not None] for row in table]
        whole = [row for row in ratings if len(row) == len(raters)]
        n = sum(map(len, ratings))
        share = share_interval(sum(row.count(0.0) for row in ratings), n, clusters=len(mine))
        percent = Estimate(n, *(100 * value for value in share[:3]))
        pairs = [agreed for row in ratings if (agreed := with_people(0.0, row)[2]) is not None]
        numbers: dict[str, float | None] = {"agreement": 100 * fmean(pairs) if pairs else None, "kappa": None, "alpha": None}
        with suppress(UseError):  # one rater, or the same answer everywhere
            numbers["kappa"] = kappa(whole)
        with suppress(UseError):
            numbers["alpha"] = nominal_alpha(list(zip(*table, strict=True)))
        rows.append(
            Row(f"{name}: {question.answers[0]}", (percent, question.published, len(mine), len(raters), *numbers.values()))
        )
        counts = {"items": len(mine), "raters": len(raters), "by_all": len(whole), "empty": filled.empty[name]}
        record[name] = {"share": percent._asdict(), "published": question.published, **counts, **numbers}
    columns = (Column("%", 1), Column("Published", 1), Column("Items"), Column("Raters"), Column("Agree %", 1), Column("Kappa"))
    summary = Table("Raters", (*columns, Column("Alpha")), tuple(rows), corner="Question")
    parts = [f"{name} {one['empty']}, {one['by_all']} of {one['items']} items" for name, one in record.items()]
    return Result(
        record, [f"Empty cells, and items that all raters answered, for kappa: {'; '.join(parts)}."], summary, [summary]
    )
