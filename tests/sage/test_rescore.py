"""A stored dialogue by the rules of the other preset, without a model call.

1. What follows from the transcript is computed, and comes out as if it had been played under the other preset.
2. What does not follow is unscored with its cause: not judged, not played on, change clamped.
3. Calls, tokens and counts are those of the turns that stay; the words said stay as they were.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import TransportError, UseError
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import Sage, SageOptions, SageUser
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.stored import out_of_range, rescored
from heartloop.environments.sage.users import SageEmbeddedUser, SageLLMUser
from heartloop.models.baselines import Baseline

SCENARIOS = load_scenarios("support")
ONE = SCENARIOS[0]
TURNS = 4


def feel(change: int = 5) -> str:
    return json.dumps({"content": "c", "fit": "f", "activity": "a", "feeling": "g", "change": change})


def speak(reply: str = "And then he left.", leaves: bool = False) -> str:
    return json.dumps({"attitude": "n", "aim": "t", "tone": "d", "matter": "h", "reply": reply, "leaves": leaves})


async def talk(answers: Sequence[str | Exception], preset: str, *, max_turns: int = TURNS) -> Transcript:
    user = SageLLMUser(ScriptedChat(list(answers), name="sim"))
    sage = Sage([ONE], user, preset=preset, max_turns=max_turns)
    return await play(sage, ONE.id, ScriptedChat(["I see."], cycle=True))


def body(transcript: Transcript) -> dict[str, Any]:
    return transcript.model_dump(exclude={"seconds"})


def moody(messages: Sequence[Message]) -> str:
    """A user simulator whose answers hang on nothing but what it is asked: changes of -10 to 10, goodbyes, decisions to leave."""
    text = messages[0].content + messages[1].content
    luck = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    if "attitude" in messages[0].content:
        words = ("Well, bye.", "I should go now.", "He left the key on the table.", "It was a Tuesday.")[luck % 4]
        return speak(f"{words} {luck % 97}", leaves=luck % 7 == 0)
    return feel(luck % 21 - 10)


async def both(user: SageUser, scenario: str, policy: str, max_turns: int) -> tuple[Transcript, Transcript]:
    """The same dialogue played under both presets."""
    corrected, released = [
        await play(Sage(SCENARIOS, user, preset=preset, max_turns=max_turns), scenario, Baseline(policy), seed=3)
        for preset in ("corrected", "released")
    ]
    return corrected, released


def check_both_ways(corrected: Transcript, released: Transcript, max_turns: int) -> tuple[bool, bool]:
    """Rescoring gives what playing gives, or says that it cannot; returns which way it could."""
    there = rescored(corrected, SageOptions(preset="released", max_turns=max_turns))
    back = rescored(released, SageOptions(preset="corrected", max_turns=max_turns))
    for found, played in ((there, released), (back, corrected)):
        if found.scored:
            assert body(found) == body(played)
        else:
            assert found.failure is not None
            assert found.failure.kind in ("not judged", "not played on")
    return there.scored, back.scored


@pytest.mark.parametrize("policy", ["reflector", "lecturer"])
@pytest.mark.parametrize("max_turns", [3, 10])
async def test_with_the_embedded_user_it_comes_out_as_played(policy: str, max_turns: int) -> None:
    user = SageEmbeddedUser()
    for scenario in SCENARIOS[:45:15]:
        corrected, released = await both(user, scenario.id, policy, max_turns)
        assert check_both_ways(corrected, released, max_turns)[0], "the embedded user never leaves of its own decision"


async def test_with_a_model_as_user_it_comes_out_as_played_or_is_unscored() -> None:
    user = SageLLMUser(ScriptedChat(moody, name="sim"))
    could = [
        check_both_ways(*await both(user, scenario.id, policy, max_turns), max_turns)
        for scenario in SCENARIOS[:10]
        for policy in ("reflector", "template")
        for max_turns in (2, 5)
    ]
    assert len({there for there, _ in could}) == 2  # the test saw both ends, both ways
    assert len({back for _, back in could}) == 2


class TestToReleased:
    """From `corrected`."""

    async def test_the_last_judgement_at_the_turn_limit_is_dropped(self) -> None:
        played = await talk([feel(5), speak(), feel(5), speak(), feel(5), speak(), feel(-10)], "corrected")
        assert (played.score, played.stop) == (45.0, "turn_limit")  # 40 + 5 + 5 + 5 - 10
        found = rescored(played, SageOptions(preset="released", max_turns=TURNS))
        assert (found.score, found.stop, found.preset, found.rewards) == (55.0, "turn_limit", "released", (0.5, 0.5, 0.5))
        assert (found.turns[-1].state, found.turns[-1].change, found.turns[-1].thoughts) == (None, None, {})
        assert found.turns[-1].reply == played.turns[-1].reply
        assert [call.purpose for call in found.calls].count("feel") == 3
        assert found.usage["policy"] == played.usage["policy"]

    async def test_a_success_on_the_last_reply_is_not_seen(self) -> None:
        answers = [text for _ in range(6) for text in (feel(10), speak())]
        played = await talk(answers, "corrected", max_turns=6)
        assert (played.score, played.stop) == (100.0, "success")
        found = rescored(played, SageOptions(preset="released", max_turns=6))
        assert (found.score, found.stop) == (90.0, "turn_limit")

    async def test_the_first_goodbye_ends_the_talk(self) -> None:
        played = await talk(
            [feel(5), speak(), feel(5), speak("He said goodbye and went."), feel(5), speak("Bye."), feel(5)], "corrected"
        )
        assert played.score == 60.0
        found = rescored(played, SageOptions(preset="released", max_turns=TURNS))
        assert (found.score, found.stop, len(found.turns)) == (50.0, "goodbye", 2)
        assert found.usage["policy"].completion_tokens < played.usage["policy"].completion_tokens
        assert max(call.turn for call in found.calls) == 1

    async def test_who_left_without_the_word_would_have_stayed(self) -> None:
        played = await talk([feel(5), speak("That is all.", leaves=True)], "corrected")
        found = rescored(played, SageOptions(preset="released", max_turns=TURNS))
        assert found.score is None
        assert found.failure is not None
        assert found.failure.kind == "not played on"
        assert found.turns == played.turns  # what was said is kept

    async def test_a_judgement_that_failed_at_the_turn_limit_is_not_needed(self) -> None:
        played = await talk([feel(5), speak(), feel(5), speak(), feel(5), speak(), TransportError("gone")], "corrected")
        assert not played.scored
        found = rescored(played, SageOptions(preset="released", max_turns=TURNS))
        assert (found.score, found.stop, len(found.turns), found.failure) == (55.0, "turn_limit", TURNS, None)
        assert found.turns[-1].reply == "I see."

    async def test_any_other_failure_stays_one(self) -> None:
        played = await talk([feel(5), speak(), TransportError("gone")], "corrected")
        found = rescored(played, SageOptions(preset="released", max_turns=TURNS))
        assert (found.score, found.failure) == (None, played.failure)

    async def test_a_change_asked_again_is_noticed(self) -> None:
        plain = [feel(5), speak(), feel(5), speak(), feel(5), speak(), feel(5)]
        assert out_of_range(await talk([feel(30), *plain], "corrected"))
        assert not out_of_range(await talk(["no json", *plain], "corrected"))
        assert not out_of_range(await talk([feel(5000), *plain], "corrected"))  # no answer under either preset


class TestToCorrected:
    """From `released`."""

    async def test_a_last_reply_that_was_never_judged_is_unscored(self) -> None:
        played = await talk([feel(5), speak(), feel(5), speak(), feel(5), speak()], "released")
        assert played.score == 55.0
        found = rescored(played, SageOptions(preset="corrected", max_turns=TURNS))
        assert found.failure is not None
        assert (found.failure.role, found.failure.kind) == ("rescoring", "not judged")
        assert "rejudge" in found.failure.detail
        assert (found.score, found.stop, found.rewards, found.preset) == (None, "failed", (), "corrected")

    async def test_a_goodbye_stands_where_it_was_decided(self) -> None:
        played = await talk([feel(5), speak("Goodbye.", leaves=True)], "released")
        found = rescored(played, SageOptions(preset="corrected", max_turns=TURNS))
        assert (found.score, found.stop) == (45.0, "goodbye")

    async def test_a_goodbye_that_was_a_word_only_is_unscored(self) -> None:
        played = await talk([feel(5), speak("He waved goodbye.")], "released")
        found = rescored(played, SageOptions(preset="corrected", max_turns=TURNS))
        assert found.failure is not None
        assert found.failure.kind == "not played on"

    async def test_a_decision_that_the_word_rule_passed_over_ends_the_talk(self) -> None:
        played = await talk([feel(5), speak("Enough.", leaves=True), feel(9), speak(), feel(9), speak()], "released")
        found = rescored(played, SageOptions(preset="corrected", max_turns=TURNS))
        assert (found.score, found.stop, len(found.turns)) == (45.0, "goodbye", 1)

    async def test_a_clamped_change_is_unscored(self) -> None:
        played = await talk([feel(30), speak("Goodbye.", leaves=True)], "released")
        assert played.score == 50.0
        found = rescored(played, SageOptions(preset="corrected", max_turns=TURNS))
        assert found.failure is not None
        assert found.failure.kind == "change clamped"

    async def test_an_end_by_mood_stands(self) -> None:
        played = await talk([feel(-10), speak(), feel(-10), speak(), feel(-10), speak(), feel(-10), speak("Bye.")], "released",
                            max_turns=8)  # fmt: skip
        assert (played.score, played.stop) == (0.0, "failure")
        assert body(rescored(played, SageOptions(preset="corrected", max_turns=8))) == body(played) | {"preset": "corrected"}


async def test_the_same_preset_changes_nothing() -> None:
    played = await talk([feel(5), speak("Bye.")], "released")
    assert rescored(played, SageOptions(preset="released", max_turns=TURNS)) is played


async def test_what_cannot_be_rescored_is_refused() -> None:
    played = await talk([feel(5), speak(), feel(5), speak("Bye.")], "released")
    with pytest.raises(UseError, match="2 turns; expected at most the run's 1"):
        rescored(played, SageOptions(preset="corrected", max_turns=1))
