"""Sheets for people who check scenarios, extracted segments or replies by hand, and how far they agree.

EMPA, section 3.2: whether 200 segments and their features are right. EIBench, section 3.2.2: plausibility, consistency and
anchors of every scenario. RLVER, App. E.1: direction and reasonableness of 20 changes. Departures: the questions are ours, as no
paper prints its form; of segments only those are drawn in which the model found a need, of a dialogue only one reply; raters of
replies read the scenario with its written lines, which a user simulator that is a language model does not see.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from heartloop.core.chat import Reply
from heartloop.core.errors import InputError, UseError
from heartloop.core.judging import parse
from heartloop.core.system import packaged_table, readable, reported
from heartloop.core.text import csv_cell
from heartloop.environments.importing import Imported, Importer
from heartloop.environments.registry import environment_names, load_environment, owner_of
from heartloop.environments.sampling import Labels, balanced
from heartloop.environments.spec import EnvironmentSpec, load_attribute
from heartloop.environments.writing import Seeded, Writing
from heartloop.evaluation.store import RAW, ImportedScenarios, check_new, stored_digests
from heartloop.integrations.export import finished_run
from heartloop.scoring.agreement import kappa, nominal_alpha
from heartloop.scoring.statistics import share_interval
from heartloop.validity.raters import with_people
from heartloop.validity.suites import changes, material_of, rows_of, spoken

KEY = "key.json"


class Item(NamedTuple):
    key: Mapping[str, Any]
    """What it is, for the labels; raters do not see it."""
    strata: Labels
    reads: Mapping[str, str]


class Filled(NamedTuple):
    """Filled sheets: questions by name, what each item is by its number, and answers by item and rater (empty if the cell is)."""

    questions: Mapping[str, Mapping[str, Any]]
    items: Mapping[str, Mapping[str, Any]]
    rows: dict[tuple[str, str], dict[str, str]]


def export_sheets(source: Path, out: Path | None = None, *, n: int | None = None, raters: int = 2, seed: int = 0) -> list[Path]:
    """Writes sheets for each rater with the same items in another order, `README.md`, and `key.json`, which is not for raters.

    `source`: a run, for its replies; the steps of a distilling run, for its segments; else an environment or a set, file or
    folder of scenarios. `n` defaults to the published number, or all items if there are fewer.
    """
    kind, spec, items = _items_of(source, seed)
    texts = packaged_table(__package__, "sheets.toml")
    sheets = {name: sheet for name, sheet in texts.items() if name != "readme" and sheet["items"] == kind}
    wanted = n or min(len(items), *(sheet["n"] for sheet in sheets.values()))
    if not 1 <= wanted <= len(items):
        raise UseError(f"--n is {wanted}; {source} has {len(items)} {kind} to check")
    strata = [item.strata for item in items]
    chosen = [items[place] for place in balanced(strata, wanted, list(strata[0]), seed=seed)]
    random.Random(seed).shuffle(chosen)
    more = {name: {"ask": ask, "answers": ["yes", "no"]} for name, ask in spec.scenarios.questions.items() if kind == "scenarios"}
    questions = {name: {**sheet["questions"], **more} for name, sheet in sheets.items()}
    asked = {name: question for one in questions.values() for name, question in one.items()}
    keys = {number: item.key for number, item in enumerate(chosen, start=1)}
    key = {"source": str(source), "environment": spec.name, "seed": seed, "questions": asked, "items": keys}
    files = {"README.md": texts["readme"], KEY: json.dumps(key, indent=2, ensure_ascii=False) + "\n"}
    for name, sheet in sheets.items():
        lines = [f"- `{column}`: {one['ask']} Answers: {', '.join(one['answers'])}." for column, one in questions[name].items()]
        files["README.md"] += "\n".join([f"\n\n## Files `{name}`\n", *lines])
        columns = ["item", "rater", *sheet["reads"], *questions[name], "note"]
        for rater in range(1, raters + 1):
            rows = [{"item": number, "rater": rater, **item.reads} for number, item in enumerate(chosen, start=1)]
            random.Random(f"{seed}|{name}|{rater}").shuffle(rows)
            files[f"{name}-{rater}.csv"] = _csv(columns, rows)
    folder = out or (source / "sheet" if kind == "replies" else Path(f"{source.name.partition('.')[0]}-sheet"))
    check_new(folder)
    with reported(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    return [folder / name for name in files]


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    """A table with a mark by which spreadsheets see that it is UTF-8."""
    import pandas

    cells = [[csv_cell(row.get(column, "")) for column in columns] for row in rows]
    return "\ufeff" + str(pandas.DataFrame(cells, columns=columns, dtype=object).to_csv(index=False, lineterminator="\r\n"))


def _items_of(source: Path, seed: int) -> tuple[str, EnvironmentSpec, list[Item]]:
    if (source / "settings.json").is_file():
        spec = load_environment(finished_run(source).transcripts[0].environment)
        return "replies", spec, _replies(spec, source, random.Random(seed))
    if source.name.endswith(".steps.jsonl"):
        return "segments", *_segments(source)
    spec = load_environment(str(source)) if str(source) in environment_names() else owner_of(str(source))
    group, text = spec.scale.group, spec.scenarios.text
    loaded = spec.load(None if spec.name == str(source) else str(source))
    return "scenarios", spec, [Item({"scenario": s.id}, {group: (str(s.stratum),)}, {"scenario": text(s)}) for s in loaded]


def _replies(spec: EnvironmentSpec, run: Path, rng: random.Random) -> list[Item]:
    """A judged reply of each dialogue of a run; a second one would show the person's answer to the first."""
    material = material_of(spec, [run])
    known = dict(material.scenarios)
    if (run / RAW).is_file():
        imported = ImportedScenarios(run)
        known |= {one.scenario: imported.of(number, one) for number, one in enumerate(stored_digests(run))}
    items: list[Item] = []
    for dialogue in material.dialogues:
        if dialogue.scenario not in known:
            raise InputError(f"scenario {dialogue.scenario} of {run} is not found; expected the set that it was played with")
        if judged := changes(spec, dialogue):
            turn, change = rng.choice(judged)
            last = turn.model_copy(update={"message": None})  # not the person's answer to it
            shown = dialogue.model_copy(update={"turns": (*(one for one in dialogue.turns if one.index < turn.index), last)})
            reads = {
                "person": spec.scenarios.text(known[dialogue.scenario]),
                "dialogue": spoken(shown),
                "thoughts": "\n".join(f"{name}: {text}" for name, text in turn.thoughts.items()),
                "change": f"{'up' if change > 0 else 'down'} by {abs(change):.3g} points" if change else "none",
            }
            key = dict(zip(("model", "scenario", "repeat", "turn"), (*dialogue.key, turn.index), strict=True))
            group = dialogue.facts.get(spec.scale.group, "")
            items.append(Item(key, {"model": (dialogue.model,), spec.scale.group: (group,)}, reads))
    return items


