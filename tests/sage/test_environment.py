"""SAGE's rules, whoever plays the person.

1. A dialogue starts at 40; every judged reply moves the emotion by at most 10, and every move is a reward of a tenth.
2. It ends in success at 100, in failure below 10, when the person leaves, or after ten replies.
3. `corrected` judges every reply and lets the person decide to leave; `released` leaves the tenth reply unjudged and
   ends at the word "goodbye", as the authors' code does.
4. What the person can no longer say once the measurement is complete does not cost the measurement.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, BudgetSpent, InputError, ModelError, TransportError
from heartloop.environments.episode import CallLog, play
from heartloop.environments.sage.environment import MAX_TURNS, PRESETS, Feeling, Sage, SageView, Speech
from heartloop.environments.sage.scenario import AnySageScenario, load_scenarios
from heartloop.environments.sage.users import SageEmbeddedUser

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
        if scenario.title == "unplayable":
            raise InputError("cannot be played")

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
    """Emotion, change, reward."""

    async def test_a_dialogue_starts_at_40_with_the_scenarios_first_message(self) -> None:
        transcript = await dialogue(ScriptedUser())
        assert transcript.start == {"emotion": 40.0}
        assert transcript.opening == FIRST.first_message

    async def test_every_change_moves_the_emotion_and_pays_a_tenth_of_itself(self) -> None:
        transcript = await dialogue(ScriptedUser([5, -3, 10]), max_turns=3)
        # 40 + 5 = 45, - 3 = 42, + 10 = 52
        assert emotions(transcript) == [45.0, 42.0, 52.0]
        assert [t.change for t in transcript.turns] == [{"emotion": 5.0}, {"emotion": -3.0}, {"emotion": 10.0}]
        assert transcript.rewards == (0.5, -0.3, 1.0)
        assert transcript.score == 52.0

    async def test_a_change_beyond_ten_is_clamped_and_counted(self) -> None:
        transcript = await dialogue(ScriptedUser([25, -11, 10]), max_turns=3)
        # 40 + 10 = 50, - 10 = 40, + 10 = 50; two of the three were beyond
        assert emotions(transcript) == [50.0, 40.0, 50.0]
        assert transcript.rewards == (1.0, -1.0, 1.0)
        assert transcript.counts["clamped changes"] == 2

    async def test_the_scales_end_shortens_the_change_and_the_reward_and_is_no_clamping(self) -> None:
        transcript = await dialogue(ScriptedUser([10]), start=95.0)
        assert emotions(transcript) == [100.0]
        assert transcript.turns[0].change == {"emotion": 5.0}
        assert transcript.rewards == (0.5,)
        assert "clamped changes" not in transcript.counts

    async def test_rewards_add_up_to_the_way_from_start_to_score(self) -> None:
        transcript = await dialogue(ScriptedUser([3, -7, 10, 10, 4, 0, -2, 1, 5, 6]))
        assert transcript.score == pytest.approx(40 + 10 * sum(transcript.rewards))

    async def test_thoughts_and_evidence_are_kept_per_turn(self) -> None:
        transcript = await dialogue(ScriptedUser(), max_turns=2)
        assert transcript.turns[1].thoughts == THOUGHTS
        assert transcript.turns[1].evidence == {"why": 1}


class TestWhatThePersonKnows:
    """The view of the person in `feel` and `speak`."""

    async def test_the_mood_before_the_reply_in_feel_and_after_it_in_speak(self) -> None:
        user = ScriptedUser([5, -3, 10])
        await dialogue(user, max_turns=4)
        assert [view.emotion for view in user.felt] == [40, 45, 42, 52]
        assert [view.emotion for view in user.spoke] == [45, 42, 52]

    async def test_all_that_was_said_and_heard_so_far_the_latest_reply_included(self) -> None:
        user = ScriptedUser([1], ["one", "two", "three"])
        await dialogue(user, reply="r", max_turns=3)
        assert user.felt[2].messages == (FIRST.first_message, "one", "two")
        assert user.felt[2].replies == ("r", "r", "r")
        assert [view.turn for view in user.felt] == [0, 1, 2]

    async def test_silence_is_heard_as_the_empty_string(self) -> None:
        user = ScriptedUser([-5])
        transcript = await dialogue(user, reply="<think>hm</think>", max_turns=2)
        assert user.felt[1].replies == ("", "")
        assert transcript.counts["silences"] == 2

    async def test_the_dialogues_seed_reaches_the_person(self) -> None:
        user = ScriptedUser()
        await dialogue(user, seed=99, max_turns=1)
        assert user.felt[0].seed == 99

    async def test_two_episodes_of_one_scenario_share_nothing(self) -> None:
        sage = Sage(SCENARIOS, ScriptedUser([10]))
        one, two = sage.begin(FIRST.id), sage.begin(FIRST.id)
        await one.open()
        await two.open()
        await one.step("a")
        assert one.outcome().score == 50.0
        assert two.outcome().score == 40.0


class TestEnds:
    """Success, failure, goodbye, turn limit."""

    @pytest.mark.parametrize("preset", PRESETS)
    async def test_100_is_success_with_a_farewell(self, preset: str) -> None:
        user = ScriptedUser([10], ["a", "b", "c", "d", "e", Speech("Thank you. Goodbye.", leaves=True)])
        transcript = await dialogue(user, preset=preset)
        # 40 + 6 x 10 = 100 after the sixth reply
        assert transcript.stop == "success"
        assert len(transcript.turns) == 6
        assert transcript.score == 100.0
        assert transcript.turns[-1].message == "Thank you. Goodbye."

    @pytest.mark.parametrize("preset", PRESETS)
    async def test_below_10_is_failure_with_a_farewell_and_10_itself_is_not(self, preset: str) -> None:
        user = ScriptedUser([-10, -10, -10, -1], ["a", "b", "c", "Enough. Bye."])
        transcript = await dialogue(user, preset=preset)
        # 30, 20, 10 go on; 9 ends it
        assert emotions(transcript) == [30.0, 20.0, 10.0, 9.0]
        assert transcript.stop == "failure"
        assert transcript.turns[-1].message == "Enough. Bye."

    async def test_success_on_the_last_reply_is_success_and_not_the_turn_limit(self) -> None:
        transcript = await dialogue(ScriptedUser([10], ["x"]), start=90.0, max_turns=1)
        assert transcript.stop == "success"
        assert transcript.turns[0].message == "x"

    async def test_corrected_judges_the_tenth_reply(self) -> None:
        transcript = await dialogue(ScriptedUser([1]))
        assert transcript.stop == "turn_limit"
        assert len(transcript.turns) == MAX_TURNS == 10
        assert emotions(transcript)[-1] == 50.0  # 40 + 10 x 1
        assert len(transcript.rewards) == 10
        assert transcript.turns[-1].message is None

    async def test_released_leaves_the_tenth_reply_unjudged(self) -> None:
        user = ScriptedUser([1])
        transcript = await dialogue(user, preset="released")
        assert transcript.stop == "turn_limit"
        assert len(transcript.turns) == 10
        assert emotions(transcript)[-2:] == [49.0, None]
        assert transcript.turns[-1].change is None
        assert transcript.turns[-1].message is None
        assert len(transcript.rewards) == 9
        assert transcript.score == 49.0  # 40 + 9 x 1
        assert len(user.felt) == 9

    async def test_the_released_tenth_reply_cannot_even_be_a_failed_measurement(self) -> None:
        changes: list[float | Exception] = [*[1.0] * 9, TransportError("gone")]
        assert (await dialogue(ScriptedUser(changes), preset="released")).score == 49.0
        assert (await dialogue(ScriptedUser(changes), preset="corrected")).stop == "failed"

    @pytest.mark.parametrize("words", ["Well, goodbye.", "Good-bye then", "BYE!", "bye-bye", "I never said goodbye to him."])
    async def test_released_ends_at_the_word_goodbye_whatever_the_person_meant(self, words: str) -> None:
        user = ScriptedUser([1], ["Go on.", Speech(words, leaves=False)])
        transcript = await dialogue(user, preset="released")
        assert transcript.stop == "goodbye"
        assert len(transcript.turns) == 2
        assert transcript.turns[-1].message == words

    @pytest.mark.parametrize("words", ["Stand by me.", "The bylaws say so.", "byebye-blackbirds"])
    async def test_released_goes_on_where_the_word_is_part_of_another(self, words: str) -> None:
        transcript = await dialogue(ScriptedUser([1], [words]), preset="released")
        assert transcript.stop == "turn_limit"

    async def test_released_goes_on_when_the_person_leaves_without_the_word(self) -> None:
        transcript = await dialogue(ScriptedUser([1], [Speech("I am off.", leaves=True)]), preset="released")
        assert transcript.stop == "turn_limit"

    async def test_corrected_ends_only_when_the_person_decides_to_leave(self) -> None:
        talks_of_it = await dialogue(ScriptedUser([1], ["I never said goodbye to him."]))
        assert talks_of_it.stop == "turn_limit"
        leaves = await dialogue(ScriptedUser([1], ["Go on.", Speech("I am off.", leaves=True)]))
        assert leaves.stop == "goodbye"
        assert len(leaves.turns) == 2
        assert leaves.score == 42.0

    async def test_a_message_that_is_the_policys_own_goodbye_ends_nothing(self) -> None:
        transcript = await dialogue(ScriptedUser([1]), preset="released", reply="Goodbye!")
        assert transcript.stop == "turn_limit"


class TestTraining:
    """RLVER's training rules: another start, another end, another policy prompt."""

    async def test_it_starts_at_30_and_the_person_stays_until_0(self) -> None:
        transcript = await dialogue(ScriptedUser([-10, -10, -3, -10]), start=30, leaves_at=0, max_turns=8)
        assert transcript.start == {"emotion": 30}
        assert emotions(transcript) == [20, 10, 7, 0]
        assert transcript.stop == "failure"
        assert transcript.facts["leaves_at"] == "0"

    async def test_who_stays_in_a_bad_mood_speaks_as_one_who_stays(self) -> None:
        user = ScriptedUser([-10, -10, -3, -10])
        await dialogue(user, start=30, leaves_at=0, max_turns=8)
        assert [view.manner for view in user.spoke] == ["C", "C", "C", "F"]

    async def test_the_written_person_has_something_to_say_to_the_end(self) -> None:
        sage = Sage(SCENARIOS, SageEmbeddedUser(), start=30, leaves_at=0, max_turns=8)
        rude = ScriptedChat(["Get over it. You are pathetic and boring."], cycle=True)
        transcript = await play(sage, FIRST.id, rude)
        assert transcript.failure is None
        assert transcript.stop == "failure"
        assert transcript.score == 0

    @pytest.mark.parametrize(("form", "said"), [("think", "<think>"), ("direct", "short and loose")])
    async def test_the_policy_is_asked_in_one_of_two_forms(self, form: str, said: str) -> None:
        policy = ScriptedChat(["I see."], cycle=True)
        transcript = await play(Sage(SCENARIOS, ScriptedUser(), form=form, max_turns=1), FIRST.id, policy)
        assert said in policy.asked[0][0].content
        assert set(transcript.prompts) == {f"policy_{form}", "feel"}


