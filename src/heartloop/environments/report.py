"""What the report parts of environments share: texts and published tables, and evidence of the learned reader in words.

The published numbers were measured with other user simulators, prompts and scenarios; single values are not comparable with ours.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from heartloop.core.blocks import Column, Estimate, Published, PublishedTable, Range, ReportPanel, Row, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.core.system import packaged_table
from heartloop.reader.aspects import HARMFUL_ASPECTS, STRATEGIES
from heartloop.scoring.statistics import estimate

PrintedRow = dict[str, str | int | float | None]
"""One row of a table, by column; an empty cell is `None`."""


def published_names(package: str) -> tuple[str, ...]:
    files = (resources.files(package) / "published").iterdir()
    return tuple(sorted(file.name.removesuffix(".csv") for file in files if file.name.endswith(".csv")))


def published(package: str, name: str) -> list[PrintedRow]:
    """A table as published. A column has the first type that fits all its filled cells: int, float or str."""
    names = published_names(package)
    if name not in names:
        raise UseError(f"{package} has no published table {name!r}; expected one of {', '.join(names)}")
    text = (resources.files(package) / "published" / f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    columns = {column: _typed([row[column] for row in rows]) for column in rows[0]}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def panel_of(package: str, **parts: Any) -> ReportPanel:
    """A panel with the texts of `report.toml` in its package (`[panel]`), and further parts."""
    given = packaged_table(package, "report.toml")["panel"]
    texts: dict[str, Any] = {name: tuple(text) if isinstance(text, list) else text for name, text in given.items()}
    return ReportPanel(**texts, package=package, **parts)


def results_of(package: str) -> Published:
    """The published results of `report.toml` in a package; the shown columns of a CSV file are those of a table."""
    given = packaged_table(package, "report.toml")["published"]
    tables = tuple(_printed(package, **table) for table in given["tables"])
    return Published(given["title"], tables, given["conditions"], tuple(given["papers"]))


def _printed(
    package: str, *, csv: str, columns: Sequence[dict[str, Any]], head: str = "{model}", only: Mapping[str, str] = {}, **more: Any
) -> PublishedTable:
    def filled(row: PrintedRow, cell: str) -> str | int | float | None:
        return cell.format(**row) if "{" in cell else row[cell]

    shown = tuple(
        Column(one["name"], one.get("digits", 1), Range(*one["range"]) if "range" in one else None, one.get("entry", ""))
        for one in columns
    )
    rows = tuple(
        Row(head.format(**row), tuple(filled(row, one["cell"]) for one in columns))
        for row in published(package, csv)
        if only.items() <= row.items()
    )
    return PublishedTable(columns=shown, rows=rows, **more)


def mapping_of(value: object) -> dict[str, Any]:
    """The value if it is a mapping; stored evidence may hold anything."""
    return dict(value) if isinstance(value, Mapping) else {}


def _typed(cells: list[str]) -> list[str | int | float | None]:
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]


def mean_of(values: Iterable[tuple[float | None, Transcript]], within: tuple[float, float] | None = None) -> Estimate | None:
    """Mean and interval over scenarios of the values of dialogues that have one."""
    given = [(value, dialogue.scenario) for value, dialogue in values if value is not None]
    return estimate([value for value, _ in given], [scenario for _, scenario in given], within=within)


def scenario_view(line: Mapping[str, str], titles: Mapping[str, str]) -> Callable[[Transcript], ScenarioView]:
    """A `ReportPanel.scenario` of facts: some in the line under the title, others with titles of their own."""

    def view(transcript: Transcript) -> ScenarioView:
        facts = {name: fact for name, fact in transcript.facts.items() if fact}
        words = [form.format(facts[name]) for name, form in line.items() if name in facts]
        return ScenarioView(" · ".join(words), tuple((title, facts[name]) for name, title in titles.items() if name in facts))

    return view


_STANDS_OUT = 1.8  # mark, 0 to 4, from which an aspect is named; the usual mark of some is higher
_OTHERS_STAND_OUT: Mapping[str, float] = {"honesty": 2.6, "owning": 2.6, "coherence": 5.0}
_WORDS = packaged_table(__package__, "reading.toml")


def strategy_of(evidence: Mapping[str, Any]) -> str:
    """The strategy that the reply was most likely read as; empty without one."""
    likeliest = str(next(iter(mapping_of(evidence.get("strategies"))), ""))
    return STRATEGIES[likeliest].name if likeliest in STRATEGIES else ""


def evidence_in_words(evidence: Mapping[str, Any], *, rose: bool) -> list[str]:
    """Sentences about one reply; empty without a learned reader. What it lacks is named unless it did good (`rose`).

    >>> evidence_in_words({"strategies": {"A-4": 0.5, "B-1": 0.2}, "aspects": {"pressure": 1.9}, "missed": "repeat"}, rose=False)
    ['Read as: asking for their view.', 'Harmful: pressure 1.9 of 4.', 'Lacking: it repeats an earlier reply.']
    """
    marks = evidence.get("aspects")
    if not isinstance(marks, Mapping):
        return []
    name = strategy_of(evidence)
    if why := unread_in_words(evidence):
        return [why]
    sentences = [f"Read as: {name[0].lower()}{name[1:]}."] if name else []
    noticed = _noticed(marks)
    for title, harmful in (("Stands out", False), ("Harmful", True)):
        named = [f"{name} {mark:g}" for name, mark in noticed.items() if (name in HARMFUL_ASPECTS) is harmful]
        if named:
            sentences.append(f"{title}: {', '.join(named)} of 4.")
    if floor := evidence.get("floor"):
        sentences.append(f"Judged as {_WORDS['floors'].get(floor, floor)}.")
    wanting = str(evidence.get("missed"))
    if not rose and wanting in _WORDS["missed"]:
        sentences.append(f"Lacking: {_WORDS['missed'][wanting]}.")
    return sentences


def unread_in_words(evidence: Mapping[str, Any]) -> str:
    """That the embedded user cannot read a reply, as two sentences; empty for a reply that it read."""
    seen = (evidence, *mapping_of(evidence.get("seen")).values())
    kind = next((kind for one in seen if (kind := mapping_of(one).get("unread"))), "")
    why = _WORDS["unreadable"].get(kind, "")
    return f"The embedded user cannot read this reply: {why}. It counts as if nothing had been said." if why else ""


def reply_in_words(evidence: Mapping[str, Any], *, rose: bool) -> str:
    """What a reply did, in one line: how it was read, and the person's reasons to feel better (`rose`) or worse.

    >>> reply_in_words({"strategies": {"D-1": 0.5}, "aspects": {"warmth": 2.0, "pressure": 1.9}, "missed": "vague"}, rose=True)
    'Comforting words: it was kind'
    >>> reply_in_words({"strategies": {}, "aspects": {"pressure": 1.9}, "missed": "vague"}, rose=False)
    'it could have been said to anyone, it pushed me'
    """
    if why := unread_in_words(evidence):
        return why
    reasons = _WORDS["reasons"]
    noticed = [name for name in _noticed(mapping_of(evidence.get("aspects"))) if name in reasons]
    if rose:
        words = [reasons[name][0] for name in noticed if name not in HARMFUL_ASPECTS]
    else:
        words = [_WORDS["missed"].get(str(evidence.get("missed")), "")]
        words += [reasons[name][1] for name in noticed if name in HARMFUL_ASPECTS]
    return ": ".join(filter(None, (strategy_of(evidence), ", ".join(filter(None, words)))))


def _noticed(marks: Mapping[str, float]) -> dict[str, float]:
    return {name: mark for name, mark in marks.items() if mark >= _OTHERS_STAND_OUT.get(name, _STANDS_OUT)}