def _segments(path: Path) -> tuple[EnvironmentSpec, list[Item]]:
    """The dialogues of a distilling run with what was extracted: the answers of the stages that read the dialogue.

    Left out: dialogues that came no further, and those whose last such answer is a list of corrections.
    """
    with readable(path, "the steps of heartloop scenarios distil"):
        lines = path.read_text(encoding="utf-8").splitlines()
    try:
        settings, *steps = map(json.loads, lines)
        spec = load_environment(settings["settings"]["environment"])
        writing: Writing = load_attribute(spec.writing["distil"])([])
        answers = {(step["scenario"], step["of"]): step for step in steps if step["step"] == "answer"}
        reading = [stage for stage in writing.stages if stage.system is not None]
        items: list[Item] = []
        for seed in (step for step in steps if step["step"] == "seed"):
            number, facts = seed["scenario"], seed["seed"]
            if (number, writing.stages[len(reading)].name) not in answers:
                continue
            stored = [(answers[number, stage.name], stage.answer) for stage in reading]
            parsed = [parse(Reply(one["text"], finish_reason=one["finish_reason"]), form)[0] for one, form in stored]
            extracted = [f"{name}: {value}" for one in parsed if one for name, value in one.model_dump(mode="json").items()]
            if all(parsed):
                reads = {"dialogue": writing.as_read(Seeded(number, seed["id"], facts)), "extracted": "\n".join(extracted)}
                items.append(Item({"source": facts["source"]}, {}, reads))
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"cannot read {path}: {error!r}; expected the steps of heartloop scenarios distil") from error
    return spec, items


