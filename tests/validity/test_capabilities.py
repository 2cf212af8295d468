"""Five capabilities, each on levels from 1 to 5, by any number of judges (RLVER, Appendix B).

1. The rubric has five capabilities of five levels; the judges of the paper agree as printed.
2. Each judge reads each dialogue once; a model's value is the mean over judges, with an interval over scenarios.
3. A dialogue that one judge could not place is left out for all of them, and counted.
4. Checkpoints of one training are drawn over its steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import Chart
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.environments.suites import Material
from heartloop.validity.answering import AnswerFile, answer_all
from heartloop.validity.capabilities import CAPABILITIES, PUBLISHED, checkpoints, judge_agreement, load_capabilities
from heartloop.validity.suites import dialogue_key, material_of, spoken
from tests.commands import heartloop

FIELDS = [one.field for one in load_capabilities()]
MODELS = ("counsellor", "assistant", "hostile")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("capabilities")
    models = [word for model in MODELS for word in ("--model", f"heartloop/{model}")]
    words = ("eval", "sage", "--user", "embedded", "--limit", "3", "-E", "max_turns=2", "--out", "run", *models)
    assert heartloop(*words, cwd=folder).code == 0
    return material_of(load_environment("sage"), [folder / "run"], judges=["lab/a", "lab/b"])


class Judge:
    """Places all dialogues of a model on one level, by the text of the dialogue."""

    def __init__(self, name: str, material: Material, levels: Sequence[int], fails: str = "") -> None:
        self.name, self.fails = name, fails
        self.levels = dict(zip(material.models, levels, strict=True))
        self.texts = {spoken(one): one for one in material.dialogues}
        self.asked = 0

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.asked += 1
        dialogue = next(one for text, one in self.texts.items() if text in messages[0].content)
        if dialogue_key(dialogue) == self.fails:
            return Reply("I would rather not say.")
        level = self.levels[dialogue.model]
        return Reply(json.dumps({name: {"why": "so", "level": min(5, level + (n == 4))} for n, name in enumerate(FIELDS)}))


async def answered(material: Material, path: Path, *judges: Judge) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    with AnswerFile(path) as file:
        return {judge.name: (await answer_all("c", CAPABILITIES, material, judge.name, judge, file)).answers for judge in judges}


def test_the_rubric_has_five_capabilities_of_five_levels() -> None:
    assert [one.name for one in load_capabilities()] == list(PUBLISHED)
    assert {len(one.levels) for one in load_capabilities()} == {5}


def test_the_judges_of_the_paper_agree_as_printed() -> None:
    rows = published("heartloop.environments.sage", "rlver_table05_core_capability_by_judge")
    for one in load_capabilities():
        values: dict[str, dict[str, float]] = {}
        for row in rows:
            value = row[one.field]
            assert isinstance(value, float)
            values.setdefault(str(row["judge"]), {})[str(row["model"])] = value
        assert round(judge_agreement(values) or 0.0, 3) == PUBLISHED[one.name]


def test_agreement_needs_two_judges_three_models_and_values_that_differ() -> None:
    mine = {"a": 1.0, "b": 2.0, "c": 4.0}
    assert judge_agreement({"j": mine}) is None
    assert judge_agreement({"j": {"a": 1.0, "b": 2.0}, "k": {"a": 1.0, "b": 3.0}}) is None
    assert judge_agreement({"j": mine, "k": dict.fromkeys(mine, 3.0)}) is None
    assert judge_agreement({"j": mine, "k": {name: 2 * value for name, value in mine.items()}}) == pytest.approx(1.0)


async def test_a_model_has_the_mean_over_judges(material: Material, tmp_path: Path) -> None:
    judges = Judge("lab/a", material, (5, 3, 1)), Judge("lab/b", material, (4, 3, 2))
    result = CAPABILITIES.result(material, await answered(material, tmp_path / "answers.jsonl", *judges))
    assert [judge.asked for judge in judges] == [9, 9]
    insight = {model: parts["core insight"]["mean"] for model, parts in result.record["models"].items()}
    assert insight == {"heartloop/counsellor": 4.5, "heartloop/assistant": 3.0, "heartloop/hostile": 1.5}
    assert result.record["models"]["heartloop/hostile"]["style adaptability"]["mean"] == 2.5
    assert result.record["judges"]["lab/b"]["heartloop/counsellor"]["empathic depth"] == 4.0
    assert result.record["pearson_of_judges"]["core insight"] == pytest.approx(1.0)  # 5, 3, 1 and 4, 3, 2 lie on a line
    assert (result.record["dialogues"], result.record["left_out"]) == (9, 0)


async def test_a_dialogue_that_one_judge_could_not_place_is_left_out_and_counted(material: Material, tmp_path: Path) -> None:
    failing = dialogue_key(material.dialogues[0])
    judges = Judge("lab/a", material, (5, 3, 1), fails=failing), Judge("lab/b", material, (4, 3, 2))
    result = CAPABILITIES.result(material, await answered(material, tmp_path / "answers.jsonl", *judges))
    assert (result.record["dialogues"], result.record["left_out"]) == (8, 1)
    assert result.record["models"]["heartloop/counsellor"]["core insight"]["n"] == 2
    silent = CAPABILITIES.result(material, {"lab/a": {}})
    assert silent.record == {}


async def test_checkpoints_of_one_training_are_drawn_over_its_steps(material: Material, tmp_path: Path) -> None:
    names = {
        f"heartloop/{model}": f"checkpoint:runs/a/global_step_{step}/hf" for model, step in zip(MODELS, (40, 20, 5), strict=True)
    }
    trained = material._replace(dialogues=tuple(one.model_copy(update={"model": names[one.model]}) for one in material.dialogues))
    assert list(checkpoints(trained.models).values()) == [
        {5: names["heartloop/hostile"], 20: names["heartloop/assistant"], 40: names["heartloop/counsellor"]}
    ]
    assert checkpoints(trained.models[:1]) == {}
    judge = Judge("lab/a", trained, (5, 3, 1))
    result = CAPABILITIES.result(trained, await answered(trained, tmp_path / "answers.jsonl", judge))
    chart = next(block for block in result.page if isinstance(block, Chart) and block.form == "lines")
    assert [(point.x, point.y) for point in chart.series[0].points] == [(5, 1.0), (20, 3.0), (40, 5.0)]
    assert result.record["pearson_of_judges"]["core insight"] is None
