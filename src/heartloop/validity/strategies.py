"""Suite `strategies`: with which of 24 support strategies do models reply, by the embedded reader and by judges?

SAGE, Table 4 and Appendix G.
What is reported is the share of replies that use a strategy, and a strategy of each of the 7 groups, by model. A judge reads one
reply with the message before it, splits it into passages and labels each with any number of strategies. The embedded reader reads
the same replies without a judge. Agreement of every two of them is F1 and Krippendorff's alpha over the replies that both
labelled. Departures: the reader reads the words of the dialogue alone, without what a scenario tells about the person, so that
runs of all environments are read alike; it names at most three strategies a reply, and none in a hostile one; silent replies
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.blocks import Block, Chart, Column, Estimate, Point, Row, Series, Table
from heartloop.core.chat import EMBEDDED
from heartloop.core.dialogue import Message, Transcript, Turn
from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, Question, Result, RunSuite
from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.features import Context, lacks_english
from heartloop.reader.reader import embedded_reader
from heartloop.scoring.agreement import krippendorff_alpha
from heartloop.scoring.statistics import estimate
from heartloop.validity.suites import dialogue_key, items_of, question

READER = "embedded reader"
GROUPS: Mapping[str, str] = {one.group: one.group_name for one in STRATEGIES.values()}
"""The 7 groups by letter."""

HOSTILE = 2.0
"""Mark of hostility, 0 to 4, from which a reply supports in no way for the reader: of 64 labelled replies at or above it 51 have
no label, and the fits of the strategies alone name one for some of these."""

_MOST_PASSAGES = 8
_MOST_LABELS = 4

Labels = Mapping[tuple[str, int], frozenset[str]]
"""Strategies of each labelled reply, by the key of its dialogue and its turn."""


class _Reply(NamedTuple):
    dialogue: Transcript
    turn: Turn
    message: str
    """What it answers; empty where the model speaks first."""

    @property
    def key(self) -> tuple[str, int]:
        return dialogue_key(self.dialogue), self.turn.index


class _Passage(BaseModel):
    model_config = ConfigDict(extra="forbid")
    begins: Annotated[str, Field(max_length=120)]
    strategies: Annotated[list[Literal[tuple(STRATEGIES)]], Field(max_length=_MOST_LABELS)]  # type: ignore[valid-type]


class _Labelled(BaseModel):
    model_config = ConfigDict(extra="forbid")
    passages: Annotated[list[_Passage], Field(min_length=1, max_length=_MOST_PASSAGES)]


@cache
def _descriptions() -> str:
    """The strategies as a judge reads them, by group."""
    said: Mapping[str, str] = items_of("strategies")
    return "\n".join(
        "\n".join([name, *(f"{one.id}: {said[one.id]}" for one in STRATEGIES.values() if one.group == letter)])
        for letter, name in GROUPS.items()
    )


def groups_of(strategies: frozenset[str]) -> frozenset[str]:
    """Letters of the groups of some strategies.

    >>> sorted(groups_of(frozenset({"A-1", "A-4", "F-5"})))
    ['A', 'F']
    """
    return frozenset(STRATEGIES[name].group for name in strategies)


def f1(a: Sequence[bool], b: Sequence[bool]) -> float | None:
    """Twice the replies that both label over the labels of either, symmetric; `None` where nobody labels one.

    >>> f1([True, True, False, False], [True, False, True, False])
    0.5
    """
    labels = sum(a) + sum(b)
    return 2 * sum(x and y for x, y in zip(a, b, strict=True)) / labels if labels else None


def _replies(dialogues: Sequence[Transcript]) -> list[_Reply]:
    """The replies in which something is said."""
    replies: list[_Reply] = []
    for dialogue in dialogues:
        message = dialogue.opening or ""
        for turn in dialogue.turns:
            if turn.reply.strip():
                replies.append(_Reply(dialogue, turn, message))
            message = turn.message or ""
    return replies


def _is_read(dialogue: Transcript) -> bool:
    return not lacks_english(" ".join(turn.reply for turn in dialogue.turns))


def labels_by_reader(dialogues: Sequence[Transcript]) -> dict[tuple[str, int], frozenset[str]]:
    """What the embedded reader reads, none in a hostile reply; without dialogues that are not in English."""
    reader = embedded_reader()
    labels: dict[tuple[str, int], frozenset[str]] = {}
    for dialogue in filter(_is_read, dialogues):
        messages = [dialogue.opening] if dialogue.opening is not None else []
        replies: list[str] = []
        for turn in dialogue.turns:
            if turn.reply.strip():
                reading = reader.read(turn.reply, Context(tuple(messages), tuple(replies)))
                hostile = reading.aspects[ASPECTS.index("hostility")] >= HOSTILE
                labels[dialogue_key(dialogue), turn.index] = frozenset(() if hostile else reading.strategies)
            replies.append(turn.reply)
            if turn.message is not None:
                messages.append(turn.message)
    return labels


def labels_by_judge(dialogues: Sequence[Transcript], answers: Answers) -> dict[tuple[str, int], frozenset[str]]:
    """What a judge labelled; a reply has the strategies of all its passages."""
    given = {one.key: answers[key] for one in _replies(dialogues) if (key := _question_key(one)) in answers}
    return {key: frozenset(name for part in one["passages"] for name in part["strategies"]) for key, one in given.items()}


def shares(dialogues: Sequence[Transcript], labels: Labels) -> dict[str, Estimate | None]:
    """Percent of labelled replies that use each group (by letter) and strategy (by id), with intervals over scenarios."""
    labelled = [(one.dialogue.scenario, labels[one.key]) for one in _replies(dialogues) if one.key in labels]
    scenarios = [scenario for scenario, _ in labelled]

    def share(used: Sequence[bool]) -> Estimate | None:
        return estimate([100.0 * one for one in used], scenarios, within=(0.0, 100.0))

    return {
        **{letter: share([letter in groups_of(names) for _, names in labelled]) for letter in GROUPS},
        **{name: share([name in names for _, names in labelled]) for name in STRATEGIES},
    }


def _question_key(reply: _Reply) -> str:
    return f"{dialogue_key(reply.dialogue)}|{reply.turn.index}"


def _questions(material: Material, answers: Answers) -> list[Question]:
    prompt = load_prompt("heartloop.validity", "strategies")

    def content(one: _Reply) -> str:
        return prompt.fill(strategies=_descriptions(), message=one.message or "(nothing yet)", reply=one.turn.reply)

    return [
        question(_question_key(one), [Message(role="user", content=content(one))], _Labelled)
        for one in _replies(material.dialogues)
    ]


def _lacks(material: Material) -> str | None:
    if not _replies(material.dialogues):
        return "no model said anything"
    if not any(name != EMBEDDED for name in material.judges) and not any(map(_is_read, material.dialogues)):
        return "the embedded reader reads English only; pass --judge service/model"
    return None


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    labels: dict[str, Labels] = {READER: labels_by_reader(material.dialogues)}
    labels |= {judge: labels_by_judge(material.dialogues, given) for judge, given in answers.items() if judge != EMBEDDED}
    replies = len(_replies(material.dialogues))
    notes = [_said(labels, replies, len(material.models))]
    notes += [f"{name} labelled no reply." for name, mine in labels.items() if not mine]
    labels = {name: mine for name, mine in labels.items() if mine}
    record: dict[str, Any] = {"replies": replies, "shares": {}, "agreement": {}}
    page: list[Block] = []
    summary: Table | None = None
    for name, mine in labels.items():
        by_model = {model: shares([one for one in material.dialogues if one.model == model], mine) for model in material.models}
        by_model = {model: used for model, used in by_model.items() if used["A"] is not None}
        record["shares"][name] = {
            model: {key: one._asdict() for key, one in used.items() if one is not None} for model, used in by_model.items()
        }
        page += _drawn(name, by_model, material.models)
        summary = summary or _summary(name, by_model)
    for a, b in combinations(labels, 2):
        table, numbers = _agreement(a, b, labels[a], labels[b])
        page.append(table)
        record["agreement"][f"{a} and {b}"] = numbers
    return Result(record, tuple(notes), summary or Table("Nothing labelled", (), ()), tuple(page))


def _said(labels: Mapping[str, Labels], replies: int, models: int) -> str:
    words = f"{amount(replies, 'reply', 'replies')} of {amount(models, 'model')}"
    labelled = ", ".join(f"{name} labelled {len(mine)}" for name, mine in labels.items())
    unlabelled = sum(not names for names in labels[READER].values())
    return f"{words}: {labelled}. In {unlabelled} of its replies the {READER} names no strategy."


def _drawn(name: str, by_model: Mapping[str, Mapping[str, Estimate | None]], models: Sequence[str]) -> list[Block]:
    rows: list[Row] = []
    for letter, group in GROUPS.items():
        rows.append(Row(f"{letter} {group}", tuple(used[letter] for used in by_model.values())))
        rows += [
            Row(f"{one.id} {one.name}", tuple(used[one.id] for used in by_model.values()))
            for one in STRATEGIES.values()
            if one.group == letter
        ]
    bars = tuple(
        Series(
            model,
            tuple(
                Point(_SHORT[letter], cell.mean, cell.low, cell.high) for letter in GROUPS if (cell := used[letter]) is not None
            ),
            models.index(model),
        )
        for model, used in by_model.items()
    )
    return [
        Chart(
            f"Groups of strategies, by the {name}" if name == READER else f"Groups of strategies, by {name}",
            "bars", bars, "group", "% of replies", 0.0, 100.0,
        ),
        Table(
            f"Strategies, by the {name}" if name == READER else f"Strategies, by {name}",
            tuple(Column(model, digits=0) for model in by_model), tuple(rows),
            help="Percent of the replies that use it; a group counts once a reply. A reply can use several.",
            corner="Group and strategy",
        ),
    ]  # fmt: skip


def _summary(name: str, by_model: Mapping[str, Mapping[str, Estimate | None]]) -> Table:
    rows = tuple(
        Row(model, tuple(None if (cell := used[letter]) is None else cell.mean for letter in GROUPS))
        for model, used in by_model.items()
    )
    return Table(f"% of replies that use a group, by {name}", tuple(Column(letter, digits=0) for letter in GROUPS), rows)


def _agreement(a: str, b: str, mine: Labels, theirs: Labels) -> tuple[Table, dict[str, Any]]:
    """F1 and alpha for every group and strategy over the replies that both labelled."""
    both = [key for key in mine if key in theirs]
    rows: list[Row] = []
    numbers: dict[str, Any] = {"replies": len(both)}

    def add(key: str, head: str, x: list[bool], y: list[bool]) -> None:
        agreed = {"f1": f1(x, y), "alpha": _alpha(x, y), "first": sum(x), "second": sum(y)}
        numbers[key] = agreed
        rows.append(Row(head, tuple(agreed.values())))

    names = tuple(STRATEGIES)
    add(
        "all", "All strategies", [name in mine[key] for key in both for name in names],
        [name in theirs[key] for key in both for name in names],
    )  # fmt: skip
    for letter, group in GROUPS.items():
        add(
            letter, f"{letter} {group}", [letter in groups_of(mine[key]) for key in both],
            [letter in groups_of(theirs[key]) for key in both],
        )  # fmt: skip
        for one in (one for one in STRATEGIES.values() if one.group == letter):
            add(one.id, f"{one.id} {one.name}", [one.id in mine[key] for key in both], [one.id in theirs[key] for key in both])
    columns = (Column("F1", digits=2), Column("Alpha", digits=2), Column(f"n, {a}"), Column(f"n, {b}"))
    table = Table(
        f"Agreement of {a} and {b}", columns, tuple(rows), corner="Group and strategy",
        help=f"Over {amount(len(both), 'reply', 'replies')} that both labelled. F1 and Krippendorff's alpha are 1 where they "
        "always agree; alpha is 0 by chance. n: replies with the label. Below 10 of either, read neither.",
    )  # fmt: skip
    return table, numbers


def _alpha(x: Sequence[bool], y: Sequence[bool]) -> float | None:
    try:
        return krippendorff_alpha([x, y])
    except UseError:  # nobody ever used it, or both always
        return None


_SHORT: Mapping[str, str] = {
    "A": "Question", "B": "Empathy", "C": "Disclosure", "D": "Comfort", "E": "Affirmation", "F": "Suggestions",
    "G": "Information",
}  # fmt: skip
"""Names of the groups that fit below a bar."""

STRATEGIES_SUITE = RunSuite(
    "How do the models support?",
    "The share of replies that use each of 24 support strategies in 7 groups. The embedded reader labels the replies without a "
    "judge; judges, where given, split each reply into passages and label these. It describes a style and is no score.",
    "Sentient Agent as a Judge, Table 4 and Appendix G",
    _result,
    lacks=_lacks,
    questions=_questions,
)
