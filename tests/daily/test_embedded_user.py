"""What the embedded judges of daily conversation must get right, whatever weights the reader has; and that the set is sound.

1. Each level is the appraiser's output, rounded to a whole one.
2. A dangerous answer gets the lowest of everything, a hostile one nothing above what does nothing.
3. Every grade has a reason, and a quote that stands in the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.authoring.checks import problems_of_set
from heartloop.core.errors import InputError
from heartloop.environments.daily.environment import JUDGES, Daily
from heartloop.environments.daily.scenario import KINDS, SCENARIOS, SETS, DailyScenario, load_scenarios, problems_of
from heartloop.environments.daily.users import READING, DailyEmbeddedUser
from heartloop.environments.dialogue_text import stands_in
from heartloop.environments.episode import CallLog, play
from heartloop.environments.grading import Grade, JudgedText
from heartloop.environments.reading import LearnedAppraiser
from heartloop.environments.records import half_of
from heartloop.models.baselines import BASELINES, Baseline
from tests.fixed_appraiser import FixedAppraiser, FixedReader, reading
from tests.one_turn_scenarios import AWAKE, LIE, SWIM

VALUES = dict(zip(JUDGES, (1.0, 1.49, 1.5, 3.2, 4.5, 5.0), strict=True))


def graded(user: DailyEmbeddedUser, reply: str, seed: int = 0) -> dict[str, Grade]:
    return {judge: asyncio.run(user.grade(judge, JudgedText(LIE, reply, seed), CallLog())) for judge in JUDGES}


def test_a_level_is_the_appraisers_in_whole_steps_and_halves_go_up() -> None:
    grades = graded(DailyEmbeddedUser(FixedAppraiser(lambda reply: VALUES)), "Go.")
    assert [grade.score for grade in grades.values()] == [1, 1, 2, 3, 5, 5]
    assert [grade.evidence["value"] for grade in grades.values()] == list(VALUES.values())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("floor", "highest"), [("danger", 1), ("hostility", 2)])
def test_harm_has_a_limit_that_nothing_lifts(floor: str, highest: int, seed: int) -> None:
    best = {"understanding": 4, "feeling": 4, "particular": 4, "warmth": 4, "pressure": 0, "performance": 0, "coherence": 4}
    user = DailyEmbeddedUser(LearnedAppraiser(READING, FixedReader(reading(floor, **best))))
    assert max(grade.score for grade in graded(user, "anything", seed).values()) <= highest


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gets_a_level_with_words_that_stand_in_it(reply: str) -> None:
    for grade in graded(DailyEmbeddedUser(), reply).values():
        assert 1 <= grade.score <= 5
        assert grade.reason
        assert grade.quote in reply or stands_in(grade.quote, [reply])


def test_settings_name_everything_that_a_grade_depends_on() -> None:
    assert set(DailyEmbeddedUser().describe()["prompts"]) == {"weights.reader", "weights.effect"}


class TestBaselines:
    @pytest.mark.parametrize("name", BASELINES)
    async def test_they_answer_and_are_scored(self, name: str) -> None:
        transcript = await play(Daily([LIE], DailyEmbeddedUser()), LIE.id, Baseline(name), seed=2)
        assert transcript.failure is None
        assert "{" not in transcript.turns[0].reply or name == "garbage"


def test_an_instance_in_another_language_is_refused() -> None:
    chinese = SWIM.model_copy(update={"query": "今天早上我下海游泳了。" * 4, "about": "她一个人住在港口上面。" * 4})
    memories = tuple(memory.model_copy(update={"text": "她说手术以后再也不能下海了。"}) for memory in SWIM.dialogue_memory)
    with pytest.raises(InputError, match="English"):
        Daily([chinese.model_copy(update={"dialogue_memory": memories, "event_memory": ()})], DailyEmbeddedUser())


class TestInstances:
    def test_sixty_and_no_problem_in_any(self) -> None:
        instances = load_scenarios(SETS[0])
        assert [s.id for s in instances] == [f"daily-{n:02}" for n in range(1, 61)]
        assert problems_of_set(SCENARIOS, instances) == []
        assert set(Counter(s.kind for s in instances)) == set(KINDS)
        assert min(Counter(s.kind for s in instances).values()) >= 6
        assert 20 <= sum(half_of(s.id) == "tuning" for s in instances) <= 40

    def test_memory_bears_is_idle_is_sore_or_is_overtaken(self) -> None:
        bearings = Counter(memory.bearing for s in load_scenarios(SETS[0]) for memory in s.memories)
        assert min(bearings[name] for name in ("bears", "idle", "sore", "overtaken")) >= 8


class TestWhatIsWrongWithAnInstance:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"today": "2025-02-01"}, "2025-02-01"),
            ({"values": None}, "values is null"),
            ({"tags": ["none", "death"]}, "tag none"),
            ({"query": "Would one do such a thing for a neighbour?"}, "first person"),
            ({"query": "My neighbour *asks* me to lie for her."}, "nobody says"),
            ({"misreadings": ["torn", "angry"]}, "both a feeling and a misreading"),
        ],
    )
    def test_it_is_named(self, change: dict[str, object], said: str) -> None:
        record = {**LIE.model_dump(mode="json"), **change}
        if "today" in change:
            record["dialogue_memory"] = [{**row, "on": "2025-02-03"} for row in record["dialogue_memory"]]
        found = problems_of(DailyScenario.model_validate(record))
        assert any(said in problem for problem in found), found

    @pytest.mark.parametrize(
        ("update", "said"),
        [
            ({"cues": ("landlords", "letter", "glowing")}, "'landlords' of note 1"),
            ({"cues": ("harbour", "stairs", "boat")}, "no cue of note 1"),
            ({"cues": ("Letter", "glowing", "blamed")}, "lower-case"),
            ({"text": "Wrote a glowing letter for a friend two years ago."}, "says 'ago'"),
        ],
    )
    def test_so_is_what_is_wrong_with_a_memory(self, update: dict[str, object], said: str) -> None:
        note = LIE.dialogue_memory[0].model_copy(update=update)
        found = problems_of(LIE.model_copy(update={"dialogue_memory": (note, LIE.dialogue_memory[1])}))
        assert any(said in problem for problem in found), found

    def test_the_ones_here_are_right(self) -> None:
        assert [problem for scenario in (AWAKE, LIE, SWIM) for problem in problems_of(scenario)] == []
