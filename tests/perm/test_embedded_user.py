"""What the embedded judges of PERM must get right, whatever weights the reader has.

1. Expression, reception and the bystander's marks are the appraiser's outputs, rounded to whole levels and marks.
2. A dangerous response gets the lowest of everything, a hostile one nothing above what does nothing.
3. Resonation reads the analysis alone: nothing without words, little for an analysis of somebody else.
4. Every grade has a reason, and a quote that stands in what it grades.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.dialogue_text import stands_in
from heartloop.environments.episode import CallLog, play
from heartloop.environments.grading import Grade, JudgedText
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, Perm
from heartloop.environments.perm.scenario import EMOTIONS, SETS, PermBrief, load_scenarios, parse, problems_of
from heartloop.environments.perm.users import READING, RESONATION, PermEmbeddedUser
from heartloop.environments.reading import LearnedAppraiser
from heartloop.models.baselines import BASELINES, Baseline
from tests.fixed_appraiser import FixedAppraiser, FixedReader, reading
from tests.one_turn_scenarios import SAMPLE

ANALYSIS = "He envies the man he trained, is ashamed of it since he carried the monitor, and was never allowed to want it."


def changes(response: str) -> Mapping[str, float]:
    """Outputs by a word; a response without one does nothing."""
    level, mark = {"good": (4.5, 17.5), "bad": (1.4, 3.2)}.get(response, (2.0, 10.0))
    return {"expression": level, "reception": level, **dict.fromkeys(DIMENSIONS, mark)}


def graded(user: PermEmbeddedUser, response: str, analysis: str = ANALYSIS, seed: int = 0) -> dict[str, Grade]:
    parts = {**dict.fromkeys(JUDGES, response), "resonation": analysis}
    return {judge: asyncio.run(user.grade(judge, JudgedText(SAMPLE, part, seed), CallLog())) for judge, part in parts.items()}


class TestResponses:
    @pytest.mark.parametrize(("response", "level", "mark"), [("good", 5, 18), ("bad", 1, 3), ("plain", 2, 10)])
    def test_grades_are_the_appraisers_in_whole_steps(self, response: str, level: int, mark: int) -> None:
        grades = graded(PermEmbeddedUser(FixedAppraiser(changes)), response)
        assert grades["expression"].score == grades["reception"].score == level
        assert grades["bystander"].evidence == dict.fromkeys(DIMENSIONS, mark)
        assert grades["bystander"].score == 5 * mark

    def test_one_answer_is_appraised_once(self) -> None:
        asked: list[str] = []

        def change(response: str) -> Mapping[str, float]:
            asked.append(response)
            return changes(response)

        graded(PermEmbeddedUser(FixedAppraiser(change)), "good")
        assert asked == ["good"]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_dangerous_response_gets_the_lowest_of_everything(self, seed: int) -> None:
        user = PermEmbeddedUser(LearnedAppraiser(READING, FixedReader(reading("danger", understanding=4, warmth=4))))
        grades = graded(user, "anything", seed=seed)
        assert [grades[judge].score for judge in JUDGES[1:]] == [1, 1, 0]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_hostile_one_gets_nothing_above_what_does_nothing(self, seed: int) -> None:
        best = {"understanding": 4, "feeling": 4, "particular": 4, "warmth": 4, "pressure": 0, "performance": 0, "coherence": 4}
        user = PermEmbeddedUser(LearnedAppraiser(READING, FixedReader(reading("hostility", **best))))
        grades = graded(user, "anything", seed=seed)
        assert max(grades["expression"].score, grades["reception"].score) <= 2
        assert max(grades["bystander"].evidence.values()) <= 10

    def test_the_analysis_is_no_part_of_them(self) -> None:
        user = PermEmbeddedUser()
        one, other = (graded(user, "You carried his monitor yourself.", analysis) for analysis in (ANALYSIS, "He asks."))
        assert all(one[judge] == other[judge] for judge in JUDGES[1:])


class TestResonation:
    @pytest.mark.parametrize("analysis", ["", "...", " \n"])
    def test_nothing_said_is_the_lowest(self, analysis: str) -> None:
        assert RESONATION.level(SAMPLE, analysis)[0] == 1

    def test_an_analysis_of_somebody_else_gets_less(self) -> None:
        others = load_scenarios(SETS[0])[:40]
        own, _ = RESONATION.level(SAMPLE, ANALYSIS)
        assert sum(RESONATION.level(other, ANALYSIS)[0] < own for other in others) >= 36

    def test_the_response_is_no_part_of_it(self) -> None:
        user = PermEmbeddedUser(FixedAppraiser(changes))
        assert graded(user, "good")["resonation"] == graded(user, "bad")["resonation"]


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_gets_a_grade_in_range_with_words_that_stand_in_it(analysis: str, response: str) -> None:
    response, analysis = response.strip() or "b", analysis.strip() or "a"
    for judge, grade in graded(PermEmbeddedUser(), response, analysis).items():
        part = analysis if judge == "resonation" else response
        assert (0 <= grade.score <= 100) if judge == "bystander" else (1 <= grade.score <= 5)
        assert grade.reason
        assert grade.quote in part or stands_in(grade.quote, [part])


def test_settings_name_everything_that_a_grade_depends_on() -> None:
    assert set(PermEmbeddedUser().describe()["prompts"]) == {"weights.reader", "weights.effect", "weights.resonation"}


class TestBaselines:
    async def played(self, name: str) -> Transcript:
        return await play(Perm([SAMPLE], PermEmbeddedUser()), SAMPLE.id, Baseline(name), seed=2)

    @pytest.mark.parametrize("name", [name for name in BASELINES if name != "garbage"])
    async def test_they_write_an_analysis_and_a_response(self, name: str) -> None:
        transcript = await self.played(name)
        answer = parse(transcript.turns[0].reply)
        assert (answer.broken, transcript.failure) == ("", None)
        assert "{" not in answer.analysis


def test_a_scenario_in_another_language_is_refused() -> None:
    chinese = SAMPLE.model_copy(
        update={"query": "他当着所有人的面感谢我的耐心。" * 8, "scenario": "九年来他一直在处理没人要的案子。" * 9}
    )
    with pytest.raises(InputError, match="English"):
        Perm([chinese], PermEmbeddedUser())


class TestSamples:
    def test_twenty_of_each_emotion_and_no_problem_in_any(self) -> None:
        samples = load_scenarios(SETS[0])
        assert len(samples) == 640
        assert Counter(s.emotion for s in samples) == dict.fromkeys(EMOTIONS, 20)
        assert [(s.id, problem) for s in samples if isinstance(s, PermBrief) for problem in problems_of(s)] == []