class TestInstruments:
    """What a broken user simulator costs, and what it does not."""

    @pytest.mark.parametrize("error", [TransportError("gone"), AnswerError("answered 'maybe'")])
    async def test_a_feeling_that_fails_leaves_the_dialogue_unscored(self, error: Exception) -> None:
        transcript = await dialogue(ScriptedUser([5, error]))
        assert transcript.stop == "failed"
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.detail) == ("user", str(error))
        assert transcript.score is None
        assert emotions(transcript) == [45.0]

    async def test_an_answer_that_fails_in_the_middle_leaves_the_dialogue_unscored(self) -> None:
        transcript = await dialogue(ScriptedUser([5], ["a", ModelError("gone")]))
        assert transcript.stop == "failed"
        assert transcript.score is None

    @pytest.mark.parametrize(("changes", "stop", "score"), [([10], "success", 100.0), ([-10], "failure", 0.0)])
    async def test_a_lost_farewell_keeps_the_score_and_is_counted(self, changes: list[float], stop: str, score: float) -> None:
        lost: list[str | Speech | Exception] = [*["a"] * (5 if stop == "success" else 3), AnswerError("not JSON")]
        transcript = await dialogue(ScriptedUser(changes, lost))
        assert transcript.stop == stop
        assert transcript.score == score
        assert transcript.turns[-1].message is None
        assert transcript.counts["lost farewells"] == 1

    async def test_a_budget_spent_at_the_farewell_still_stops_the_run(self) -> None:
        with pytest.raises(BudgetSpent):
            await dialogue(ScriptedUser([10], ["a"] * 5 + [BudgetSpent("spent")]))

    async def test_a_farewell_on_the_turn_limit_is_not_asked_for(self) -> None:
        user = ScriptedUser([1])
        await dialogue(user)
        assert len(user.spoke) == 9


class TestUse:
    """What is refused before the first word, and what the transcript says of the rules."""

    @pytest.mark.parametrize("preset", PRESETS)
    async def test_the_transcript_carries_preset_variant_prompts_and_what_reports_group_by(self, preset: str) -> None:
        transcript = await dialogue(ScriptedUser(), preset=preset, variant="challenging", max_turns=2)
        assert (transcript.preset, transcript.variant) == (preset, "challenging")
        assert transcript.user == "scripted person"
        assert transcript.fingerprint == FIRST.fingerprint
        assert transcript.facts["intention"] == FIRST.intention
        assert transcript.facts["theme"] == FIRST.theme
        assert set(transcript.prompts) == {"policy", "feel"}

    async def test_the_policys_system_prompt_gives_nothing_of_the_person_away(self) -> None:
        policy = ScriptedChat(["I see."], cycle=True)
        await play(Sage(SCENARIOS, ScriptedUser()), FIRST.id, policy)
        system = policy.asked[0][0]
        assert system.role == "system"
        assert FIRST.persona.name.split()[0] not in system.content
        assert FIRST.intention not in system.content