def read_sheets(folder: Path) -> Filled:
    """The answers in the CSV files of a folder that `export_sheets` wrote."""
    with readable(folder / KEY, f"a folder that heartloop export --to sheet wrote, with its {KEY}"):
        key = json.loads((folder / KEY).read_text(encoding="utf-8"))
    filled = Filled(key["questions"], key["items"], {})
    for path in sorted(folder.glob("*.csv")):
        for where, cells in rows_of(path, ("rater",), "a sheet"):
            item, rater = str(cells.get("item") or "").strip(), str(cells["rater"]).strip()
            asked = [name for name in filled.questions if name in cells]
            if item not in filled.items or not rater or not asked:
                columns = f"item from 1 to {len(filled.items)}, a label in rater, and a column of {', '.join(filled.questions)}"
                raise InputError(f"{where}: item {item!r}, rater {rater!r}, columns {', '.join(cells)}; expected {columns}")
            row = filled.rows.setdefault((item, rater), {})
            for name in asked:
                given, expected = str(cells[name] or "").strip().casefold(), filled.questions[name]["answers"]
                if given and given not in expected:
                    raise InputError(f"{where}: {name} is {cells[name]!r}; expected {', '.join(expected)}, or nothing")
                if name in row:
                    raise InputError(f"{where}: rater {rater!r} has item {item} twice; expected once in each kind of sheet")
                row[name] = given
    if not any(given for row in filled.rows.values() for given in row.values()):
        raise InputError(f"the sheets in {folder} have no answer; expected the filled files of the raters")
    return filled


def agreement_of(filled: Filled) -> dict[str, dict[str, Any]]:
    """Of each question: share of its first answer with Wilson's interval over items, and how far raters agree.

    Agreement: pairs of raters with the same answer, averaged over items. Kappa: over the items that all raters answered.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, question in filled.questions.items():
        cells = {place: row[name] for place, row in filled.rows.items() if name in row}
        codes = {place: float(question["answers"].index(given)) for place, given in cells.items() if given}
        if not codes:
            continue
        items, raters = (sorted({place[side] for place in codes}) for side in (0, 1))
        table = [[codes.get((item, rater)) for rater in raters] for item in items]
        ratings = [[code for code in row if code is not None] for row in table]
        whole = [row for row in ratings if len(row) == len(raters)]
        pairs = [agreed for row in ratings if (agreed := with_people(0.0, row)[2]) is not None]
        one: dict[str, Any] = {"agreement": fmean(pairs)} if pairs else {}
        with suppress(UseError):  # one rater, or the same answer everywhere
            one["alpha"] = nominal_alpha(list(zip(*table, strict=True)))
            one["kappa"] = kappa(whole)
        share = share_interval([*codes.values()].count(0.0), len(codes), clusters=len(items))
        counts = {"items": len(items), "by all": len(whole), "raters": len(raters), "empty cells": len(cells) - len(codes)}
        found[name] = {"share": share, **one, **counts}
    return found


def _import(source: Path) -> Imported:
    filled = read_sheets(source)
    notes = []
    for name, found in agreement_of(filled).items():
        question, (share, low, high, _) = filled.questions[name], found.pop("share")
        published = f"; published {question['published']:g}" if "published" in question else ""
        numbers = ", ".join(f"{one} {value:.2f}".removesuffix(".00") for one, value in found.items())
        notes.append(f"{name}: {share:.1%} {question['answers'][0]} ({low:.1%} to {high:.1%}{published}); {numbers}")
    rows = [{**filled.items[item], "rater": rater, **row} for (item, rater), row in filled.rows.items() if any(row.values())]
    columns = [*next(iter(filled.items.values())), "rater", *filled.questions]
    return Imported(notes=notes, labels=_csv(columns, rows))


IMPORTER = Importer("A folder of sheets that people filled (export --to sheet), as their agreement and labels.", _import)
