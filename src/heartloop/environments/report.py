"""What the report parts of environments share: published tables as CSV files, and evidence of the learned reader in words.

The published numbers were measured with other user simulators, prompts and scenarios; single values are not comparable with ours.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any

from heartloop.core.blocks import Column, Estimate, PublishedTable, Row, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.reader.aspects import HARMFUL_ASPECTS, STRATEGIES
from heartloop.scoring.statistics import estimate

PrintedRow = dict[str, str | int | float | None]
"""One row of a table, by column; an empty cell is `None`."""


def published_names(package: str) -> tuple[str, ...]:
    """Names of a package's tables.

    >>> "sage_table02_leaderboard" in published_names("heartloop.environments.sage")
    True
    """
    files = (resources.files(package) / "published").iterdir()
    return tuple(sorted(file.name.removesuffix(".csv") for file in files if file.name.endswith(".csv")))


def published(package: str, name: str) -> list[PrintedRow]:
    """A table as published. A column has the first type that fits all its filled cells: int, float or str.

    >>> published("heartloop.environments.sage", "rlver_table05_average_judge_correlation")[0]
    {'capability': 'empathic_depth', 'average_correlation': 0.981}
    """
    names = published_names(package)
    if name not in names:
        raise UseError(f"{package} has no published table {name!r}; expected one of {', '.join(names)}")
    text = (resources.files(package) / "published" / f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    columns = {column: _typed([row[column] for row in rows]) for column in rows[0]}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def printed(package: str, name: str, columns: Mapping[str, Column], *, head: str = "model", **more: Any) -> PublishedTable:
    """A published table for a report: the columns of the CSV that are shown, by name, with `more` fields of `PublishedTable`."""
    rows = tuple(Row(str(row[head]), tuple(row[name] for name in columns)) for row in published(package, name))
    return PublishedTable(columns=tuple(columns.values()), rows=rows, **more)


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: files of other versions may hold anything."""
    return value if isinstance(value, Mapping) else {}


def _typed(cells: list[str]) -> list[str | int | float | None]:
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]


def mean_of(values: Iterable[tuple[float | None, Transcript]], within: tuple[float, float] | None = None) -> Estimate | None:
    """Mean and interval over scenarios of the values of dialogues; those with `None` are left out."""
    given = [(value, dialogue.scenario) for value, dialogue in values if value is not None]
    return estimate([value for value, _ in given], [scenario for _, scenario in given], within=within)


def scenario_view(line: Mapping[str, str], titles: Mapping[str, str]) -> Callable[[Transcript], ScenarioView]:
    """A `ReportPanel.scenario` of facts: some in the line under the title, others with titles of their own."""

    def view(transcript: Transcript) -> ScenarioView:
        facts = {name: fact for name, fact in transcript.facts.items() if fact}
        words = [form.format(facts[name]) for name, form in line.items() if name in facts]
        return ScenarioView(" · ".join(words), tuple((title, facts[name]) for name, title in titles.items() if name in facts))

    return view


_STANDS_OUT = 1.8
"""Mark, 0 to 4, from which an aspect is named; the usual mark of some is higher."""
_OTHERS_STAND_OUT: Mapping[str, float] = {"honesty": 2.6, "owning": 2.6, "coherence": 5.0}
_FLOORS = {"danger": "dangerous", "hostility": "hostile", "repetition": "a repetition of an earlier reply"}
_WANTING: Mapping[str, str] = {  # by `appraising.Missed`
    "silence": "nothing was said",
    "repeat": "it repeats an earlier reply",
    "cruel": "it hurts",
    "lecture": "it lectures",
    "advice": "it gives advice that was not asked for",
    "template": "it sounds prepared",
    "flattery": "it flatters",
    "misread": "it does not show what this is about",
    "unfelt": "it passes by the feeling",
    "vague": "it could have been said to anyone",
}


def strategy_of(evidence: Mapping[str, Any]) -> str:
    """The strategy that the reply was most likely read as; empty without one.

    >>> strategy_of({"strategies": {"A-4": 0.5, "B-1": 0.2}})
    'Asking for their view'
    """
    strategies = evidence.get("strategies") or {}
    likeliest = str(next(iter(strategies), "")) if isinstance(strategies, Mapping) else ""
    return STRATEGIES[likeliest].name if likeliest in STRATEGIES else ""


def evidence_in_words(evidence: Mapping[str, Any], *, rose: bool) -> list[str]:
    """Sentences about one reply; empty where the evidence is not that of a learned reader.

    Args:
        rose: whether the reply did good; what it lacks is named only where it did not.

    >>> evidence_in_words({"aspects": {"warmth": 2.0, "pressure": 1.9}, "missed": "repeat"}, rose=False)
    ['Stands out: warmth 2 of 4.', 'Harmful: pressure 1.9 of 4.', 'Lacking: it repeats an earlier reply.']
    """
    marks = evidence.get("aspects")
    if not isinstance(marks, Mapping):
        return []
    sentences = []
    if name := strategy_of(evidence):
        sentences.append(f"Read as: {name[0].lower()}{name[1:]}.")
    noticed = {name: mark for name, mark in marks.items() if mark >= _OTHERS_STAND_OUT.get(name, _STANDS_OUT)}
    for title, harmful in (("Stands out", False), ("Harmful", True)):
        named = [f"{name} {mark:g}" for name, mark in noticed.items() if (name in HARMFUL_ASPECTS) is harmful]
        if named:
            sentences.append(f"{title}: {', '.join(named)} of 4.")
    if floor := evidence.get("floor"):
        sentences.append(f"Judged as {_FLOORS.get(floor, floor)}.")
    wanting = str(evidence.get("missed"))
    if not rose and wanting in _WANTING:
        sentences.append(f"Lacking: {_WANTING[wanting]}.")
    return sentences
