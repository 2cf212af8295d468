"""Difficulty of users (RLVER, Appendix D.2).

1. Acceptance is the share of replies after which the score rises; users are compared on the same contexts alone.
2. A run and its rejudging share all contexts; runs that were played apart share those with the same messages before.
3. The difference is paired by context, its interval over scenarios.
4. A judge marks messages that the user wrote itself; a failed answer is left out.
5. Runs of one user are not enough.
6. The published figures are those of the shipped table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.environments.suites import Material
from heartloop.validity.answering import AnswerFile, answer_all
from heartloop.validity.difficulty import DIFFICULTY, PUBLISHED, judged_replies, same_contexts
from heartloop.validity.suites import material_of
from tests.commands import heartloop

STRICT = "lab/strict"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("difficulty")
    words = ("eval", "sage", "--user", "embedded", "--limit", "3", "-E", "max_turns=3", "--out", "run")
    assert heartloop(*words, "--model", "heartloop/counsellor", cwd=folder).code == 0
    return material_of(load_environment("sage"), [folder / "run"])


def strict(dialogue: Transcript) -> Transcript:
    """The same dialogue judged by a user in whom every reply but the last lowers the mood by 1; the last raises it by 1."""
    emotion, turns = dialogue.start["emotion"], []
    for turn in dialogue.turns:
        change = 1.0 if turn.index == len(dialogue.turns) - 1 else -1.0
        emotion += change
        turns.append(turn.model_copy(update={"state": {"emotion": emotion}, "change": {"emotion": change}}))
    models = {**dialogue.models, "judge": STRICT}
    return dialogue.model_copy(update={"turns": tuple(turns), "user": STRICT, "score": emotion, "models": models})


def two(played: Material) -> Material:
    return played._replace(dialogues=(*played.dialogues, *map(strict, played.dialogues)))


def test_a_rejudged_run_shares_all_contexts(played: Material) -> None:
    material = two(played)
    every = judged_replies(material)
    same = same_contexts(every)
    turns = sum(len(one.turns) for one in played.dialogues)
    assert [len(mine) for mine in same.values()] == [turns, turns]
    record = DIFFICULTY.result(material, {}).record
    assert record["same_contexts"] == turns
    assert record["users"][STRICT]["same"]["mean"] == pytest.approx(100 * len(played.dialogues) / turns)
    rises = [100.0 * (one.change > 0) for one in every["embedded"]]
    embedded = sum(rises) / len(rises)
    assert record["users"]["embedded"]["same"]["mean"] == pytest.approx(embedded, abs=12), "scenarios count alike"
    difference = record["differences"][f"{STRICT} less embedded"]
    means = [record["users"][user]["same"]["mean"] for user in (STRICT, "embedded")]
    assert difference["mean"] == pytest.approx(means[0] - means[1])


def test_changes_are_those_of_the_score(played: Material) -> None:
    for dialogue in played.dialogues:
        mine = [one for one in judged_replies(played)["embedded"] if one.scenario == dialogue.scenario]
        assert [one.change for one in mine] == pytest.approx([turn.change["emotion"] for turn in dialogue.turns if turn.change])


def test_after_another_message_the_context_is_another(played: Material) -> None:
    apart = [
        one.model_copy(update={"turns": tuple(t.model_copy(update={"message": f"{t.message} Well."}) for t in one.turns)})
        for one in map(strict, played.dialogues)
    ]
    material = played._replace(dialogues=(*played.dialogues, *apart))
    assert len(same_contexts(judged_replies(material))[STRICT]) == len(played.dialogues), "first replies alone"
    assert "other contexts" in DIFFICULTY.result(material, {}).notes[1]


class Judge:
    """Marks every message 4, 6, 8 and 5; refuses the first."""

    name = "lab/judge"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        if len(messages) == 1:
            self.prompts.append(messages[0].content)
        refused = messages[0].content == self.prompts[0]
        return Reply("no" if refused else json.dumps({"why": "so", "attitude": 4, "thoughts": 6, "needs": 8, "overall": 5}))


async def test_a_judge_marks_the_messages_that_the_user_wrote(played: Material, tmp_path: Path) -> None:
    material, judge = two(played)._replace(judges=(Judge.name,)), Judge()
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        done = await answer_all("difficulty", DIFFICULTY, material, judge.name, judge, file, max_connections=1)
    spoken = [turn.message for one in played.dialogues for turn in one.turns if turn.message]
    assert len(judge.prompts) == len(spoken)
    assert len(done.failed) == 1
    result = DIFFICULTY.result(material, {judge.name: done.answers})
    marks = result.record["expression"][judge.name]
    assert list(marks) == ["embedded"], "the rejudged run has the other user's messages"
    assert [marks["embedded"][name]["mean"] for name in ("attitude", "thoughts", "needs", "overall")] == [40, 60, 80, 50]
    assert marks["embedded"]["overall"]["n"] == len(spoken) - 1
    assert any(STRICT in note for note in result.notes)


def test_two_users_have_questions_of_their_own(played: Material) -> None:
    material = two(played)._replace(judges=(Judge.name,))
    alike = [one.model_copy(update={"models": {}}) for one in material.dialogues]
    keys = [one.key for one in DIFFICULTY.questions(material._replace(dialogues=tuple(alike)), {})]
    assert len(keys) == len(set(keys)) == 2 * sum(bool(turn.message) for one in played.dialogues for turn in one.turns)


def test_one_user_is_not_enough(played: Material) -> None:
    assert "two user simulators" in str(DIFFICULTY.lacks(played))
    assert DIFFICULTY.lacks(two(played)) is None
    assert DIFFICULTY.questions(two(played), {}) == []


def test_the_published_figures_are_the_tables() -> None:
    rows: Any = published("heartloop.environments.sage", "rlver_table03_user_simulators")
    by_metric = {name: tuple(row["value"] for row in rows if row["metric"].startswith(name)) for name in ("Strategy", "Emotion")}
    assert {"acceptance": by_metric["Strategy"], "expression": by_metric["Emotion"]} == PUBLISHED


def test_the_command_takes_a_run_and_its_rejudging(tmp_path: Path) -> None:
    words = ("eval", "sage", "--user", "embedded", "--limit", "2", "-E", "max_turns=2", "--out", "run")
    assert heartloop(*words, "--model", "heartloop/counsellor", cwd=tmp_path).code == 0
    alone = heartloop("validate", "run", "--suite", "difficulty", cwd=tmp_path)
    assert (alone.code, "two user simulators" in alone.err) == (2, True)
