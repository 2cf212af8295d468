"""Validity suites: their names, the dialogues that they read, their questions to a judge, and their tables."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from heartloop.core.blocks import Estimate, Point, Row, Series, Text
from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Message, Sampling, Transcript, Turn
from heartloop.core.errors import HeartloopError, InputError, UseError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import schema_of
from heartloop.core.system import packaged_table
from heartloop.core.text import amount, from_csv_cell, nearest
from heartloop.environments.dialogue_text import chance, dialogue_text
from heartloop.environments.registry import load_environment, specs
from heartloop.environments.spec import EnvironmentSpec, Lazy, load_attribute
from heartloop.environments.suites import Answers, Material, Question, RejudgingSuite, Result, RunSuite
from heartloop.evaluation.store import read_run, saved_settings, shortened
from heartloop.scoring.statistics import Interval, estimate

_TEXTS = packaged_table(__package__, "suites.toml")
GENERIC: Mapping[str, Lazy] = {name: f"heartloop.validity.{row['suite']}" for name, row in _TEXTS.items()}
"""Suites for every environment, by name: each a lazy path of a `RunSuite`. Their order is that of the page."""
_OF_REPLIES: Lazy = "heartloop.validity.replies:reply_suite"
SCENARIOS, MODELS = 10, 5
"""Scenarios of a model, and models, below which results come with a warning; ours."""


def environment_of(runs: Sequence[Path]) -> EnvironmentSpec:
    names = list(dict.fromkeys(str(saved_settings(run).get("environment")) for run in runs))
    if len(names) > 1:
        raise UseError(f"the runs are of {' and '.join(names)}; validate runs of one environment at a time")
    return load_environment(names[0])


def suite_of(spec: EnvironmentSpec, name: str) -> RunSuite | RejudgingSuite:
    suites = {**GENERIC, **spec.suites}
    suite: RunSuite | RejudgingSuite
    if name in suites:
        suite = load_attribute(suites[name])
        return suite
    judging = {one.name: found for one in specs() if (found := one.replies) is not None}
    if name in judging:
        suite = load_attribute(_OF_REPLIES)(load_environment(name), judging[name])
        return suite
    known = [*suites, *judging]
    raise UseError(f"unknown suite {name!r}; {spec.name} has {' or '.join(known) or 'none'}{nearest(name, known)}")


def run_suites(spec: EnvironmentSpec) -> dict[str, RunSuite]:
    suites = {name: suite_of(spec, name) for name in (*GENERIC, *spec.suites)}
    return {name: suite for name, suite in suites.items() if isinstance(suite, RunSuite)}


def material_of(
    spec: EnvironmentSpec,
    runs: Sequence[Path],
    *,
    judges: Sequence[str] = (),
    scenarios: str | None = None,
    limit: int | None = None,
    people: Path | None = None,
    labels: Path | None = None,
    ratings: Path | None = None,
    published: bool = False,
) -> Material:
    """The scored dialogues of runs, and their scenarios as far as these are found.

    A limit is of each model in each run: scenarios and repeats are sampled, first those that all its models have, and the
    dialogues of every model with these are taken. A larger limit includes the dialogues of a smaller one.
    """
    dialogues: list[Transcript] = []
    found: dict[str, object] = {}
    for run in runs:
        scored = [one for one in {one.key: one for one in read_run(run).digests}.values() if one.scored]
        models = Counter((one.scenario, one.repeat) for one in scored)
        order = sorted(models, key=lambda place: (-models[place], chance("validate", *place)))
        chosen = set(order[:limit])
        dialogues += [shortened(one.read()) for one in scored if (one.scenario, one.repeat) in chosen]
        try:
            found |= {scenario.id: scenario for scenario in spec.scenarios.load(scenarios or saved_settings(run)["scenario_set"])}
        except (HeartloopError, KeyError):
            if scenarios is not None:
                raise
    if not dialogues:
        raise InputError(f"{' and '.join(map(str, runs))} has no scored dialogue; expected a finished run")
    ids = {dialogue.scenario for dialogue in dialogues}
    known = {name: one for name, one in found.items() if name in ids}
    return Material(spec, tuple(dialogues), known, tuple(judges), people, labels, ratings, published)


def run_suite(name: str, result: Callable[[Material, Mapping[str, Answers]], Result], **parts: Any) -> RunSuite:
    """A suite with the texts of `suites.toml`; `parts` are further fields."""
    texts = _TEXTS[name]
    return RunSuite(texts["title"], texts["about"], texts.get("source", ""), result, **parts)


def how_to_read(name: str) -> Text:
    return Text("How to read this", tuple(_TEXTS[name]["reading"]))


def verdict_of(r: Interval | None, claim: str) -> str:
    """What a correlation with its 95 % interval says about a claim that it is positive.

    >>> verdict_of(Interval(0.5, 0.2, 0.7), "the score agrees")
    'Yes, the score agrees: r = 0.50 (0.20 to 0.70).'
    >>> verdict_of(Interval(0.1, -0.3, 0.5), "the score agrees")
    'It is not shown that the score agrees: r = 0.10 (-0.30 to 0.50).'
    """
    if r is None:
        return f"It is not shown that {claim}: too few values, or too alike."
    says = f"Yes, {claim}" if r.low > 0 else f"No, the opposite of: {claim}" if r.high < 0 else f"It is not shown that {claim}"
    return f"{says}: r = {r.words()}."


def items_of(name: str) -> Mapping[str, Any]:
    return packaged_table(__package__, f"items/{name}.toml")


def rows_of(path: Path, required: Sequence[str], expected: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a CSV file with a heading, or of JSON lines, each with its place in the file, for errors.

    Spreadsheets separate cells by semicolons where the comma is the decimal sign. A row with line breaks in a cell has the number
    of its last line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        is_json = text.lstrip().startswith("{")
        if is_json:
            rows = [(number, json.loads(line)) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        else:
            reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;", key=text.partition("\n")[0].count))
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}; expected {expected}") from error
    for number, row in rows:
        if any(row.get(column) is None for column in required):
            raise InputError(f"{path}, line {number}: {dict(row)}; expected {expected}")
        cells = row if is_json else {name: from_csv_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        yield f"{path}, line {number}", cells


def changes(spec: EnvironmentSpec, dialogue: Transcript) -> list[tuple[Turn, float]]:
    """The judged replies of a dialogue, each with the change of its points."""
    judged, course = [turn for turn in dialogue.turns if turn.state is not None], spec.scale.course(dialogue)
    return [(turn, after - before) for turn, before, after in zip(judged, course, course[1:], strict=False)]


def has_column(path: Path, column: str) -> bool:
    """Whether the first row of a file has a column; labels of several kinds are given by one option."""
    return path.is_file() and any(column in row for _, row in islice(rows_of(path, (), "rows"), 1))


def means(
    numbers: Iterable[tuple[str, Sequence[float]]], within: tuple[float, float] | None = None
) -> tuple[Estimate | None, ...]:
    """The mean of each column of numbers with its interval over scenarios; no column without a row."""
    rows = list(numbers)
    scenarios = [scenario for scenario, _ in rows]
    return tuple(estimate(column, scenarios, within=within) for column in zip(*(values for _, values in rows), strict=True))


def model_rows(material: Material, numbers: Sequence[tuple[Transcript, Sequence[float]]]) -> list[Row]:
    """The `means` of each model that has numbers."""
    rows: list[Row] = []
    for place, model in enumerate(material.models):
        mine = [(dialogue.scenario, values) for dialogue, values in numbers if dialogue.model == model]
        if mine:
            rows.append(Row(model, means(mine), place))
    return rows


def only_means(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows for the terminal: of each estimate the mean alone."""
    return tuple(
        row._replace(cells=tuple(cell.mean if isinstance(cell, Estimate) else cell for cell in row.cells)) for row in rows
    )


