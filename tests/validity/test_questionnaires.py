"""The questionnaires of SAGE, Appendix F, and how `heartloop validate` asks suites' questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Sampling
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.validity.questionnaires import BLRI, UTTERANCE, Questionnaire, dimension_scores, load_questionnaire
from heartloop.validity.suites import dialogue_key, material_of
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer
from tests.validity.judges import Judge, ask


def agreeing(number: int, fails: int = 0) -> Judge:
    """Agrees by the length of the prompt; its first answers fail."""

    def answer(prompt: str, sampling: Sampling) -> object:
        if len(judge.prompts) <= fails:
            return "no answer"
        return {"answers": [{"why": "so", "agreement": 1 + len(prompt) % 6}] * number}

    judge = Judge(answer)
    return judge


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
    material: Material, tmp_path: Path, suite: Any, number: int
) -> None:
    judge, path = agreeing(number), tmp_path / "answers.jsonl"
    first = await ask(suite, material, judge, path, at_most=2)
    assert (first.asked, first.open, len(first.answers)) == (2, 34, 2)
    whole = await ask(suite, material, judge, path, max_connections=8)
    assert (len(judge.prompts), len(whole.answers), whole.open, whole.failed) == (36, 36, 0, {})
    assert {one.seed for one in judge.samplings} == {0, 1, 2}, "repeats are samples of their own"
    with path.open("a") as cut:
        cut.write('{"suite": "q", "judge')  # a killed process
    again = await ask(suite, material, judge, path)
    assert (len(judge.prompts), again.answers) == (36, whole.answers)
    record = suite.result(material, {judge.name: whole.answers}).record[judge.name]
    assert record["dialogues"] == 12
    assert set(record["models"]) == set(material.models)
    assert -1 <= record["pearson_dialogues"]["mean"] <= 1
    assert record["models"]["heartloop/counsellor"]["Mean"]["n"] == 4


async def test_the_published_form_reads_activity_and_feeling_alone(counsellor: Material, tmp_path: Path) -> None:
    """SAGE, Appendix F. Ours reads what the reply meant and whether it fitted, too; the answers to both forms are kept."""
    path, texts = tmp_path / "answers.jsonl", {}
    for form in (counsellor, counsellor._replace(published=True)):
        judge = agreeing(12)
        done = await ask(BLRI, form, judge, path)
        assert (len(judge.prompts), len(done.answers)) == (12, 12)
        assert BLRI.result(form, {judge.name: done.answers}).record[judge.name]["dialogues"] == 4
        texts[form.published] = "\n".join(judge.prompts)
    thoughts = [turn.thoughts for one in counsellor.dialogues for turn in one.turns]
    read = {form: {name for each in thoughts for name, said in each.items() if said and said in texts[form]} for form in texts}
    assert read == {False: {"content", "fit", "activity", "feeling"}, True: {"activity", "feeling"}}


def test_the_two_questionnaires_have_titles_of_their_own(material: Material) -> None:
    answers = {f"{dialogue_key(one)}|0": {"answers": [{"agreement": 1 + n % 6}] * 15} for n, one in enumerate(material.dialogues)}
    titles = [[block.title for block in suite.result(material, {"lab/judge": answers}).page] for suite in (BLRI, UTTERANCE)]
    assert set(titles[0]).isdisjoint(titles[1])
    assert "ten models" in UTTERANCE.result(material, {"lab/judge": answers}).notes[0]


async def test_a_failed_question_has_no_answer_and_is_asked_again_on_demand(place: Path, tmp_path: Path) -> None:
    material = material_of(load_environment("sage"), [place / "run"], judges=["lab/judge"], limit=1)
    assert len(material.dialogues) == 3, "of each model"
    judge, path = agreeing(12, fails=3), tmp_path / "answers.jsonl"
    broken = await ask(BLRI, material, judge, path)
    assert (len(broken.answers), len(broken.failed)) == (8, 1), "a question and two re-asks"
    still = await ask(BLRI, material, judge, path)
    assert (still.asked, len(still.failed)) == (0, 1)
    again = await ask(BLRI, material, judge, path, retry_failed=True)
    assert (again.asked, len(again.answers), again.failed) == (1, 9, {})


def test_without_a_judge_the_page_says_what_was_left_out(place: Path) -> None:
    done = heartloop("validate", "run", "--out", "none", cwd=place)
    assert done.code == 0, done
    assert "<code>blri</code>" in (place / "none" / "report" / "index.html").read_text()
    named = heartloop("validate", "run", "--suite", "blri", "--out", "none", cwd=place)
    assert (named.code, "--judge" in named.err) == (2, True), named


async def test_a_paid_judge_is_asked_two_questions_before_the_estimate(place: Path) -> None:
    words = (
        "validate",
        "run",
        "--suite",
        "utterance",
        "--judge",
        "lab/judge",
        "--limit",
        "1",
        "--out",
        "paid",
        "--prices",
        "prices.toml",
    )
    (place / "prices.toml").write_text('["lab/judge"]\ninput = 1.0\noutput = 1.0\n')
    async with FaultyServer() as server:
        asked = await over_http(server, *words, cwd=place)
        assert asked.code == 1, asked
        assert "7 more questions" in asked.err
        assert "--yes" in asked.err
        whole = await over_http(server, *words, "--yes", cwd=place)
        assert whole.code == 0, whole
        calls = len(server.requests)
        again = await over_http(server, *words, "--yes", cwd=place)
        assert (again.code, len(server.requests)) == (0, calls)
    record = json.loads((place / "paid" / "validity.json").read_text())
    assert record["utterance"]["lab/judge"]["dialogues"] == 3
