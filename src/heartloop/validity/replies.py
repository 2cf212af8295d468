"""Suites by the name of an environment whose judges grade one answer: every reply of other environments' dialogues, turn by turn.

A reply costs several calls, so they run by name only (`EnvironmentSpec.replies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from heartloop.core.blocks import Block, Chart, Column, Estimate, Point, Row, Series, Table, Text
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.grading import JudgedReply, ReplyJudging
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import Answers, Material, Question, Result, RunSuite
from heartloop.scoring.statistics import estimate, pearson_if_known
from heartloop.validity.suites import (
    changes,
    dialogue_key,
    fingerprint_of,
    needs_judge,
    only_means,
    recorded,
    said,
    titled,
    verdict_of,
)

if TYPE_CHECKING:
    import pandas

_NO_MESSAGE = "(Nothing yet: the supporter speaks first.)"


class _Reply(NamedTuple):
    key: str
    judged: JudgedReply
    model: str
    scenario: str
    turn: int
    change: float | None
    """Of the score by this reply, in points; `None` where the turn was not judged."""


def replies_of(material: Material) -> Iterator[_Reply]:
    for dialogue in material.dialogues:
        who, scenario = dialogue.facts.get("person", "somebody"), material.scenarios.get(dialogue.scenario)
        known = dialogue.facts.get("title", "") if scenario is None else material.spec.scenarios.text(scenario)
        thoughts = {call.turn: call.thinking for call in dialogue.calls if call.role == "policy"}
        felt = {turn.index: change for turn, change in changes(material.spec, dialogue)}
        spoken: list[tuple[str, str]] = []
        message = dialogue.opening
        for turn in dialogue.turns:
            before = f"\n\nThe dialogue before:\n{dialogue_text(spoken)}" if spoken else ""
            judged = JudgedReply(who, known + before, message or _NO_MESSAGE, thoughts.get(turn.index, ""), said(turn))
            key, number = f"{dialogue_key(dialogue)}|{turn.index}", turn.index
            yield _Reply(key, judged, dialogue.model, dialogue.scenario, number + 1, felt.get(number))
            spoken += [*([("PERSON", message)] if message else []), ("SUPPORTER", judged.response)]
            message = turn.message


def _questions(judging: ReplyJudging, material: Material, answers: Answers) -> list[Question]:
    async def ask(reply: JudgedReply, judge: ChatModel | None, sampling: Sampling | None) -> Mapping[str, Any]:
        if judge is None:
            raise UseError("this suite asks a language model; expected --judge service/model, not embedded")
        return await judging.ask(judge, sampling, reply)

    return [
        Question(one.key, fingerprint_of(one.judged, dict(judging.prompts)), partial(ask, one.judged))
        for one in replies_of(material)
    ]


def _mean(frame: pandas.DataFrame, name: str) -> Estimate | None:
    known = frame[[name, "scenario"]].dropna()
    return estimate(known[name].tolist(), known["scenario"].tolist())


def _result(judging: ReplyJudging, material: Material, answers: Mapping[str, Answers]) -> Result:
    import pandas

    replies, reward = list(replies_of(material)), judging.names[0]
    columns = tuple(Column(one.capitalize()) for one in judging.names)
    record: dict[str, Any] = {}
    notes: list[str] = []
    page: list[Block] = []
    summary: Table | None = None
    verdicts: list[str] = []
    for judge, given in answers.items():
        graded = [(*one[2:], *judging.numbers(given[one.key])) for one in replies if one.key in given]
        if not graded:
            notes.append(f"{judge} graded no reply.")
            continue
        frame = pandas.DataFrame(graded, columns=[*_Reply._fields[2:], *judging.names])
        models = {model: mine for model in material.models if len(mine := frame[frame["model"] == model])}
        rows = [
            Row(model, tuple(_mean(mine, name) for name in judging.names), material.models.index(model))
            for model, mine in models.items()
        ]
        felt = {name: pearson_if_known(*frame[[name, "change"]].dropna().T.to_numpy(float).tolist()) for name in judging.names}
        with_all = len(frame[[*judging.names]].dropna())
        notes.append(
            f"{judge} graded {len(graded)} of {amount(len(replies), 'reply', 'replies')}, {with_all} of them with thoughts."
        )
        verdicts.append(verdict_of(felt[reward], f"in the turns that {judge} rewards the person feels better"))
        title = titled("Replies", judge, answers)
        table = Table(title, columns, tuple(rows), help="Means over replies, with intervals over scenarios.")
        summary = summary or table._replace(rows=only_means(rows))
        by_turn = {model: mine.groupby("turn")[reward].mean() for model, mine in models.items()}
        lines = tuple(Series(row.head, tuple(starmap(Point, by_turn[row.head].items())), row.model) for row in rows)
        correlations = tuple(Row(name.capitalize(), (r and r.words(),)) for name, r in felt.items())
        page += [
            table,
            Chart(f"{title}: reward by turn", "lines", lines, "turn", "mean reward"),
            Table(f"{title}: correlation with what the person felt", (Column("Pearson's r"),), correlations, corner="Number",
                  help="With the change of the score in the same turn, over replies."),
        ]  # fmt: skip
        record[judge] = {
            "replies": len(graded),
            "with_thoughts": with_all,
            "pearson_change": {name: r and r._asdict() for name, r in felt.items()},
            "models": {row.head: recorded(row, judging.names) for row in rows},
            "reward_by_turn": {model: means.tolist() for model, means in by_turn.items()},
        }
    page.append(Text("How to read this", tuple(judging.reading)))
    return Result(record, notes, summary or Table("Nothing graded", (), ()), page, " ".join(verdicts))


def reply_suite(spec: EnvironmentSpec, judging: ReplyJudging) -> RunSuite:
    """The suite by the name of `spec`, which brings `judging`."""

    def lacks(material: Material) -> str | None:
        if material.spec is spec:
            return f"{spec.title} has graded its own answers; pass a run of another environment"
        return needs_judge(material)

    questions, result = partial(_questions, judging), partial(_result, judging)
    return RunSuite(judging.title, judging.about, judging.source, result, lacks, questions)
