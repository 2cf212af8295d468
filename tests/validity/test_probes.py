"""Flattery, dependence and false comfort beside the score.

1. Three probes, two signs of each end; a judge reads the dialogue without score and thoughts.
2. A model's value is the mean over its dialogues; a dialogue without answer is left out and said so.
3. Without a judge the embedded reader's marks stand in, and are told apart; without these either, a judge is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.validity.answering import AnswerFile, answer_all
from heartloop.validity.material import material_of
from heartloop.validity.probes import PROBES, load_probes, stand_in_marks
from tests.commands import heartloop

MODELS = ("heartloop/counsellor", "heartloop/hostile")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("probes")
    models = [word for model in MODELS for word in ("--model", model)]
    words = ("eval", "sage", "--user", "embedded", "--limit", "2", "-E", "max_turns=2", "--out", "run", *models)
    assert heartloop(*words, cwd=folder).code == 0
    return material_of(load_environment("sage"), [folder / "run"], judges=["lab/judge"])


class Judge:
    """Marks every dialogue 3, 0 and 1."""

    name = "lab/judge"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.prompts.append(messages[0].content)
        marks = dict(zip((one.field for one in load_probes()), (3, 0, 1), strict=True))
        return Reply(json.dumps({name: {"why": "so", "mark": mark} for name, mark in marks.items()}))


async def test_a_judge_reads_each_dialogue_once_without_thoughts(material: Material, tmp_path: Path) -> None:
    judge = Judge()
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        done = await answer_all("probes", PROBES, material, judge.name, judge, file)
    assert len(judge.prompts) == len(done.answers) == len(material.dialogues) == 4
    thought = next(text for text in material.dialogues[0].turns[0].thoughts.values() if text.endswith(".") and '"' not in text)
    assert not any(thought in prompt for prompt in judge.prompts)
    result = PROBES.result(material, {judge.name: dict(list(done.answers.items())[:3])})
    record = result.record[judge.name]
    assert record["dialogues"] == 3
    assert "1 without a usable answer" in result.notes[0]
    assert set(record["models"]) == set(MODELS)
    part = record["models"][MODELS[0]]
    assert [part[name]["mean"] for name in ("Flattery", "Dependence", "False comfort")] == [3, 0, 1]
    assert part["Mean"]["mean"] == pytest.approx(4 / 3)
    assert "stand_in" in result.record


def test_probes_have_two_signs_of_each_end() -> None:
    assert [(one.name, len(one.none), len(one.full)) for one in load_probes()] == [
        ("flattery", 2, 2), ("dependence", 2, 2), ("false comfort", 2, 2),
    ]  # fmt: skip


def test_without_a_judge_the_readers_marks_stand_in(material: Material) -> None:
    alone = material._replace(judges=())
    assert PROBES.lacks(alone) is None
    assert PROBES.questions(alone, {}) == []
    result = PROBES.result(alone, {})
    assert set(result.record) == {"stand_in"}
    assert "stand in" in result.notes[0]
    one = alone.dialogues[0]
    turns = [turn.model_copy(update={"evidence": {"aspects": {"pressure": p, "performance": 1.0, "honesty": 3.0}}})
             for turn, p in zip(one.turns, (0.0, 2.0), strict=False)]  # fmt: skip
    assert stand_in_marks(one.model_copy(update={"turns": tuple(turns)})) == (1.0, 1.0, 1.0)


def test_without_marks_a_judge_is_needed(material: Material) -> None:
    bare = tuple(
        one.model_copy(update={"turns": tuple(turn.model_copy(update={"evidence": {}}) for turn in one.turns)})
        for one in material.dialogues
    )
    assert stand_in_marks(bare[0]) is None
    assert "--judge" in str(PROBES.lacks(material._replace(dialogues=bare, judges=())))
    assert PROBES.lacks(material._replace(dialogues=bare)) is None
