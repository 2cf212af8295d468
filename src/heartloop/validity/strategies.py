"""Suite `strategies`: with which of 24 support strategies do models reply, by the embedded reader and by judges (SAGE, Table 4)?

A judge reads one reply with the message before it, splits it into passages and labels each in four steps with any number of
strategies; the exclusions of Appendix G hold (`allowed`). Agreement of every two labellers is F1 and Krippendorff's alpha over
the replies that both labelled. Departures: the reader reads the words of the dialogue alone, without what a scenario tells about
the person, so that runs of all environments are read alike; it names at most three strategies a reply, and none in a hostile
one; silent replies are left out; the examples of strategies and the worked one are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from heartloop.core.blocks import Block, Chart, Column, Estimate, Row, Series, Table
from heartloop.core.chat import EMBEDDED
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.reader.aspects import STRATEGIES
from heartloop.reader.features import Context, lacks_english
from heartloop.reader.reader import embedded_reader
from heartloop.scoring.agreement import nominal_alpha
from heartloop.validity.suites import dialogue_key, items_of, means, needs_judge, points_of, question, run_suite, said

READER = "embedded reader"
GROUPS: Mapping[str, str] = {one.group: one.group_name for one in STRATEGIES.values()}
LABELS: Mapping[str, str] = {
    key: name
    for letter, group in GROUPS.items()
    for key, name in [(letter, group), *((one.id, one.name) for one in STRATEGIES.values() if one.group == letter)]
}

_SHORT: Mapping[str, str] = {
    "A": "Question", "B": "Empathy", "C": "Disclosure", "D": "Comfort", "E": "Affirmation", "F": "Suggestions",
    "G": "Information",
}  # fmt: skip
"""Names of the groups that fit below a bar."""
HARMFUL = -0.35
"""Worth, mean of the environments, up to which a reply supports in no way for the reader, as every insult: the fits of the
strategies alone name one for some of these."""

_MOST_PASSAGES = 8
_MOST_LABELS = 4

Labels = Mapping[str, frozenset[str]]
"""Groups and strategies of each labelled reply, by the key of its question."""


class _Reply(NamedTuple):
    key: str
    dialogue: Transcript
    message: str
    """What it answers; empty if the model speaks first."""
    text: str


_Step = Annotated[str, Field(max_length=300)]


class _Passage(BaseModel, extra="forbid"):
    begins: Annotated[str, Field(max_length=120)]
    says: _Step
    how: _Step
    groups: _Step
    strategies: Annotated[list[Literal[tuple(STRATEGIES)]], Field(max_length=_MOST_LABELS)]  # type: ignore[valid-type]


class _Labelled(BaseModel, extra="forbid"):
    passages: Annotated[list[_Passage], Field(min_length=1, max_length=_MOST_PASSAGES)]


def f1(a: Sequence[bool], b: Sequence[bool]) -> float | None:
    """Twice the replies that both label over the labels of either, symmetric; `None` without a label.

    >>> f1([True, True, False, False], [True, False, True, False])
    0.5
    """
    labels = sum(a) + sum(b)
    return 2 * sum(x and y for x, y in zip(a, b, strict=True)) / labels if labels else None


def _replies(dialogues: Sequence[Transcript]) -> list[_Reply]:
    replies: list[_Reply] = []
    for dialogue in dialogues:
        message = dialogue.opening or ""
        for turn in dialogue.turns:
            if (reply := said(turn)).strip():
                replies.append(_Reply(f"{dialogue_key(dialogue)}|{turn.index}", dialogue, message, reply))
            message = turn.message or ""
    return replies


def _is_read(dialogue: Transcript) -> bool:
    return not lacks_english(" ".join(map(said, dialogue.turns)))


def allowed(strategies: Iterable[str]) -> list[str]:
    """The labels of a passage without those that a deeper empathy excludes.

    >>> allowed(["B-1", "B-2", "A-1"]), allowed(["B-1", "B-2", "B-3"])
    (['B-2', 'A-1'], ['B-3'])
    """
    excluded = {"B-3": ("B-1", "B-2"), "B-2": ("B-1",)}
    labels = list(strategies)
    return [label for label in labels if not any(label in excluded.get(other, ()) for other in labels)]


def _with_groups(strategies: Iterable[str]) -> frozenset[str]:
    return frozenset(key for name in strategies for key in (name, STRATEGIES[name].group))


def labels_by_reader(dialogues: Sequence[Transcript]) -> dict[str, frozenset[str]]:
    """What the embedded reader reads, nothing in a hostile reply; without dialogues that are not in English."""
    reader = embedded_reader()
    labels: dict[str, frozenset[str]] = {}
    for dialogue in filter(_is_read, dialogues):
        messages = [dialogue.opening] if dialogue.opening is not None else []
        replies: list[str] = []
        for turn in dialogue.turns:
            if (reply := said(turn)).strip():
                reading = reader.read(reply, Context(tuple(messages), tuple(replies)))
                harmful = fmean(reading.worth.values()) <= HARMFUL
                labels[f"{dialogue_key(dialogue)}|{turn.index}"] = _with_groups(() if harmful else reading.strategies)
            replies.append(reply)
            if turn.message is not None:
                messages.append(turn.message)
    return labels


def labels_by_judge(dialogues: Sequence[Transcript], answers: Answers) -> dict[str, frozenset[str]]:
    """What a judge labelled; a reply has the strategies of all its passages."""
    return {
        one.key: _with_groups(name for part in answers[one.key]["passages"] for name in allowed(part["strategies"]))
        for one in _replies(dialogues)
        if one.key in answers
    }


def shares(dialogues: Sequence[Transcript], labels: Labels) -> dict[str, Estimate | None]:
    """Percent of labelled replies that use each group and strategy, with intervals over scenarios; empty without any."""
    labelled = [(one.dialogue.scenario, labels[one.key]) for one in _replies(dialogues) if one.key in labels]
    rows = [(scenario, [100.0 * (key in used) for key in LABELS]) for scenario, used in labelled]
    return dict(zip(LABELS, means(rows, within=(0.0, 100.0)), strict=False))


def _questions(material: Material, answers: Answers) -> list[Question]:
    described: Mapping[str, str] = items_of("strategies")
    listed = "\n".join(f"{key}: {described[key]}" if key in described else name for key, name in LABELS.items())
    prompt = load_prompt("heartloop.validity", "strategies")
    return [
        question(one.key, prompt.fill(strategies=listed, message=one.message or "(nothing yet)", reply=one.text), _Labelled)
        for one in _replies(material.dialogues)
    ]


def _lacks(material: Material) -> str | None:
    if not _replies(material.dialogues):
        return "no model said anything"
    if needs_judge(material) and not any(map(_is_read, material.dialogues)):
        return "the embedded reader reads English only; pass --judge service/model"
    return None


def _verdict(reader: str, rows: Sequence[Row]) -> str:
    """The most used group of each model, most frequent first."""
    most: dict[str, list[str]] = {}
    for row in rows:
        shares = {letter: cell for letter, cell in zip(GROUPS, row.cells, strict=True) if isinstance(cell, float) and cell > 0}
        used = LABELS[max(shares, key=shares.__getitem__)].lower() if shares else "no strategy"
        most.setdefault(used, []).append(row.head)
    named = (f"{used} by {' and '.join(models)}" for used, models in sorted(most.items(), key=lambda item: -len(item[1])))
    return f"Used most, by {reader}: {'; '.join(named)}."


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    labels: dict[str, Labels] = {READER: labels_by_reader(material.dialogues)}
    labels |= {judge: labels_by_judge(material.dialogues, given) for judge, given in answers.items() if judge != EMBEDDED}
    replies = len(_replies(material.dialogues))
    labelled = ", ".join(f"{name} labelled {len(mine)}" for name, mine in labels.items())
    unlabelled = sum(not names for names in labels[READER].values())
    notes = [
        f"{amount(replies, 'reply', 'replies')} of {amount(len(material.models), 'model')}: {labelled}. In {unlabelled} of its "
        f"replies the {READER} names no strategy."
    ]
    notes += [f"{name} labelled no reply." for name, mine in labels.items() if not mine]
    labels = {name: mine for name, mine in labels.items() if mine}
    record: dict[str, Any] = {"replies": replies, "shares": {}, "agreement": {}}
    page: list[Block] = []
    summary: Table | None = None
    verdicts: list[str] = []
    for name, mine in labels.items():
        by_model = {model: shares([one for one in material.dialogues if one.model == model], mine) for model in material.models}
        by_model = {model: used for model, used in by_model.items() if used}
        record["shares"][name] = {
            model: {key: one._asdict() for key, one in used.items() if one is not None} for model, used in by_model.items()
        }
        page += _drawn(f"the {name}" if name == READER else name, by_model, material.models)
        rows = tuple(
            Row(model, tuple(cell and cell.mean for cell in (used[letter] for letter in GROUPS)))
            for model, used in by_model.items()
        )
        groups = tuple(Column(letter, digits=0) for letter in GROUPS)
        legend = ", ".join(f"{letter}: {LABELS[letter].lower()}" for letter in GROUPS)
        summary = summary or Table(f"% of replies that use a group, by {name}", groups, rows, help=f"{legend}.")
        verdicts.append(_verdict(name, rows))
    for a, b in combinations(labels, 2):
        table, numbers = _agreement(a, b, labels[a], labels[b])
        page.append(table)
        record["agreement"][f"{a} and {b}"] = numbers
    return Result(record, notes, summary or Table("Nothing labelled", (), ()), page, " ".join(verdicts))


def _drawn(name: str, by_model: Mapping[str, Mapping[str, Estimate | None]], models: Sequence[str]) -> list[Block]:
    bars = tuple(
        Series(model, points_of(_SHORT.values(), (used[letter] for letter in _SHORT)), models.index(model))
        for model, used in by_model.items()
    )
    rows = tuple(Row(f"{key} {label}", tuple(used[key] for used in by_model.values())) for key, label in LABELS.items())
    return [
        Chart(f"Groups of strategies, by {name}", "bars", bars, "group", "% of replies", 0.0, 100.0),
        Table(
            f"Strategies, by {name}", tuple(Column(model, digits=0) for model in by_model), rows,
            help="Percent of the replies that use it; a group counts once a reply. A reply can use several.",
            corner="Group and strategy",
        ),
    ]  # fmt: skip


def _agreement(a: str, b: str, mine: Labels, theirs: Labels) -> tuple[Table, dict[str, Any]]:
    both = [key for key in mine if key in theirs]
    rows: list[Row] = []
    numbers: dict[str, Any] = {"replies": len(both)}
    for label, keys in {"all": tuple(STRATEGIES), **{key: (key,) for key in LABELS}}.items():
        x, y = ([key in labels[reply] for reply in both for key in keys] for labels in (mine, theirs))
        try:
            alpha = nominal_alpha([x, y])
        except UseError:  # never used, or always by both
            alpha = None
        numbers[label] = {"f1": f1(x, y), "alpha": alpha, "first": sum(x), "second": sum(y)}
        name = f"{label} {LABELS[label]}" if label in LABELS else "All strategies"
        rows.append(Row(name, tuple(numbers[label].values())))
    columns = (Column("F1", digits=2), Column("Alpha", digits=2), Column(f"n, {a}"), Column(f"n, {b}"))
    table = Table(
        f"Agreement of {a} and {b}", columns, tuple(rows), corner="Group and strategy",
        help=f"Over {amount(len(both), 'reply', 'replies')} that both labelled. F1 and Krippendorff's alpha are 1 where they "
        "always agree; alpha is 0 by chance. n: replies with the label. Below 10 of either, read neither.",
    )  # fmt: skip
    return table, numbers


STRATEGIES_SUITE = run_suite("strategies", _result, lacks=_lacks, questions=_questions)
