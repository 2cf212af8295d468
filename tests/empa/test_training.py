"""Rewards of an EMPA dialogue: success, and the energy of each window over |P_0|."""

from __future__ import annotations

import math

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.training import Returns

SPEC = load_environment("empa")


async def played(max_turns: int = 3, *, window: int = 1, replies: tuple[str, ...] = ("I hear you.",)) -> Transcript:
    cases = SPEC.load()
    environment = SPEC.make(cases, SPEC.players(), {"max_turns": max_turns, "window": window})
    return await play(environment, cases[0].id, ScriptedChat([*replies] * max_turns), seed=7)


def returns(transcript: Transcript) -> Returns:
    assert SPEC.training is not None
    return SPEC.training.returns(transcript, SPEC.read_options({}))


async def test_rewards_are_success_and_the_share_of_the_deficit() -> None:
    case = await played()
    deficit = math.hypot(*case.start.values())
    found = returns(case)
    assert found.process == pytest.approx([energy / deficit for energy in case.rewards])
    assert (found.outcome, found.worst_outcome) == (0.0, 0.0)
    assert returns(case.model_copy(update={"stop": "success"})).outcome == 1.0
    # 45 windows that go back as far as a form can say
    assert found.worst_turns == pytest.approx(-45 * math.sqrt(4**2 + 5**2 + 5**2) / deficit)


async def test_the_energy_of_a_window_is_the_reward_of_the_reply_that_closes_it() -> None:
    case = await played(5, window=2, replies=("I hear you.", "You waited so long for that call."))
    deficit = math.hypot(*case.start.values())
    first, second, third = case.rewards
    assert returns(case).process == pytest.approx([energy / deficit for energy in (0.0, first, 0.0, second, third)])
