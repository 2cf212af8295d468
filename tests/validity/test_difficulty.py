"""Difficulty of users (RLVER, Appendix D.2)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import HeartloopError
from heartloop.environments.report import published
from heartloop.environments.suites import Material
from heartloop.validity.difficulty import DIFFICULTY, PUBLISHED, judged_replies, same_contexts
from tests.validity.judges import Judge, ask

STRICT = "lab/strict"


def strict(dialogue: Transcript) -> Transcript:
    """The same dialogue judged by a user in whom every reply but the last lowers the mood by 1; the last raises it by 1."""
    emotion, turns = dialogue.start["emotion"], []
    for turn in dialogue.turns:
        change = 1.0 if turn.index == len(dialogue.turns) - 1 else -1.0
        emotion += change
        turns.append(turn.model_copy(update={"state": {"emotion": emotion}, "change": {"emotion": change}}))
    models = {**dialogue.models, "judge": STRICT}
    return dialogue.model_copy(update={"turns": tuple(turns), "user": STRICT, "score": emotion, "models": models})


@pytest.fixture
def two(counsellor: Material) -> Material:
    """Each dialogue of one user and the same of another."""
    return counsellor._replace(dialogues=(*counsellor.dialogues, *map(strict, counsellor.dialogues)))


def test_a_rejudged_run_shares_all_contexts(counsellor: Material, two: Material) -> None:
    every = judged_replies(two)
    turns = sum(len(one.turns) for one in counsellor.dialogues)
    assert [len(mine) for mine in same_contexts(every).values()] == [turns, turns]
    record = DIFFICULTY.result(two, {}).record
    assert record["same_contexts"] == turns
    assert record["users"][STRICT]["same"]["mean"] == pytest.approx(100 * len(counsellor.dialogues) / turns)
    changes = [turn.change["emotion"] for one in counsellor.dialogues for turn in one.turns if turn.change]
    assert [one.change for one in every["embedded"]] == pytest.approx(changes), "those of the score"
    embedded = 100 * sum(change > 0 for change in changes) / turns
    assert record["users"]["embedded"]["same"]["mean"] == pytest.approx(embedded, abs=12), "scenarios count alike"
    strict_mean, mean = (record["users"][user]["same"]["mean"] for user in (STRICT, "embedded"))
    assert record["differences"][f"{STRICT} less embedded"]["mean"] == pytest.approx(strict_mean - mean)


def test_after_another_message_the_context_is_another(counsellor: Material) -> None:
    apart = [
        one.model_copy(update={"turns": tuple(t.model_copy(update={"message": f"{t.message} Well."}) for t in one.turns)})
        for one in map(strict, counsellor.dialogues)
    ]
    material = counsellor._replace(dialogues=(*counsellor.dialogues, *apart))
    assert len(same_contexts(judged_replies(material))[STRICT]) == len(counsellor.dialogues), "first replies alone"
    assert "other contexts" in DIFFICULTY.result(material, {}).notes[1]


async def test_a_judge_marks_the_messages_that_the_user_wrote(counsellor: Material, two: Material, tmp_path: Path) -> None:
    def answer(prompt: str, *_: object) -> object:
        refused = prompt.startswith(judge.prompts[0])
        return "no" if refused else {"why": "so", "attitude": 4, "thoughts": 6, "needs": 8, "overall": 5}

    judge = Judge(answer)
    done = await ask(DIFFICULTY, two, judge, tmp_path / "answers.jsonl")
    spoken = [turn.message for one in counsellor.dialogues for turn in one.turns if turn.message]
    assert len(set(judge.prompts)) == len(spoken)
    assert len(done.failed) == 1
    result = DIFFICULTY.result(two, {judge.name: done.answers})
    marks = result.record["expression"][judge.name]
    assert list(marks) == ["embedded"], "the rejudged run has the other user's messages"
    assert [marks["embedded"][name]["mean"] for name in ("attitude", "thoughts", "needs", "overall")] == [40, 60, 80, 50]
    assert marks["embedded"]["overall"]["n"] == len(spoken) - 1
    assert any(STRICT in note for note in result.notes)


async def test_a_judge_reads_the_need_alone_and_no_scenario(two: Material) -> None:
    """RLVER, Appendix D.2: the prompt has the need, the thoughts and the reply."""
    material = two._replace(judges=("lab/judge",))
    judge = Judge(lambda *_: "no answer")
    for question in DIFFICULTY.questions(material, {}):
        with contextlib.suppress(HeartloopError):
            await question.ask(judge, None)
    read = "\n".join(judge.prompts)
    for scenario in material.scenarios.values():
        assert f"USER {scenario.intention_text}." in read
        assert not any(text in read for text in (scenario.goal, scenario.background.event, scenario.persona.habits))


def test_two_users_have_questions_of_their_own(two: Material) -> None:
    alike = [one.model_copy(update={"models": {}}) for one in two.dialogues]
    keys = [one.key for one in DIFFICULTY.questions(two._replace(dialogues=tuple(alike)), {})]
    assert len(keys) == len(set(keys)) == sum(bool(turn.message) for one in two.dialogues for turn in one.turns)


def test_one_user_is_not_enough(counsellor: Material, two: Material) -> None:
    assert "two user simulators" in str(DIFFICULTY.lacks(counsellor))
    assert DIFFICULTY.lacks(two) is None
    assert DIFFICULTY.questions(two._replace(judges=()), {}) == []


def test_the_published_figures_are_the_tables() -> None:
    rows: Any = published("heartloop.environments.sage", "rlver_table03_user_simulators")
    by_metric = {name: tuple(row["value"] for row in rows if row["metric"].startswith(name)) for name in ("Strategy", "Emotion")}
    assert {"acceptance": by_metric["Strategy"], "expression": by_metric["Emotion"]} == PUBLISHED
