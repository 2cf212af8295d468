"""The questionnaires of SAGE, Appendix F, and how `heartloop validate` asks suites' questions.

1. 12 and 15 statements, one and two of them reversed; six levels on 0 to 100 and 1 to 5.
2. A dialogue is asked three times; the mean of the answers is compared with the score, by model and over dialogues.
3. `answers.jsonl`: the same command asks nothing twice; a failed question is unanswered, and asked again on demand.
4. A judge that costs money is asked two questions before the estimate; without agreement there is no result.
5. Without a judge the suites that need one are left out, and the page says why.
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
from heartloop.validity.answering import AnswerFile, answer_all
from heartloop.validity.questionnaires import BLRI, UTTERANCE, Questionnaire, dimension_scores, load_questionnaire
from heartloop.validity.suites import material_of
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer

EVAL = ("eval", "sage", "--user", "embedded", "--limit", "4", "-E", "max_turns=3", "--out", "run")
MODELS = ("counsellor", "assistant", "hostile")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questionnaires")
    models = [word for model in MODELS for word in ("--model", f"heartloop/{model}")]
    assert heartloop(*EVAL, *models, cwd=folder).code == 0
    return folder


class Judge:
    """Agrees by the words of the dialogue: with every statement if `marks` finds its mark in the prompt, else with none."""

    name = "lab/judge"

    def __init__(self, number: int, fails: int = 0) -> None:
        self.number, self.fails, self.asked = number, fails, 0
        self.seeds: set[int | None] = set()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.asked += 1
        self.seeds.add(sampling.seed if sampling else None)
        if self.asked <= self.fails:
            return Reply("no answer")
        level = 1 + len(messages[0].content) % 6
        return Reply(json.dumps({"answers": [{"why": "so", "agreement": level}] * self.number}))


def test_statements_and_reversed_ones_are_as_many_as_in_the_paper() -> None:
    blri, utterance = load_questionnaire("blri"), load_questionnaire("utterance")
    assert [len(items) for items in blri.parts.values()] == [4, 4, 2, 2]
    assert [number for number, (_, reverse) in enumerate(blri.items, start=1) if reverse] == [12]
    assert [len(items) for items in utterance.parts.values()] == [6, 4, 5]
    assert [number for number, (_, reverse) in enumerate(utterance.items, start=1) if reverse] == [4, 6]
    assert (blri.low, blri.high, utterance.low, utterance.high) == (0, 100, 1, 5)


def test_levels_become_points_and_reversed_items_turn_round() -> None:
    # 4 of 1..6 is 3/5 of the way: 60 of 0..100; a reversed 4 is 2/5: 40; their mean is 50.
    form = Questionnaire(0, 100, {"a": (("x", False), ("y", True)), "b": (("z", False),)})
    assert dimension_scores(form, [4, 4, 6]) == {"a": pytest.approx(50.0), "b": 100.0}
    # 1..6 on 1..5: the third level is 1 + 4 * 2/5 = 2.6
    assert dimension_scores(Questionnaire(1, 5, {"a": (("x", False),)}), [3]) == {"a": pytest.approx(2.6)}


@pytest.mark.parametrize(("suite", "number"), [(BLRI, 12), (UTTERANCE, 15)])
async def test_every_dialogue_is_asked_three_times_and_nothing_twice(
    place: Path, tmp_path: Path, suite: Any, number: int
) -> None:
    material = material_of(load_environment("sage"), [place / "run"], judges=["lab/judge"])
    judge, path = Judge(number), tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        first = await answer_all("q", suite, material, judge.name, judge, file, at_most=2)
        assert (first.asked, first.open, len(first.answers)) == (2, 34, 2)
        whole = await answer_all("q", suite, material, judge.name, judge, file)
        assert (judge.asked, len(whole.answers), whole.open, whole.failed) == (36, 36, 0, {})
    assert judge.seeds == {0, 1, 2}, "repeats are samples of their own"
    with path.open("a") as cut:
        cut.write('{"suite": "q", "judge')  # a killed process
    with AnswerFile(path) as file:
        again = await answer_all("q", suite, material, judge.name, judge, file)
    assert (judge.asked, again.answers) == (36, whole.answers)
    result = suite.result(material, {judge.name: whole.answers})
    record = result.record[judge.name]
    assert record["dialogues"] == 12
    assert set(record["models"]) == {f"heartloop/{model}" for model in MODELS}
    assert -1 <= record["pearson_dialogues"]["mean"] <= 1
    part = record["models"]["heartloop/counsellor"]
    assert part["Mean"]["n"] == 4


async def test_a_failed_question_has_no_answer_and_is_asked_again_on_demand(place: Path, tmp_path: Path) -> None:
    material = material_of(load_environment("sage"), [place / "run"], judges=["lab/judge"], limit=1)
    assert len(material.dialogues) == 3, "of each model"
    judge = Judge(12, fails=3)
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        broken = await answer_all("blri", BLRI, material, judge.name, judge, file, max_connections=1)
        assert (len(broken.answers), len(broken.failed)) == (8, 1), "a question and two re-asks"
        still = await answer_all("blri", BLRI, material, judge.name, judge, file)
        assert (still.asked, len(still.failed)) == (0, 1)
        mended = await answer_all("blri", BLRI, material, judge.name, judge, file, retry_failed=True)
        assert (mended.asked, len(mended.answers), mended.failed) == (1, 9, {})


def test_without_a_judge_the_page_says_what_was_left_out(place: Path) -> None:
    done = heartloop("validate", "run", "--out", "none", cwd=place)
    assert done.code == 0, done
    page = (place / "none" / "report" / "index.html").read_text()
    assert "Left out" in page
    assert "<code>blri</code>" in page
    named = heartloop("validate", "run", "--suite", "blri", "--out", "none", cwd=place)
    assert (named.code, "--judge" in named.err) == (2, True), named


async def test_a_paid_judge_is_asked_two_questions_before_the_estimate(place: Path) -> None:
    words = ("validate", "run", "--suite", "utterance", "--judge", "lab/judge", "--limit", "1", "--out", "paid")
    async with FaultyServer() as server:
        asked = await over_http(server, *words, cwd=place)
        assert asked.code == 1, asked
        assert "7 more questions" in asked.err
        assert "--yes" in asked.err
        whole = await over_http(server, *words, "--yes", cwd=place)
        assert whole.code == 0, whole
        calls = len(server.requests)
        again = await over_http(server, *words, "--yes", cwd=place)
        assert again.code == 0, again
        assert len(server.requests) == calls
    record = json.loads((place / "paid" / "validity.json").read_text())
    assert record["utterance"]["lab/judge"]["dialogues"] == 3
    assert "Questionnaire and score" in (place / "paid" / "report" / "index.html").read_text()
