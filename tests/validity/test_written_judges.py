"""Judges whose answers are in a file (`benchmarks.validity`)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import validity
from heartloop.environments.suites import Material


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validity, "MODELS", ("counsellor",))
        patch.setattr(validity, "SCENARIOS", 2)
        patch.setattr(validity, "TURNS", 2)
        return validity.played(tmp_path_factory.mktemp("played"), ["reader"])


def agreeing(level: int) -> dict[str, Any]:
    return {"answers": [{"why": "so", "agreement": level}] * 15}


async def test_an_answer_of_the_form_counts_for_its_prompt_and_once(material: Material) -> None:
    suite = validity.suites(material)["utterance"]
    unwritten = validity.Written("reader", {})
    assert await validity.answered(suite, material, unwritten) == {}
    asked = unwritten.open
    assert len(asked) == len(material.dialogues) == 2
    first = next(iter(asked))
    assert asked[first]["schema"]["properties"].keys() == {"tag", "answers", "end"}
    judge = validity.Written("reader", {first: agreeing(5)})
    answers = await validity.answered(suite, material, judge)
    assert list(answers.values()) == [agreeing(5)]
    assert list(judge.open) == [name for name in asked if name != first]
    assert suite.result(material, {"reader": answers}).record["reader"]["dialogues"] == 1
    short: dict[str, Any] = {"answers": agreeing(5)["answers"][:14]}
    for wrong in (short, agreeing(7)):
        assert await validity.answered(suite, material, validity.Written("reader", dict.fromkeys(asked, wrong))) == {}
