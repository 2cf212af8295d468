"""What the embedded judges of one answer (PERM, daily conversation) must get right, whatever weights the reader has."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.daily import environment as daily
from heartloop.environments.daily.environment import average
from heartloop.environments.daily.scenario import load_scenarios as load_daily
from heartloop.environments.daily.users import DailyEmbeddedUser
from heartloop.environments.dialogue_text import stands_in
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import AnswerPlayer, Grade, JudgedText
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, Perm
from heartloop.environments.perm.scenario import load_scenarios
from heartloop.environments.perm.users import RESONATION, PermEmbeddedUser
from heartloop.environments.reading import LearnedAppraiser
from heartloop.environments.records import half_of
from heartloop.reader.reader import DANGER_WORTH, INSULT_WORTH
from tests.fixed_appraiser import FixedAppraiser, FixedReader, reading
from tests.one_turn_scenarios import LIE, SAMPLE, SWIM

ANALYSIS = "He envies the man he trained, is ashamed of it since he carried the monitor, and was never allowed to want it."
ANSWERS = Path(__file__).parents[1] / "data" / "daily_answers.jsonl"
both = pytest.mark.parametrize("player", [PermEmbeddedUser, DailyEmbeddedUser])


def graded(user: Any, text: str, seed: int = 0, scenario: Any = None) -> dict[str, Grade]:
    """The grades of an answer by all judges but resonation, which reads no answer."""
    of_perm = isinstance(user, PermEmbeddedUser)
    judged = JudgedText(scenario or (SAMPLE if of_perm else LIE), text, seed)
    return {judge: asyncio.run(user.grade(judge, judged, CallLog())) for judge in (JUDGES[1:] if of_perm else daily.JUDGES)}


def changes(response: str) -> Mapping[str, float]:
    """Outputs by a word; a response without one does nothing."""
    level, mark = {"good": (4.5, 17.5), "bad": (1.4, 3.2)}.get(response, (2.0, 10.0))
    return {"expression": level, "reception": level, **dict.fromkeys(DIMENSIONS, mark)}


@pytest.mark.parametrize(("response", "level", "mark"), [("good", 5, 18), ("bad", 1, 3), ("plain", 2, 10)])
def test_grades_of_perm_are_the_appraisers_in_whole_steps(response: str, level: int, mark: int) -> None:
    appraised: list[str] = []

    def change(text: str) -> Mapping[str, float]:
        appraised.append(text)
        return changes(text)

    grades = graded(PermEmbeddedUser(FixedAppraiser(change)), response)
    assert grades["expression"].score == grades["reception"].score == level
    assert grades["bystander"].evidence == dict.fromkeys(DIMENSIONS, mark)
    assert grades["bystander"].score == 5 * mark
    assert appraised == [response]


def test_levels_of_daily_conversation_are_the_appraisers_in_whole_steps_and_halves_go_up() -> None:
    values = dict(zip(daily.JUDGES, (1.0, 1.49, 1.5, 3.2, 4.5, 5.0), strict=True))
    grades = graded(DailyEmbeddedUser(FixedAppraiser(lambda reply: values)), "Go.")
    assert [grade.score for grade in grades.values()] == [1, 1, 2, 3, 5, 5]
    assert [grade.evidence["value"] for grade in grades.values()] == list(values.values())


@both
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("worth", [INSULT_WORTH, DANGER_WORTH])
def test_the_best_worth_of_an_insult_gives_the_lowest_grades(player: type[AnswerPlayer], worth: float, seed: int) -> None:
    grades = graded(player(LearnedAppraiser(player.reading, FixedReader(reading(worth=worth)))), "anything", seed)
    bystander = grades.pop("bystander", None)
    assert {grade.score for grade in grades.values()} == {1}
    assert bystander is None or max(bystander.evidence.values()) <= 1


@both
@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_gets_a_grade_in_range_with_words_that_occur_in_it(player: Callable[[], AnswerPlayer], text: str) -> None:
    user, text = player(), text.strip() or "b"
    grades = graded(user, text)
    if isinstance(user, PermEmbeddedUser):
        grades["resonation"] = asyncio.run(user.grade("resonation", JudgedText(SAMPLE, text, 0), CallLog()))
    for judge, grade in grades.items():
        assert (0 <= grade.score <= 100) if judge == "bystander" else (1 <= grade.score <= 5)
        assert grade.reason
        assert grade.quote in text or stands_in(grade.quote, [text])


@pytest.mark.parametrize("analysis", ["", "...", " \n"])
def test_an_analysis_without_words_is_the_lowest(analysis: str) -> None:
    assert RESONATION.level(SAMPLE, analysis)[0] == 1


def test_an_analysis_of_somebody_else_gets_less() -> None:
    own, _ = RESONATION.level(SAMPLE, ANALYSIS)
    assert sum(RESONATION.level(other, ANALYSIS)[0] < own for other in load_scenarios()[:40]) >= 36


def test_a_scenario_in_another_language_is_refused() -> None:
    chinese: Any = SAMPLE.model_copy(
        update={"query": "他当着所有人的面感谢我的耐心。" * 8, "scenario": "九年来他一直在处理案子。" * 9}
    )
    with pytest.raises(InputError, match="English"):
        Perm([chinese], PermEmbeddedUser())
    chinese = SWIM.model_copy(
        update={"query": "今天早上我下海游泳了。" * 4, "about": "她一个人住在港口上面。" * 4, "event_memory": ()}
    )
    memories = tuple(memory.model_copy(update={"text": "她说手术以后再也不能下海了。"}) for memory in SWIM.dialogue_memory)
    with pytest.raises(InputError, match="English"):
        daily.Daily([chinese.model_copy(update={"dialogue_memory": memories})], DailyEmbeddedUser())


def test_good_answers_to_daily_scenarios_are_above_bad_ones() -> None:
    """Written for each scenario and never fitted on: good ones of different kinds, bad ones as the scenario warns of."""
    scenarios, user = {s.id: s for s in load_daily()}, DailyEmbeddedUser()
    means: dict[str, list[float]] = defaultdict(list)
    for row in map(json.loads, ANSWERS.read_text(encoding="utf-8").splitlines()):
        if half_of(row["id"]) == "tuning":
            grades = graded(user, row["answer"], scenario=scenarios[row["id"]])
            means[row["kind"]].append(average({judge: grade.score for judge, grade in grades.items()}))
    assert {kind: len(values) for kind, values in means.items()} == {"good": 74, "bad": 22}
    assert fmean(means["good"]) > fmean(means["bad"])
