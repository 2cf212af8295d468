"""Stored EIBench dialogues: another weight, the other preset, another judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Call, Transcript, Usage, write_line
from heartloop.core.errors import InputError
from heartloop.environments.eibench.environment import EIBench, EIBenchOptions
from heartloop.environments.eibench.scenario import load_scenarios
from heartloop.environments.eibench.stored import out_of_range, rescored
from heartloop.environments.eibench.users import EIBenchLLMUser
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import RESCORING, rejudged
from tests.eibench.test_environment import Fixed
from tests.released_eibench import reacts

BENCH = load_environment("eibench")
SCENARIO = next(s for s in load_scenarios("test") if s.id == "defense-visiting-hours-01")
TURNS = 3


def answer(a: int, t: int, *, goes_on: bool = True, reply: str = "And now?") -> Reply:
    fields = {"strain_change": a, "relation_change": t, "reply": reply, "continue": "yes" if goes_on else "settled"}
    return Reply(reacts(**fields), usage=Usage(prompt_tokens=100, completion_tokens=10))


async def talk(*answers: Reply, preset: str = "paper") -> Transcript:
    user = EIBenchLLMUser(ScriptedChat(list(answers), name="lab/sim"))
    bench = EIBench([SCENARIO], user, preset=preset, max_turns=TURNS)
    return await play(bench, SCENARIO.id, ScriptedChat(lambda m: f"reply {len(m) // 2}", name="lab/a"), seed=5)


def again(played: Transcript, preset: str, weight: float = 0.5) -> Transcript:
    return rescored(played, EIBenchOptions(preset=preset, max_turns=TURNS, relation_weight=weight))


class TestWeight:
    async def test_by_hand(self) -> None:
        # a 80 -> 70 of 80 -> 30 is 10/50; t 15 -> 22 of 15 -> 50 is 7/35: both 0.2 until one weighs more
        played = await talk(answer(-6, 4), answer(-4, 2), answer(0, 1))
        assert played.score == pytest.approx(0.2)
        played = await talk(answer(-6, 4), answer(-4, 2), answer(5, 1))  # a 75: 0.1
        found = again(played, "paper", 0.9)
        assert found.score == pytest.approx(0.9 * 0.2 + 0.1 * 0.1)
        assert found.facts == {**played.facts, "relation_weight": "0.9"}
        assert again(found, "paper", 0.5) == played, "the same weight again is the same dialogue"
        assert (found.turns, found.rewards, found.calls) == (played.turns, played.rewards, played.calls)

    async def test_what_does_not_fit_is_refused(self) -> None:
        played = await talk(answer(0, 0, goes_on=False))
        with pytest.raises(InputError, match="no anchors"):
            again(played.model_copy(update={"facts": {}}), "paper", 0.9)


class TestPresets:
    async def test_without_a_change_beyond_ten_they_are_one(self) -> None:
        played = await talk(answer(-6, 4), Reply("broken"), answer(-4, 2), answer(0, 10))
        assert again(played, "released") == played.model_copy(update={"preset": "released"})
        assert again(again(played, "released"), "paper") == played
        assert not out_of_range(played)

    async def test_what_was_asked_again_has_its_later_answer_and_is_noticed(self) -> None:
        played = await talk(answer(-14, 4), answer(-9, 4), answer(0, 0), answer(0, 0))
        assert played.counts["re-asks"] == 1
        assert again(played, "released").score == played.score
        assert out_of_range(played)

    async def test_calls_of_an_earlier_version_have_no_tag_and_another_name_of_the_change(self) -> None:
        played = await talk(answer(-14, 4), answer(-9, 4), answer(0, 0), answer(0, 0))

        def earlier(call: Call) -> Call:
            text = call.text.replace(f'"tag": "{call.tag}", ', "").replace(f', "end": "{call.tag}"', "")
            return call.model_copy(update={"text": text.replace("strain_change", "emotion_change"), "tag": None})

        stored = played.model_copy(update={"calls": tuple(map(earlier, played.calls))})
        assert not any("tag" in call.text for call in stored.calls)
        assert out_of_range(stored)

    async def test_what_was_refused_in_the_last_turn_is_scored_by_its_first_answer(self) -> None:
        answers = (answer(-6, 4), answer(-4, 2), answer(-14, 0, reply="Oh."))
        played = await talk(*answers, answer(-15, 0))
        assert played.failure is not None
        result, as_released = again(played, "released"), await talk(*answers, preset="released")
        assert result == as_released.model_copy(update={"seconds": result.seconds, "calls": result.calls})
        assert (result.stop, result.counts["clamped changes"], result.turns[-1].state) == ("turn_limit", 1, {"a": 60, "t": 21})

    async def test_what_was_refused_with_a_goodbye_is_scored(self) -> None:
        result = again(await talk(answer(0, -12, goes_on=False), answer(0, -13)), "released")
        assert (result.stop, result.turns[-1].change) == ("settled", {"a": 0, "t": -10})

    async def test_what_was_refused_before_is_not_played_on(self) -> None:
        played = await talk(answer(-6, 4), answer(-14, 0), answer(-15, 0))
        result = again(played, "released")
        assert result.failure is not None
        assert (result.score, result.failure.role, result.failure.kind) == (None, RESCORING, "not played on")
        assert result.turns == played.turns

    async def test_a_broken_answer_stays_unscored_with_its_cause(self) -> None:
        played = await talk(answer(-6, 4), Reply("no"), Reply("no"))
        assert again(played, "released") == played.model_copy(update={"preset": "released"})

    async def test_a_clamped_change_was_not_asked_again_and_does_not_follow_under_paper(self) -> None:
        played = await talk(answer(-14, 4), answer(0, 0), answer(0, 0), preset="released")
        assert (played.counts["clamped changes"], out_of_range(played)) == (1, False)
        result = again(played, "paper")
        assert result.failure is not None
        assert (result.score, result.failure.kind, result.turns) == (None, "change clamped", played.turns)


def words(transcript: Transcript) -> Sequence[tuple[str, str | None]]:
    return [(turn.reply, turn.message) for turn in transcript.turns]


async def read(played: Transcript, judge: Any) -> Transcript:
    """As it is stored: that its replies were not paid for is not in a transcript."""
    found = await rejudged(BENCH, played, SCENARIO, judge, EIBenchOptions(max_turns=TURNS))
    return Transcript.model_validate_json(write_line(found))


class TestJudges:
    async def test_a_model_that_answers_as_before_finds_the_same(self) -> None:
        answers = (answer(-6, 4), answer(3, -2, reply="No."), answer(-10, 8))
        played = await talk(*answers)
        found = await read(played, EIBenchLLMUser(ScriptedChat(list(answers), name="lab/sim"), role="judge"))
        assert (found.turns, found.score, found.stop) == (played.turns, played.score, played.stop)
        assert {call.role for call in found.calls} == {"policy", "judge"}

    async def test_other_changes_on_the_same_words(self) -> None:
        played = await talk(answer(-6, 4), answer(-4, 2), answer(0, 0))
        judge = Fixed((5, -5), (2, 0), leaves_after=1)
        found = await read(played, judge)
        assert words(found) == words(played)
        assert [turn.state for turn in found.turns] == [{"a": 85, "t": 10}, {"a": 87, "t": 10}, {"a": 89, "t": 10}]
        assert [turn.thoughts for turn in found.turns] == [{"need": "n"}] * 3
        assert (found.stop, found.user) == ("turn_limit", "fixed")
        assert judge.views[1].messages[-1] == "And now?"
        # a 80 -> 89 of 80 -> fail 100 is -9/20; t 15 -> 10 of 15 -> fail 0 is -5/15
        assert found.score == pytest.approx((-9 / 20 - 5 / 15) / 2)

    async def test_the_persons_parting_word_still_ends_it(self) -> None:
        played = await talk(answer(-6, 4), answer(-4, 2, goes_on=False, reply="Bye."))
        found = await read(played, Fixed((-1, 1)))
        assert (found.stop, len(found.turns), found.turns[-1].message) == ("settled", 2, "Bye.")

    async def test_the_weight_stays(self) -> None:
        played = again(await talk(answer(-5, 0), answer(0, 0), answer(0, 0)), "paper", 0.0)
        found = await read(played, Fixed((-10, 0), (0, 0)))
        assert found.score == pytest.approx(10 / 50)