def recorded(row: Row, names: Iterable[str]) -> dict[str, Any]:
    """A row's estimates by name, for `validity.json`."""
    return {name: cell._asdict() for name, cell in zip(names, row.cells, strict=True) if isinstance(cell, Estimate)}


def model_points(rows: Iterable[Row]) -> tuple[Series, ...]:
    """A point a model: its first estimate to the right, its second up with the interval."""
    return tuple(
        Series(row.head, (Point(x.mean, y.mean, y.low, y.high),), row.model)
        for row in rows
        if isinstance(x := row.cells[0], Estimate) and isinstance(y := row.cells[1], Estimate)
    )


def points_of(names: Iterable[float | str], cells: Iterable[object]) -> tuple[Point, ...]:
    """The estimates among some cells as points of a chart, each at its name."""
    return tuple(
        Point(name, cell.mean, cell.low, cell.high) for name, cell in zip(names, cells, strict=True) if isinstance(cell, Estimate)
    )


def titled(title: str, judge: str, answers: Mapping[str, Any]) -> str:
    return title if len(answers) == 1 else f"{title}, {judge}"


def dialogue_key(dialogue: Transcript) -> str:
    """A dialogue's key as one word of a question's key, `model|scenario|repeat|user`: runs of several users share the rest."""
    return "|".join(map(str, (*dialogue.key, dialogue.user)))


def reading_keys(dialogue: Transcript, readings: int) -> list[str]:
    """The keys of the questions of several readings: the first is the dialogue's own."""
    return [dialogue_key(dialogue) + (f"|{repeat}" if repeat else "") for repeat in range(readings)]


