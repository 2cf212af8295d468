"""Suite `difficulty`: how hard is each user simulator to please, and how openly does it speak (RLVER, Appendix D.2, Table 3)?

Acceptance is the share of replies after which the score rises, on the same contexts: the same reply after the same messages, as a
run and its `heartloop rejudge` have them. Expression is a judge's mark from 0 to 10, which reads the person's need (of an
environment without a need of its own, the scenario), thoughts and message. Departures: the change is that of the score;
in a rejudged run each judge keeps its own state; the paper does not say how many contexts it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from heartloop.core.blocks import Block, Column, Estimate, Row, Table
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.prompts import load_prompt
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import chance
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.scoring.statistics import estimate, paired_difference
from heartloop.validity.suites import (
    changes,
    dialogue_key,
    means,
    needs_judge,
    only_means,
    question,
    recorded,
    run_suite,
    thoughts_of,
)

MESSAGES = 50
"""Messages of each user of which expression is asked; ours."""
PUBLISHED = {"acceptance": (52.4, 33.1), "expression": (78.6, 63.6)}
"""Percent for the vanilla and the challenging user simulator (RLVER, Table 3)."""
_TOP = 10
_PERCENT = (0.0, 100.0)
_MARKS = ("attitude", "thoughts", "needs", "overall")


class Judged(NamedTuple):
    context: tuple[Any, ...]
    """Model, scenario, and every message up to the reply: equal for the same reply after the same messages."""
    scenario: str
    change: float


class _Expression(BaseModel, extra="forbid"):
    why: Annotated[str, Field(max_length=300)]
    attitude: Annotated[int, Field(ge=0, le=_TOP)]
    thoughts: Annotated[int, Field(ge=0, le=_TOP)]
    needs: Annotated[int, Field(ge=0, le=_TOP)]
    overall: Annotated[int, Field(ge=0, le=_TOP)]


def judged_replies(material: Material) -> dict[str, list[Judged]]:
    """The replies that each user judged, by user; several dialogues with the same context count as one each."""
    found: dict[str, list[Judged]] = {}
    for dialogue in material.dialogues:
        messages = [dialogue.opening]
        for turn, change in changes(material.spec, dialogue):
            context = (dialogue.model, dialogue.scenario, dialogue.repeat, *messages, turn.reply)
            found.setdefault(dialogue.user, []).append(Judged(context, dialogue.scenario, change))
            messages += [turn.reply, turn.message]
    return found


def same_contexts(replies: Mapping[str, Sequence[Judged]]) -> dict[str, list[Judged]]:
    """The replies whose context every user judged, in one order for all."""
    by_context = {user: {one.context: one for one in mine} for user, mine in replies.items()}
    first = next(iter(by_context.values()), {})
    shared = [context for context in first if all(context in mine for mine in by_context.values())]
    return {user: [mine[context] for context in shared] for user, mine in by_context.items()}


def _messages(material: Material, user: str) -> Iterator[tuple[str, Transcript, Turn]]:
    """The messages that a user wrote itself with thoughts, sampled by their keys: key, dialogue, turn."""
    found = {
        f"{dialogue_key(dialogue)}|{place}": (dialogue, turn)
        for dialogue in material.dialogues
        if dialogue.user == user and dialogue.models.get("user", user) == user and dialogue.scenario in material.scenarios
        for place, turn in enumerate(dialogue.turns)
        if turn.message and thoughts_of(material.spec, turn)
    }
    for key in sorted(found, key=lambda key: chance("difficulty", key))[:MESSAGES]:
        yield key, *found[key]


def _questions(material: Material, answers: Answers) -> list[Question]:
    if needs_judge(material) is not None:
        return []
    prompt = load_prompt("heartloop.validity", "expression")
    need_of = material.spec.scenarios.need or material.spec.scenarios.text
    asked = []
    for user in material.users:
        for key, dialogue, turn in _messages(material, user):
            text = prompt.fill(
                needs=need_of(material.scenarios[dialogue.scenario]),
                thoughts=thoughts_of(material.spec, turn),
                message=turn.message or "",
            )
            asked.append(question(key, text, _Expression))
    return asked


def _accepted(replies: Sequence[Judged]) -> list[float]:
    return [100.0 * (one.change > 0) for one in replies]


def _verdict(differences: Sequence[Row]) -> str:
    """Whether the users accept differently often, for each pair."""
    sentences = []
    for row in differences:
        cell = row.cells[0]
        if isinstance(cell, Estimate) and cell.low is not None and cell.high is not None:
            shown = "easier" if cell.low > 0 else "harder" if cell.high < 0 else "no difference shown"
            sentences.append(f"{row.head}, acceptance on the same contexts: {cell.words(1)} points, {shown}.")
    return " ".join(sentences) or "It is not shown which user is harder: no context was judged by all."


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    every = judged_replies(material)
    same = same_contexts(every)
    first, *others = material.users
    count = len(same.get(first, ()))
    notes = [
        f"{amount(count, 'context')} that every user judged; acceptance is the share after which the score rises. "
        f"Published: {PUBLISHED['acceptance'][0]} % and {PUBLISHED['acceptance'][1]} % for a challenging user."
    ]
    if any(len(replies) > count for replies in every.values()):
        notes.append("All replies are of other contexts for each user, so that their acceptance does not compare users.")
    rows: list[Row] = []
    for user in material.users:
        shared, mine = same.get(user, []), [one for one in material.dialogues if one.user == user]
        acceptance = (
            estimate(_accepted(replies), [one.scenario for one in replies], within=_PERCENT)
            for replies in (shared, every.get(user, []))
        )
        change = estimate([one.change for one in shared], [one.scenario for one in shared])
        score = estimate([material.points(one) for one in mine], [one.scenario for one in mine])
        rows.append(Row(user, (*acceptance, change, score)))
    differences: list[Row] = []
    for other in others if count else ():
        sides = [_accepted(same[user]) for user in (first, other)]
        difference = paired_difference(*sides, clusters=[one.scenario for one in same[first]]).of(count)
        differences.append(Row(f"{other} less {first}", (difference,)))
    columns = (Column("Same contexts, %"), Column("All replies, %"), Column("Change", digits=2), Column("Score"))
    table = Table(
        "Acceptance", columns, tuple(rows), corner="User",
        help="Replies after which the score rises; mean change of the score on the same contexts, and final score, in points.",
    )  # fmt: skip
    page: list[Block] = [table]
    if differences:
        page.append(
            Table("Differences on the same contexts", (Column("Acceptance, points"),), tuple(differences), corner="Users")
        )
    names = ("same", "every", "change", "score")
    record: dict[str, Any] = {
        "same_contexts": count,
        "users": {row.head: {**dict.fromkeys(names), **recorded(row, names)} for row in rows},
        "differences": {row.head: recorded(row, ("difference",))["difference"] for row in differences},
        "expression": {},
    }
    for judge, given in answers.items():
        marked = _expression(material, judge, given, notes)
        if marked:
            record["expression"][judge] = {row.head: recorded(row, _MARKS) for row in marked}
            marks = tuple(Column(mark.capitalize()) for mark in _MARKS)
            page.append(Table(f"Expression of needs, {judge}", marks, tuple(marked), corner="User", help="Percent of 10."))
    return Result(record, notes, table._replace(rows=only_means(rows)), page, _verdict(differences))


def _expression(material: Material, judge: str, given: Answers, notes: list[str]) -> list[Row]:
    """Each user's marks by one judge, in percent of 10."""
    rows: list[Row] = []
    for user in material.users:
        marked = [(dialogue.scenario, given[key]) for key, dialogue, _ in _messages(material, user) if key in given]
        if not marked:
            notes.append(f"{judge} marked no message of {user}: it wrote none itself with thoughts, or no answer could be read.")
            continue
        numbers = [(scenario, [100 / _TOP * answer[mark] for mark in _MARKS]) for scenario, answer in marked]
        rows.append(Row(user, means(numbers, within=_PERCENT)))
    if rows:
        overall = ", ".join(f"{row.head} {cell.mean:.1f} %" for row in rows if isinstance(cell := row.cells[-1], Estimate))
        notes.append(
            f"Expression of needs by {judge}: {overall}. Published: {PUBLISHED['expression'][0]} % and "
            f"{PUBLISHED['expression'][1]} %."
        )
    return rows


def _lacks(material: Material) -> str | None:
    if len(material.users) < 2:
        return "it compares users; pass runs with two user simulators, or a run and its heartloop rejudge"
    return None


DIFFICULTY = run_suite("difficulty", _result, lacks=_lacks, questions=_questions)
