"""SAGE's rules with a scripted user: states, rewards, ends, and what a failing user costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, BudgetSpent, TransportError, UseError
from heartloop.environments.episode import CallLog, play
from heartloop.environments.sage.environment import MAX_TURNS, PRESETS, SPEC, Feeling, Sage, SageOptions, SageView, Speech
from heartloop.environments.sage.scenario import AnySageScenario, load_scenarios

SCENARIOS = load_scenarios("support")[:3]
FIRST = SCENARIOS[0]
THOUGHTS = {"content": "wants", "fit": "fits", "activity": "thinks", "feeling": "feels"}


class ScriptedUser:
    """A person who feels and says what is written; past the end of a list the last entry holds."""

    name = "scripted person"

    def __init__(
        self, changes: Sequence[float | Exception] = (0,), speeches: Sequence[str | Speech | Exception] = ("Go on, then.",)
    ) -> None:
        self.changes = changes
        self.speeches = speeches
        self.felt: list[SageView] = []
        self.spoke: list[SageView] = []

    def describe(self, variant: str = "vanilla") -> Mapping[str, Any]:
        return {"models": {"user": "sim"}, "prompts": {"feel": "abc"}}

    def admit(self, scenario: AnySageScenario) -> None:
        pass

    async def open(self, view: SageView, log: CallLog) -> str:
        raise AssertionError("every scenario here has a first message")

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        self.felt.append(view)
        change = self.changes[min(view.turn, len(self.changes) - 1)]
        if isinstance(change, Exception):
            raise change
        return Feeling(change, THOUGHTS, {"why": view.turn})

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        self.spoke.append(view)
        speech = self.speeches[min(view.turn, len(self.speeches) - 1)]
        if isinstance(speech, Exception):
            raise speech
        return speech if isinstance(speech, Speech) else Speech(speech)


async def dialogue(
    user: ScriptedUser, *, preset: str = "corrected", reply: str = "I see.", seed: int = 0, **how: Any
) -> Transcript:
    sage = Sage(SCENARIOS, user, preset=preset, **how)
    return await play(sage, FIRST.id, ScriptedChat([reply], cycle=True), seed=seed)


def emotions(transcript: Transcript) -> list[float | None]:
    return [None if turn.state is None else turn.state["emotion"] for turn in transcript.turns]


class TestState:
    async def test_it_starts_at_40_and_every_change_moves_the_emotion_and_pays_a_tenth_of_itself(self) -> None:
        transcript = await dialogue(ScriptedUser([5, -3, 10]), max_turns=3)
        assert (transcript.start, transcript.opening) == ({"emotion": 40.0}, FIRST.first_message)
        # 40 + 5 = 45, - 3 = 42, + 10 = 52
        assert emotions(transcript) == [45.0, 42.0, 52.0]
        assert [t.change for t in transcript.turns] == [{"emotion": 5.0}, {"emotion": -3.0}, {"emotion": 10.0}]
        assert (transcript.rewards, transcript.score) == ((0.5, -0.3, 1.0), 52.0)
        assert (transcript.turns[1].thoughts, transcript.turns[1].evidence) == (THOUGHTS, {"why": 1})

    async def test_a_change_beyond_ten_is_clamped_and_counted(self) -> None:
        transcript = await dialogue(ScriptedUser([25, -11, 10]), max_turns=3)
        # 40 + 10 = 50, - 10 = 40, + 10 = 50; two of the three were beyond
        assert (emotions(transcript), transcript.rewards) == ([50.0, 40.0, 50.0], (1.0, -1.0, 1.0))
        assert transcript.counts["clamped changes"] == 2

    async def test_the_end_of_the_scale_shortens_change_and_reward_and_is_counted_apart_from_clamping(self) -> None:
        transcript = await dialogue(ScriptedUser([10]), start=95.0)
        assert (emotions(transcript), transcript.turns[0].change, transcript.rewards) == ([100.0], {"emotion": 5.0}, (0.5,))
        assert "clamped changes" not in transcript.counts
        assert transcript.counts["states at their limit"] == 1


class TestView:
    async def test_the_emotion_before_the_reply_in_feel_and_after_it_in_speak(self) -> None:
        user = ScriptedUser([5, -3, 10])
        await dialogue(user, max_turns=4, seed=99)
        assert [view.emotion for view in user.felt] == [40, 45, 42, 52]
        assert [view.emotion for view in user.spoke] == [45, 42, 52]
        assert {view.seed for view in user.felt} == {99}

    async def test_what_was_felt_about_the_replies_before_the_last_with_the_changes_as_applied(self) -> None:
        user = ScriptedUser([25, -3, 1])
        await dialogue(user, preset="released", max_turns=4)
        assert [[felt.change for felt in view.felt] for view in user.felt] == [[], [10.0], [10.0, -3.0]]
        assert [view.felt for view in user.spoke] == [view.felt for view in user.felt]

    async def test_all_messages_and_replies_so_far_the_latest_reply_included(self) -> None:
        user = ScriptedUser([1], ["one", "two", "three"])
        await dialogue(user, reply="r", max_turns=3)
        assert user.felt[2].messages == (FIRST.first_message, "one", "two")
        assert user.felt[2].replies == ("r", "r", "r")
        assert [view.turn for view in user.felt] == [0, 1, 2]


class TestEnds:
    @pytest.mark.parametrize("preset", PRESETS)
    async def test_100_is_success_with_a_farewell(self, preset: str) -> None:
        user = ScriptedUser([10], ["a", "b", "c", "d", "e", "Thank you. Goodbye."])
        transcript = await dialogue(user, preset=preset)
        # 40 + 6 x 10 = 100 after the sixth reply
        assert (transcript.stop, len(transcript.turns), transcript.score) == ("success", 6, 100.0)
        assert transcript.turns[-1].message == "Thank you. Goodbye."

    @pytest.mark.parametrize("preset", PRESETS)
    async def test_below_10_is_failure_with_a_farewell_and_10_itself_is_not(self, preset: str) -> None:
        transcript = await dialogue(ScriptedUser([-10, -10, -10, -1], ["a", "b", "c", "Enough. Bye."]), preset=preset)
        # 30, 20, 10 go on; 9 ends it
        assert (emotions(transcript), transcript.stop) == ([30.0, 20.0, 10.0, 9.0], "failure")
        assert transcript.turns[-1].message == "Enough. Bye."

    async def test_corrected_judges_the_tenth_reply_and_asks_for_no_farewell(self) -> None:
        user = ScriptedUser([1])
        transcript = await dialogue(user)
        assert (transcript.stop, len(transcript.turns), len(transcript.rewards)) == ("turn_limit", MAX_TURNS, 10)
        assert (emotions(transcript)[-1], transcript.turns[-1].message) == (50.0, None)  # 40 + 10 x 1
        assert len(user.spoke) == 9

    async def test_released_leaves_the_tenth_reply_unjudged(self) -> None:
        user = ScriptedUser([1])
        transcript = await dialogue(user, preset="released")
        assert (transcript.stop, len(transcript.turns), len(transcript.rewards)) == ("turn_limit", 10, 9)
        assert (emotions(transcript)[-2:], transcript.score) == ([49.0, None], 49.0)  # 40 + 9 x 1
        assert (transcript.turns[-1].change, transcript.turns[-1].message, len(user.felt)) == (None, None, 9)

    @pytest.mark.parametrize("words", ["Well, goodbye.", "Good-bye then", "BYE!", "bye-bye", "I never said goodbye to him."])
    async def test_released_ends_at_the_word_goodbye_whatever_the_person_meant(self, words: str) -> None:
        transcript = await dialogue(ScriptedUser([1], ["Go on.", words]), preset="released")
        assert (transcript.stop, len(transcript.turns), transcript.turns[-1].message) == ("goodbye", 2, words)

    @pytest.mark.parametrize(
        ("speech", "reply"),
        [
            ("Stand by me.", "I see."), ("The bylaws say so.", "I see."), ("byebye-blackbirds", "I see."),
            ("I am off.", "I see."), ("Go on, then.", "Goodbye!"),
        ],
        ids=["by", "bylaws", "byebye", "leaves without the word", "the policy's goodbye"],
    )  # fmt: skip
    async def test_released_goes_on_without_the_word(self, speech: str, reply: str) -> None:
        assert (await dialogue(ScriptedUser([1], [speech]), preset="released", reply=reply)).stop == "turn_limit"

    @pytest.mark.parametrize("words", ["I never said goodbye to him.", "I am off. Goodbye."])
    async def test_corrected_ends_by_the_emotion_alone_whatever_the_person_says(self, words: str) -> None:
        user = ScriptedUser([-3], [words])
        transcript = await dialogue(user)
        # 40 - 10 x 3 = 10, which is not below 10
        assert (transcript.stop, len(transcript.turns), transcript.score) == ("turn_limit", MAX_TURNS, 10.0)


class TestTraining:
    async def test_it_starts_at_30_and_the_person_stays_until_0(self) -> None:
        user = ScriptedUser([-10, -10, -3, -10])
        transcript = await dialogue(user, start=30, leaves_at=0, max_turns=8)
        assert (transcript.start, emotions(transcript), transcript.stop) == ({"emotion": 30}, [20, 10, 7, 0], "failure")
        assert transcript.facts["leaves_at"] == "0"
        assert [view.manner for view in user.spoke] == ["C", "C", "C", "F"], "who stays in a bad mood speaks as one who stays"

    @pytest.mark.parametrize(("form", "said"), [("think", "<think>"), ("direct", "short and loose")])
    async def test_the_policy_is_asked_in_one_of_two_forms(self, form: str, said: str) -> None:
        policy = ScriptedChat(["I see."], cycle=True)
        transcript = await play(Sage(SCENARIOS, ScriptedUser(), form=form, max_turns=1), FIRST.id, policy)
        assert said in policy.asked[0][0].content
        assert set(transcript.prompts) == {f"policy_{form}", "feel"}

    @pytest.mark.parametrize(("start", "lowest"), [(40.0, -4.0), (30.0, -3.0)])
    async def test_the_outcome_is_a_hundredth_of_the_emotion_and_a_turn_a_tenth_of_its_change(
        self, start: float, lowest: float
    ) -> None:
        assert SPEC.training is not None
        transcript = await dialogue(ScriptedUser([5, -3, 10]), max_turns=3, start=start)
        returns = SPEC.training.returns(transcript, SageOptions())
        assert returns.outcome == pytest.approx((start + 12) / 100)
        assert list(returns.process) == pytest.approx([0.5, -0.3, 1.0])
        assert (returns.worst_outcome, returns.worst_turns) == (0.0, lowest)
        with pytest.raises(UseError, match="unscored"):
            SPEC.training.returns(transcript.model_copy(update={"score": None}), SageOptions())


class TestFailures:
    @pytest.mark.parametrize("error", [TransportError("gone"), AnswerError("answered 'maybe'")])
    async def test_a_failed_appraisal_or_answer_leaves_the_dialogue_unscored(self, error: Exception) -> None:
        for user in (ScriptedUser([5, error]), ScriptedUser([5], ["a", error])):
            transcript = await dialogue(user)
            assert (transcript.stop, transcript.score) == ("failed", None)
            assert transcript.failure is not None
            assert (transcript.failure.role, transcript.failure.detail) == ("user", str(error))
            assert emotions(transcript)[0] == 45.0

    @pytest.mark.parametrize(("preset", "stop"), [("released", "turn_limit"), ("corrected", "failed")])
    async def test_the_last_reply_fails_only_where_it_is_judged(self, preset: str, stop: str) -> None:
        changes: list[float | Exception] = [*[1.0] * 9, TransportError("gone")]
        assert (await dialogue(ScriptedUser(changes), preset=preset)).stop == stop

    @pytest.mark.parametrize(("change", "turns", "stop", "score"), [(10, 6, "success", 100.0), (-10, 4, "failure", 0.0)])
    async def test_a_lost_farewell_costs_no_score(self, change: float, turns: int, stop: str, score: float) -> None:
        speeches: list[str | Speech | Exception] = [*["a"] * (turns - 1), AnswerError("not JSON")]
        transcript = await dialogue(ScriptedUser([change], speeches))
        assert (transcript.stop, transcript.score, transcript.turns[-1].message) == (stop, score, None)
        assert transcript.counts["lost farewells"] == 1

    async def test_a_budget_spent_at_the_farewell_still_stops_the_run(self) -> None:
        with pytest.raises(BudgetSpent):
            await dialogue(ScriptedUser([10], ["a"] * 5 + [BudgetSpent("spent")]))
