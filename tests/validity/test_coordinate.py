"""The social-cognition coordinate (SAGE, Appendix G)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import Chart, Text
from heartloop.core.dialogue import Sampling
from heartloop.environments.suites import Material
from heartloop.evaluation.scores import group_of
from heartloop.validity.coordinate import COORDINATE, best_and_worst
from tests.validity.judges import Judge, ask

PROFILE = {"role": "a nurse", "personality": "calm", "distance": "near", "summary": "It stays with people."}


class Placing(Judge):
    """Places a profile at x -0.5, 0 and 0.2 by the seed, y at 1; gives no reason for the first `fails` dialogues."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__(self.placed)
        self.fails = fails
        self.asked: Counter[str] = Counter()
        self.profiled: list[str] = []

    def placed(self, prompt: str, sampling: Sampling) -> Any:
        if PROFILE["summary"] in prompt:
            self.asked["place"] += 1
            return {"why": "so", "x": (-0.5, 0.0, 0.2)[sampling.seed or 0], "y": 1.0}
        if "- Went " in prompt:
            self.asked["profile"] += 1
            self.profiled.append(prompt)
            return PROFILE
        self.asked["reason"] += 1
        return "none" if self.asked["reason"] <= 3 * self.fails else {"reason": "It listened."}


def test_best_and_worst_are_chosen_in_turn_from_the_groups(material: Material) -> None:
    one = material.dialogues[0]
    fact = material.spec.scale.group
    scored = [(9, "a"), (8, "a"), (7, "a"), (1, "a"), (6, "b"), (5, "b"), (0, "c")]
    dialogues = [
        one.model_copy(update={"score": float(score), "repeat": score, "facts": {**one.facts, fact: group}})
        for score, group in scored
    ]
    best, worst = best_and_worst(dialogues, 3)
    assert [(int(x.score or 0), group_of(x)) for x in best] == [(9, "a"), (6, "b"), (8, "a")]
    assert [(int(x.score or 0), group_of(x)) for x in worst] == [(1, "a"), (5, "b"), (7, "a")]  # c has one dialogue alone
    best, worst = best_and_worst([dialogues[0], dialogues[6]])  # no group has two
    assert ([x.score for x in best], [x.score for x in worst]) == ([9.0], [0.0])
    assert best_and_worst(dialogues[:1]) == ([], [])
    assert "--judge" in (COORDINATE.lacks(material._replace(judges=())) or "")
    assert "no model has two" in (COORDINATE.lacks(material._replace(dialogues=material.dialogues[:1])) or "")


async def test_reasons_then_a_profile_then_three_placings(counsellor: Material, tmp_path: Path) -> None:
    judge, path = Placing(), tmp_path / "answers.jsonl"
    await ask(COORDINATE, counsellor, judge, path, at_most=2)
    assert judge.asked == {"reason": 2}, "a profile waits for the reasons"
    done = await ask(COORDINATE, counsellor, judge, path)
    assert (judge.asked["profile"], judge.asked["place"], done.open, done.failed) == (1, 3, 0, {})
    assert judge.profiled[0].count("Went better") == judge.profiled[0].count("Went worse") > 0
    assert (await ask(COORDINATE, counsellor, judge, path)).asked == 0
    result = COORDINATE.result(counsellor, {judge.name: done.answers})
    placed = result.record[judge.name]["heartloop/counsellor"]
    assert (placed["x"], placed["y"], placed["n"]) == (pytest.approx(-0.1), 1.0, 3)
    assert placed["spread"] == pytest.approx(0.7)
    chart = next(block for block in result.page if isinstance(block, Chart))
    assert (chart.x_low, chart.x_high, chart.low, chart.high) == (-1, 1, -1, 1)
    assert [PROFILE["summary"] in block.paragraphs for block in result.page if isinstance(block, Text)] == [True]


async def test_a_model_without_most_of_its_reasons_is_not_placed(material: Material, tmp_path: Path) -> None:
    judge = Placing(fails=2)  # of the first model's dialogues
    done = await ask(COORDINATE, material, judge, tmp_path / "answers.jsonl")
    result = COORDINATE.result(material, {judge.name: done.answers})
    assert list(result.record[judge.name]) == ["heartloop/assistant", "heartloop/hostile"]
    assert any("heartloop/counsellor" in note for note in result.notes)
