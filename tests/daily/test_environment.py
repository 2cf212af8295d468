"""The rules of daily conversation: one turn, six judges at once, the mean, and what a transcript keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, BudgetSpent, InputError, UseError
from heartloop.environments.daily.environment import JUDGES, SPEC, Daily, DailyOptions, prompt_values
from heartloop.environments.daily.scenario import DailyScenario
from heartloop.environments.daily.scoring import METRICS, average
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from tests.fixed_judges import FixedJudges
from tests.one_turn_scenarios import AWAKE, LIE, SWIM

ANSWER = "No, I'd not write the six years. What could you say of the two?"
LEVELS = dict(zip(JUDGES, (4, 3, 5, 2, 4, 3), strict=True))  # 21 in sum


class Fixed(FixedJudges):
    def __init__(self, breaks: Mapping[str, Exception] | None = None, **levels: int) -> None:
        super().__init__({**LEVELS, **levels}, "six years", breaks)


async def played(user: Fixed, answer: str = ANSWER, **settings: Any) -> Transcript:
    return await play(Daily([LIE], user, **settings), LIE.id, ScriptedChat([answer]), seed=3)


class TestWhatTheModelIsTold:
    async def test_profile_today_notes_and_days_and_then_the_query(self) -> None:
        policy = ScriptedChat([ANSWER])
        await play(Daily([LIE], Fixed()), LIE.id, policy)
        system, user = policy.asked[0]
        known = (LIE.person, LIE.about, "Thursday 2025-02-06", *(memory.text for memory in LIE.memories))
        assert all(text in system.content for text in known)
        assert user.content == LIE.query

    async def test_nothing_that_the_embedded_judges_read_by(self) -> None:
        policy = ScriptedChat([ANSWER])
        await play(Daily([LIE], Fixed()), LIE.id, policy)
        told = " ".join(message.content for message in policy.asked[0])
        assert LIE.values is not None
        hidden = [LIE.asked, LIE.implied, *LIE.openings, *LIE.sores, *LIE.values.sides, *LIE.values.slants]
        assert not any(matter.text in told for matter in hidden)
        assert "overtaken" not in told
        assert "idle" not in told

    @pytest.mark.parametrize("instance", [AWAKE, LIE, SWIM])
    def test_every_memory_stands_on_a_line_with_its_day(self, instance: DailyScenario) -> None:
        known = prompt_values(instance)
        lines = [*known["notes"].splitlines(), *known["events"].splitlines()]
        assert len(lines) == len(instance.memories)
        for line, memory in zip(lines, instance.memories, strict=True):
            assert line.endswith(memory.text)
            assert memory.on.isoformat() in line
        assert known["today"].startswith({5: "Saturday", 3: "Thursday"}[instance.today.weekday()])


class TestScore:
    async def test_it_is_the_mean_of_the_six_and_the_one_turns_reward(self) -> None:
        transcript = await played(Fixed())
        assert transcript.score == pytest.approx(21 / 6)
        assert transcript.rewards == (transcript.score,)
        assert (transcript.stop, len(transcript.turns), transcript.turns[0].message) == ("turn_limit", 1, None)
        assert transcript.turns[0].evidence["scores"] == LEVELS

    def test_nothing_is_imputed(self) -> None:
        with pytest.raises(UseError, match="expected empathy, topic"):
            average({name: 3 for name in METRICS if name != "value"})
        with pytest.raises(UseError, match="value is 6; expected 1 to 5"):
            average({**LEVELS, "value": 6})
        with pytest.raises(UseError, match="value is 0"):
            average({**LEVELS, "value": 0})

    async def test_reasons_and_quotes_are_kept_and_calls_in_the_judges_order(self) -> None:
        transcript = await played(Fixed())
        evidence = transcript.turns[0].evidence
        assert list(evidence["reasons"]) == list(JUDGES)
        assert evidence["quotes"]["fluency"] == "six years"
        assert [call.purpose for call in transcript.calls if call.role == "judge"] == list(JUDGES)

    async def test_one_without_an_answer_leaves_it_unscored_with_its_cause(self) -> None:
        transcript = await played(Fixed({"fluency": AnswerError("none")}))
        assert (transcript.score, transcript.rewards) == (None, ())
        assert transcript.failure is not None
        assert transcript.failure.role == "fluency judge"

    async def test_a_spent_budget_is_no_judges_failure(self) -> None:
        with pytest.raises(BudgetSpent):
            await played(Fixed({"empathy": AnswerError("none"), "value": BudgetSpent("spent")}))

    async def test_the_transcript_names_person_day_and_memory(self) -> None:
        facts = (await played(Fixed())).facts
        assert (facts["kind"], facts["want"], facts["today"]) == ("values", "thinking", "Thursday 2025-02-06")
        assert "Jadwiga" in facts["events"]
        assert "Schubert" in facts["notes"]


class TestStored:
    async def test_the_mean_is_worked_out_again_from_the_grades(self) -> None:
        stored = await played(Fixed())
        assert SPEC.stored.rescored(stored.model_copy(update={"score": 1.0}), DailyOptions()) == stored
        failed = await played(Fixed({"value": AnswerError("none")}))
        assert SPEC.stored.rescored(failed, DailyOptions()) == failed

    async def test_without_grades_it_is_refused(self) -> None:
        stored = await played(Fixed())
        for scores in ({}, {"empathy": 3}, {**LEVELS, "value": "4"}, None):
            bare = stored.model_copy(update={"turns": (stored.turns[0].model_copy(update={"evidence": {"scores": scores}}),)})
            with pytest.raises(InputError, match="play it again"):
                SPEC.stored.rescored(bare, DailyOptions())

    async def test_other_judges_give_other_grades_of_the_same_words(self) -> None:
        stored = await played(Fixed())
        found = await rejudged(load_environment("daily"), stored, LIE, Fixed(value=1), DailyOptions())
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert found.score == pytest.approx(17 / 6)
        again = await rejudged(load_environment("daily"), found, LIE, Fixed(), DailyOptions())
        assert again.score == stored.score
