"""Five capabilities on levels from 1 to 5, by any number of judges (RLVER, Appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from heartloop.core.blocks import Chart
from heartloop.core.dialogue import Sampling
from heartloop.environments.report import published
from heartloop.environments.suites import Material, Result
from heartloop.validity.capabilities import CAPABILITIES, checkpoints, judge_agreement, load_capabilities
from heartloop.validity.suites import dialogue_key, spoken
from tests.validity.judges import Judge, ask


def judge(name: str, material: Material, levels: Sequence[int], fails: str = "") -> Judge:
    """Places all dialogues of a model on one level, by the text of the dialogue, and the last capability one higher."""
    level_of = dict(zip(material.models, levels, strict=True))

    def answer(prompt: str, sampling: Sampling) -> object:
        dialogue = next(one for one in material.dialogues if spoken(one) in prompt)
        if dialogue_key(dialogue) == fails:
            return "I would rather not say."
        level, fields = level_of[dialogue.model], [one.name.replace(" ", "_") for one in load_capabilities()]
        return {name: {"why": "so", "level": min(5, level + (name == fields[-1]))} for name in fields}

    return Judge(answer, name)


async def result_of(material: Material, path: Path, *judges: Judge) -> Result:
    answers = {one.name: (await ask(CAPABILITIES, material, one, path)).answers for one in judges}
    return CAPABILITIES.result(material, answers)


def test_the_judges_of_the_paper_agree_as_printed() -> None:
    rows = published("heartloop.environments.sage", "rlver_table05_core_capability_by_judge")
    for one in load_capabilities():
        assert len(one.levels) == 5
        values: dict[str, dict[str, float]] = {}
        for row in rows:
            value = row[one.name.replace(" ", "_")]
            assert isinstance(value, float)
            values.setdefault(str(row["judge"]), {})[str(row["model"])] = value
        assert round(judge_agreement(values) or 0.0, 3) == one.published


def test_agreement_needs_two_judges_three_models_and_values_that_differ() -> None:
    mine, two = {"a": 1.0, "b": 2.0, "c": 4.0}, {"a": 1.0, "b": 2.0}
    for values in ({"j": mine}, {"j": two, "k": two}, {"j": mine, "k": dict.fromkeys(mine, 3.0)}):
        assert judge_agreement(values) is None


async def test_a_model_has_the_mean_over_judges(material: Material, tmp_path: Path) -> None:
    judges = judge("lab/a", material, (5, 3, 1)), judge("lab/b", material, (4, 3, 2))
    result = await result_of(material, tmp_path / "answers.jsonl", *judges)
    assert [len(one.prompts) for one in judges] == [12, 12]
    insight = {model: parts["core insight"]["mean"] for model, parts in result.record["models"].items()}
    assert insight == {"heartloop/counsellor": 4.5, "heartloop/assistant": 3.0, "heartloop/hostile": 1.5}
    assert result.record["models"]["heartloop/hostile"]["style adaptability"]["mean"] == 2.5
    assert result.record["judges"]["lab/b"]["heartloop/counsellor"]["empathic depth"] == 4.0
    assert result.record["pearson_of_judges"]["core insight"] == pytest.approx(1.0)  # 5, 3, 1 and 4, 3, 2 lie on a line
    assert (result.record["dialogues"], result.record["left_out"]) == (12, 0)


async def test_the_published_form_is_the_mean_of_three_readings(counsellor: Material, tmp_path: Path) -> None:
    """RLVER, Appendices H.2 and I.2. By hand: readings of 2, 3 and 5 have the mean 10/3; the first is our single reading."""
    fields = [one.name.replace(" ", "_") for one in load_capabilities()]
    judge, path = (
        Judge(lambda _, sampling: {f: {"why": "so", "level": (2, 3, 5)[sampling.seed or 0]} for f in fields}),
        tmp_path / "a",
    )
    once = await ask(CAPABILITIES, counsellor, judge, path)
    assert (
        CAPABILITIES.result(counsellor, {judge.name: once.answers}).record["models"][counsellor.models[0]]["core insight"]["mean"]
        == 2
    )
    thrice = counsellor._replace(published=True)
    done = await ask(CAPABILITIES, thrice, judge, path)
    assert (once.asked, done.asked) == (4, 8)
    record = CAPABILITIES.result(thrice, {judge.name: done.answers}).record
    assert record["models"][counsellor.models[0]]["core insight"]["mean"] == pytest.approx(10 / 3)
    assert CAPABILITIES.result(thrice, {judge.name: once.answers}).record == {}, "a missing reading leaves the dialogue out"


async def test_a_dialogue_that_one_judge_could_not_place_is_left_out_and_counted(material: Material, tmp_path: Path) -> None:
    failing = dialogue_key(material.dialogues[0])
    judges = judge("lab/a", material, (5, 3, 1), fails=failing), judge("lab/b", material, (4, 3, 2))
    result = await result_of(material, tmp_path / "answers.jsonl", *judges)
    assert (result.record["dialogues"], result.record["left_out"]) == (11, 1)
    assert result.record["models"]["heartloop/counsellor"]["core insight"]["n"] == 3
    assert CAPABILITIES.result(material, {"lab/a": {}}).record == {}


async def test_a_capability_that_was_not_wanted_has_no_level(material: Material, tmp_path: Path) -> None:
    """One of two judges says so of one dialogue: the other four capabilities keep it, and nothing counts as 0."""
    skipped = material.dialogues[0]

    def answer(prompt: str, sampling: Sampling) -> object:
        fields = [one.name.replace(" ", "_") for one in load_capabilities()]
        levels = {name: {"why": "so", "level": 3} for name in fields}
        return levels | ({"solution_crafting": {"why": "only to be heard", "level": 0}} if spoken(skipped) in prompt else {})

    result = await result_of(material, tmp_path / "answers.jsonl", Judge(answer, "lab/a"), judge("lab/b", material, (3, 2, 1)))
    mine = result.record["models"][skipped.model]
    assert (mine["solution crafting"]["n"], mine["core insight"]["n"]) == (3, 4)
    assert mine["solution crafting"]["mean"] == 3.0
    assert (result.record["not_wanted"], result.record["left_out"]) == ({"solution crafting": 1}, 0)
    only = material._replace(dialogues=(skipped,))
    alone = await result_of(only, tmp_path / "one.jsonl", Judge(answer, "lab/a"))
    assert "solution crafting" not in alone.record["models"][skipped.model]
    assert alone.record["judges"]["lab/a"][skipped.model]["solution crafting"] is None


async def test_checkpoints_of_one_training_are_drawn_over_its_steps(material: Material, tmp_path: Path) -> None:
    names = dict(zip(material.models, (f"checkpoint:runs/a/global_step_{step}/hf" for step in (40, 20, 5)), strict=True))
    trained = material._replace(dialogues=tuple(one.model_copy(update={"model": names[one.model]}) for one in material.dialogues))
    assert list(checkpoints(trained.models).values()) == [dict(zip((5, 20, 40), reversed(names.values()), strict=True))]
    assert checkpoints(trained.models[:1]) == {}
    result = await result_of(trained, tmp_path / "answers.jsonl", judge("lab/a", trained, (5, 3, 1)))
    chart = next(block for block in result.page if isinstance(block, Chart) and block.form == "lines")
    assert [(point.x, point.y) for point in chart.series[0].points] == [(5, 1.0), (20, 3.0), (40, 5.0)]
    assert result.record["pearson_of_judges"]["core insight"] is None
