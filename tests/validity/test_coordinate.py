"""The social-cognition coordinate (SAGE, Appendix G)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import Chart, Text
from heartloop.core.dialogue import Sampling
from heartloop.environments.suites import Material
from heartloop.evaluation.scores import group_of
from heartloop.validity.coordinate import COORDINATE, successes_and_failures
from heartloop.validity.strategies import LABELS, labels_by_reader
from tests.validity.judges import Judge, ask

PROFILE = {"role": "a nurse", "personality": "calm", "distance": "near", "summary": "It stays with people."}


class Placing(Judge):
    """Places every profile at x -0.5, 0 and 0.2 by the seed, y at 1; gives no reason for the first `fails` dialogues."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__(self.placed)
        self.fails = fails
        self.asked: Counter[str] = Counter()
        self.profiled: list[str] = []
        self.placings: list[str] = []

    def placed(self, prompt: str, sampling: Sampling) -> Any:
        if PROFILE["summary"] in prompt:
            self.asked["place"] += 1
            self.placings.append(prompt)
            numbers = range(1, prompt.count("ASSISTANT ") + 1)
            return {f"assistant_{n}": {"why": "so", "x": (-0.5, 0.0, 0.2)[sampling.seed or 0], "y": 1.0 / n} for n in numbers}
        if "- Went " in prompt:
            self.asked["profile"] += 1
            self.profiled.append(prompt)
            return PROFILE
        self.asked["reason"] += 1
        return "none" if self.asked["reason"] <= 3 * self.fails else {"reason": "It listened."}


def scored(material: Material, scores: Sequence[tuple[float, str]]) -> Material:
    """One model's dialogues, each with a score and a hidden intention."""
    one = material.dialogues[0]
    return material._replace(
        dialogues=tuple(
            one.model_copy(update={"score": score, "repeat": n, "facts": {**one.facts, material.spec.scale.group: intention}})
            for n, (score, intention) in enumerate(scores)
        )
    )


def test_five_successes_and_five_failures_of_each_kind_are_drawn_at_random(material: Material) -> None:
    """SAGE, Appendix C: of emotional (listen, praise) and of rational intentions (advice); 20 of 60 dialogues."""
    scores = [(score, intention) for intention in ("listen", "praise", "advice", "advice") for score in [100.0] * 6 + [5.0] * 6]
    made = scored(material, [*scores, *((50.0, "listen") for _ in range(12))])
    successes, failures = successes_and_failures(made, made.models[0])
    for side, score in ((successes, 100.0), (failures, 5.0)):
        assert {one.score for one in side} == {score}
        assert Counter(group_of(one) == "advice" for one in side) == {True: 5, False: 5}
    assert [one.repeat for one in successes] != sorted(one.repeat for one in successes), "at random"
    assert not {one.key for one in successes} & {one.key for one in failures}


def test_where_successes_are_too_few_the_best_follow(material: Material) -> None:
    made = scored(material, [(100.0, "listen"), (90.0, "praise"), (60.0, "listen"), (9.0, "praise"), (70.0, "advice")])
    successes, failures = successes_and_failures(made, made.models[0])
    assert ([x.score for x in successes], [x.score for x in failures]) == ([100.0, 90.0], [9.0, 60.0])  # one dialogue of advice
    alone = scored(material, [(100.0, "listen"), (9.0, "advice")])  # no kind has two
    assert [[x.score for x in side] for side in successes_and_failures(alone, alone.models[0])] == [[100.0], [9.0]]
    one = scored(material, [(100.0, "listen")])
    assert successes_and_failures(one, one.models[0]) == ([], [])
    assert "--judge" in (COORDINATE.lacks(material._replace(judges=())) or "")
    assert "no model has two" in (COORDINATE.lacks(one) or "")


async def test_reasons_then_profiles_then_three_placings_of_all_models(material: Material, tmp_path: Path) -> None:
    judge, path = Placing(), tmp_path / "answers.jsonl"
    await ask(COORDINATE, material, judge, path, at_most=2)
    assert judge.asked == {"reason": 2}, "a profile waits for the reasons"
    done = await ask(COORDINATE, material, judge, path)
    assert (judge.asked["profile"], judge.asked["place"], done.open, done.failed) == (3, 3, 0, {})
    assert judge.profiled[0].count("Went better") == judge.profiled[0].count("Went worse") > 0
    assert (await ask(COORDINATE, material, judge, path)).asked == 0
    result = COORDINATE.result(material, {judge.name: done.answers})
    places = [(one["x"], one["y"], one["n"], one["spread"]) for one in result.record[judge.name].values()]
    assert places == [pytest.approx((-0.1, y, 3, 0.7)) for y in (1.0, 1 / 2, 1 / 3)]
    chart = next(block for block in result.page if isinstance(block, Chart))
    assert (chart.x_low, chart.x_high, chart.low, chart.high) == (-1, 1, -1, 1)
    assert [PROFILE["summary"] in block.paragraphs for block in result.page if isinstance(block, Text)] == [True] * 3


async def test_the_placing_reads_the_strategies_that_a_judge_labelled_in_the_same_command(
    material: Material, tmp_path: Path
) -> None:
    labelled = {key: {"passages": [{"strategies": ["C-2"]}]} for key in labels_by_reader(material.dialogues)}
    for earlier, expected in (({}, 0), ({"strategies": {"lab/other": labelled}}, 3)):
        judge = Placing()
        await ask(COORDINATE, material._replace(earlier=earlier), judge, tmp_path / f"{expected}.jsonl")
        assert judge.placings[0].count(f"{LABELS['C-2'].lower()} 100 %.") == expected
        assert judge.placings[0].count("Share of its replies that use a strategy") == 3
        assert not any(model in judge.placings[0] for model in material.models)


async def test_a_model_without_most_of_its_reasons_is_not_placed(material: Material, tmp_path: Path) -> None:
    judge = Placing(fails=2)  # of the first model's dialogues
    done = await ask(COORDINATE, material, judge, tmp_path / "answers.jsonl")
    result = COORDINATE.result(material, {judge.name: done.answers})
    assert list(result.record[judge.name]) == ["heartloop/assistant", "heartloop/hostile"]
    assert any("heartloop/counsellor" in note for note in result.notes)
