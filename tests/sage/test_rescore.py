"""A stored SAGE dialogue by the rules of the other preset: as if played so, or unscored with its cause."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import TransportError
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import Sage, SageOptions, SageUser
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.stored import out_of_range, rescored
from heartloop.environments.sage.users import SageLLMUser
from heartloop.models.baselines import Baseline
from tests.released_form import feel, speak

SCENARIOS = load_scenarios("support")
ONE = SCENARIOS[0]
TURNS = 4


async def talk(answers: Sequence[str | Exception], preset: str, *, max_turns: int = TURNS) -> Transcript:
    user = SageLLMUser(ScriptedChat(list(answers), name="sim"))
    sage = Sage([ONE], user, preset=preset, max_turns=max_turns)
    return await play(sage, ONE.id, ScriptedChat(["I see."], cycle=True))


def cause(transcript: Transcript) -> str:
    return transcript.failure.kind if transcript.failure else ""


def body(transcript: Transcript) -> dict[str, Any]:
    return transcript.model_dump(exclude={"seconds"})


def spoken(transcript: Transcript) -> dict[str, Any]:
    """All but what follows from prompts, which differ between the presets: the user simulator's tokens, and the tags it wrote."""
    calls = [(call.role, call.purpose, call.turn, call.reask) for call in transcript.calls]
    return {**transcript.model_dump(exclude={"seconds", "calls", "usage"}), "calls": calls, "usage": transcript.usage["policy"]}


def moody(messages: Sequence[Message]) -> str:
    """A user simulator whose answers hang on nothing but what it is asked: changes of -10 to 10, goodbyes."""
    text = messages[0].content + messages[1].content.partition("\n\nStep")[0]  # the state of the step differs between presets
    luck = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    if '"attitude"' in messages[1].content:
        words = ("Well, bye.", "I should go now.", "He left the key on the table.", "It was a Tuesday.")[luck % 4]
        return speak(f"{words} {luck % 97}")
    return feel(luck % 21 - 10)


async def both(user: SageUser, scenario: str, policy: str, max_turns: int) -> tuple[Transcript, Transcript]:
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
            assert spoken(found) == spoken(played)
        else:
            assert cause(found) in ("not judged", "not played on")
    return there.scored, back.scored


async def test_with_a_model_as_user_it_comes_out_as_played_or_is_unscored() -> None:
    user = SageLLMUser(ScriptedChat(moody, name="sim"))
    could = [
        check_both_ways(*await both(user, scenario.id, policy, max_turns), max_turns)
        for scenario in SCENARIOS[:40]
        for policy in ("reflector", "template")
        for max_turns in (2, 12)
    ]
    assert all(there for there, _ in could), "corrected plays as long as released or longer"
    assert len({back for _, back in could}) == 2  # the test saw both ends


def to(preset: str, played: Transcript, max_turns: int = TURNS) -> Transcript:
    return rescored(played, SageOptions(preset=preset, max_turns=max_turns))


class TestToReleased:
    async def test_the_last_judgement_at_the_turn_limit_is_dropped(self) -> None:
        played = await talk([feel(5), speak(), feel(5), speak(), feel(5), speak(), feel(-10)], "corrected")
        assert (played.score, played.stop) == (45.0, "turn_limit")  # 40 + 5 + 5 + 5 - 10
        result = to("released", played)
        assert (result.score, result.stop, result.preset, result.rewards) == (55.0, "turn_limit", "released", (0.5, 0.5, 0.5))
        assert (result.turns[-1].state, result.turns[-1].change, result.turns[-1].thoughts) == (None, None, {})
        assert result.turns[-1].reply == played.turns[-1].reply
        assert [call.purpose for call in result.calls].count("feel") == 3
        assert result.usage["policy"] == played.usage["policy"]

    async def test_a_success_on_the_last_reply_is_not_seen(self) -> None:
        played = await talk([text for _ in range(6) for text in (feel(10), speak())], "corrected", max_turns=6)
        assert (played.score, played.stop) == (100.0, "success")
        result = to("released", played, 6)
        assert (result.score, result.stop) == (90.0, "turn_limit")

    async def test_the_first_goodbye_ends_the_dialogue(self) -> None:
        answers = [feel(5), speak(), feel(5), speak("He said goodbye and went."), feel(5), speak("Bye."), feel(5)]
        played = await talk(answers, "corrected")
        result = to("released", played)
        assert (played.score, result.score, result.stop, len(result.turns)) == (60.0, 50.0, "goodbye", 2)
        assert result.usage["policy"].completion_tokens < played.usage["policy"].completion_tokens
        assert max(call.turn for call in result.calls) == 1

    async def test_who_left_without_the_word_in_an_earlier_version_would_have_stayed(self) -> None:
        played = await talk([feel(5), speak("That is all."), feel(5), speak(), feel(5), speak(), feel(5)], "corrected")
        left = played.model_copy(update={"turns": played.turns[:1], "stop": "goodbye", "score": 45.0, "rewards": (0.5,)})
        assert to("corrected", left) is left
        result = to("released", left)
        assert (result.score, cause(result), result.turns) == (None, "not played on", left.turns)

    async def test_a_judgement_that_failed_at_the_turn_limit_is_not_needed(self) -> None:
        played = await talk([feel(5), speak(), feel(5), speak(), feel(5), speak(), TransportError("gone")], "corrected")
        assert not played.scored
        result = to("released", played)
        assert (result.score, result.stop, len(result.turns), result.failure) == (55.0, "turn_limit", TURNS, None)
        assert result.turns[-1].reply == "I see."

    async def test_any_other_failure_stays_one(self) -> None:
        played = await talk([feel(5), speak(), TransportError("gone")], "corrected")
        assert (to("released", played).score, to("released", played).failure) == (None, played.failure)

    async def test_a_change_asked_again_is_noticed(self) -> None:
        plain = [feel(5), speak(), feel(5), speak(), feel(5), speak(), feel(5)]
        assert out_of_range(await talk([feel(30), *plain], "corrected"))
        assert not out_of_range(await talk(["no json", *plain], "corrected"))
        assert not out_of_range(await talk([feel(5000), *plain], "corrected"))  # no answer under either preset


class TestToCorrected:
    @pytest.mark.parametrize(
        ("answers", "kind"),
        [
            ([feel(5), speak(), feel(5), speak(), feel(5), speak()], "not judged"),
            ([feel(5), speak("He waved goodbye.")], "not played on"),
            ([feel(30), speak("Goodbye.")], "change clamped"),
        ],
    )
    async def test_what_does_not_follow_is_unscored_with_its_cause(self, answers: list[str], kind: str) -> None:
        played = await talk(answers, "released")
        assert played.scored
        result = to("corrected", played)
        assert (result.score, result.stop, result.rewards, result.preset) == (None, "failed", (), "corrected")
        assert cause(result) == kind

    async def test_an_end_by_emotion_stays(self) -> None:
        answers = [feel(-10), speak(), feel(-10), speak(), feel(-10), speak(), feel(-10), speak("Bye.")]
        played = await talk(answers, "released", max_turns=8)
        assert (played.score, played.stop) == (0.0, "failure")
        assert body(to("corrected", played, 8)) == body(played) | {"preset": "corrected"}