def fingerprint_of(*parts: Any) -> str:
    """SHA-256 of JSON values, for `Question.fingerprint`."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def question(key: str, text: str, form: type[BaseModel], *, repeat: int = 0) -> Question:
    """A question to a language model, whose answer is an instance of `form`; `repeat` shifts the sampling seed."""
    messages = [Message(role="user", content=text)]

    async def answer(judge: ChatModel | None, sampling: Sampling | None) -> Mapping[str, Any]:
        if judge is None:
            raise UseError("this suite asks a language model; expected --judge service/model, not embedded")
        chosen = (sampling or Sampling()).seeded(0, repeat)
        return (await ask(judge, messages, form, sampling=chosen)).model_dump(mode="json")

    schema = schema_of(form)
    return Question(key, fingerprint_of([message.model_dump() for message in messages], dict(schema), repeat), answer, schema)


def few(material: Material) -> str:
    """A warning if a model has too few scenarios, or correlations are over too few models; else empty."""
    scenarios = min(len({one.scenario for one in material.dialogues if one.model == model}) for model in material.models)
    models = len(material.models)
    warnings = []
    if scenarios < SCENARIOS:
        warnings.append(f"A model has {amount(scenarios, 'scenario')}; with fewer than {SCENARIOS} its means may be chance.")
    if 2 < models < MODELS:
        warnings.append(f"Correlations over {models} models say little; the papers have ten and more.")
    return " ".join(warnings)


def needs_judge(material: Material) -> str | None:
    """`RunSuite.lacks` of a suite that asks a language model."""
    return None if set(material.judges) - {EMBEDDED} else "it asks a judge; pass --judge service/model"


_NOT_SAID = re.compile(r"\A\s*# Analysis[ \t]*\n.*?^# Response[ \t]*\n", re.DOTALL | re.MULTILINE)
_NUMBERS = re.compile(
    r"(?<!\w)[+\-−±]\d|\b(?:emotion|relation|mood|strain|trust|change|score)\w*\W+(?:\w+\W+){0,3}?\d|\d (?:points|out of)",
    re.IGNORECASE,
)


def said(turn: Turn) -> str:
    """What the person reads of a reply: the response without the analysis, or the last of the sections that the prompt asks for.

    >>> said(Turn(index=0, reply="# Analysis\\nShe is proud.\\n\\n# Response\\nIt floats!"))
    'It floats!'
    """
    sections = turn.evidence.get("sections") or {"": ""}
    return list(sections.values())[-1] or _NOT_SAID.sub("", turn.reply)


def thoughts_of(spec: EnvironmentSpec, turn: Turn, *, only: Sequence[str] = ()) -> str:
    """The user simulator's own thoughts, without those that tell a number of its state; empty if another role judges.

    What the transcript calls thoughts is then the judges' verdict, with the score. `only`: fields to read, where a turn has one.
    """
    if "user" not in spec.role_names or "judge" in spec.role_names:
        return ""
    chosen = [text for name, text in turn.thoughts.items() if name in only] or turn.thoughts.values()
    return " ".join(text.strip() for text in chosen if text.strip() and not _NUMBERS.search(text))


def spoken(dialogue: Transcript) -> str:
    """The dialogue as the person reads it, a line a message, by USER and MODEL."""
    messages = [("USER", dialogue.opening)]
    for turn in dialogue.turns:
        messages += [("MODEL", said(turn)), ("USER", turn.message)]
    return dialogue_text((speaker, text) for speaker, text in messages if text is not None)


def rubric_questions(
    name: str, material: Material, parts: Mapping[str, Sequence[str]], each: str, mark: type[BaseModel], *, readings: int = 1
) -> list[Question]:
    """A question on every part of a rubric for each dialogue; `name` is that of the suite and of its prompt.

    `parts`: by name what is asked, then the lines that describe its levels. `each`: the form of a mark, as the prompt shows it.
    """
    rubric = "\n\n".join("\n".join([f"{part.upper()}. {asks}", *levels]) for part, (asks, *levels) in parts.items())
    fields: dict[str, Any] = {part.replace(" ", "_"): (mark, ...) for part in parts}
    form = ", ".join(f'"{field}": {each}' for field in fields)
    answer = create_model(name.capitalize(), __config__=ConfigDict(extra="forbid"), **fields)
    prompt = load_prompt("heartloop.validity", name)
    return [
        question(key, prompt.fill(text=spoken(one), rubric=rubric, form=f"{{{form}}}"), answer, repeat=repeat)
        for one in material.dialogues
        for repeat, key in enumerate(reading_keys(one, readings))
    ]
