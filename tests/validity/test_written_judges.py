"""Judges whose answers stand in a file (`benchmarks.validity`).

1. What is not answered is kept as open, with its prompt and schema, and its dialogue is left out.
2. An answer counts for the prompt that it was given to, and once: a suite's repeats of it have none.
3. An answer of another form is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import validity
from heartloop.environments.suites import Material, RunSuite


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validity, "MODELS", ("counsellor",))
        patch.setattr(validity, "SCENARIOS", 2)
        patch.setattr(validity, "TURNS", 2)
        return validity.played(tmp_path_factory.mktemp("played"), ["reader"])


def agreeing(level: int) -> dict[str, Any]:
    return {"answers": [{"why": "so", "agreement": level}] * 15}


async def open_questions(suite: RunSuite, material: Material) -> dict[str, dict[str, Any]]:
    judge = validity.Written("reader", {})
    assert await validity.answered(suite, material, judge) == {}
    return judge.open


async def test_an_answer_counts_for_its_prompt_and_once(material: Material) -> None:
    suite = validity.suites(material)["utterance"]
    asked = await open_questions(suite, material)
    assert len(asked) == len(material.dialogues) == 2
    first = next(iter(asked))
    assert asked[first]["schema"]["properties"].keys() == {"answers"}
    judge = validity.Written("reader", {first: agreeing(5)})
    answers = await validity.answered(suite, material, judge)
    assert list(answers.values()) == [agreeing(5)]
    assert list(judge.open) == [name for name in asked if name != first]
    assert suite.result(material, {"reader": answers}).record["reader"]["dialogues"] == 1


async def test_an_answer_of_another_form_is_refused(material: Material) -> None:
    suite = validity.suites(material)["utterance"]
    asked = await open_questions(suite, material)
    short: dict[str, Any] = {"answers": agreeing(5)["answers"][:14]}
    assert await validity.answered(suite, material, validity.Written("reader", dict.fromkeys(asked, short))) == {}
    assert await validity.answered(suite, material, validity.Written("reader", dict.fromkeys(asked, agreeing(7)))) == {}
