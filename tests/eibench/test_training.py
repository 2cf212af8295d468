"""Rewards of an EIBench dialogue (Eq. 2 and 3)."""

from __future__ import annotations

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import UseError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment

SPEC = load_environment("eibench")


async def test_the_outcome_is_the_score_and_the_process_the_changes() -> None:
    assert SPEC.training is not None
    scenarios = SPEC.load()
    environment = SPEC.make(scenarios, SPEC.players(), {"max_turns": 3})
    transcript = await play(environment, scenarios[0].id, ScriptedChat(["I hear you."] * 3), seed=7)
    found = SPEC.training.returns(transcript, environment.options)
    assert (found.outcome, found.worst_outcome) == (transcript.score, -1.0)
    assert list(found.process) == list(transcript.rewards)
    lost = (100 - transcript.start["a"] + transcript.start["t"]) / 200  # both axes at their worse end
    assert found.worst_turns == pytest.approx(-lost)
    with pytest.raises(UseError, match="unscored"):
        SPEC.training.returns(transcript.model_copy(update={"score": None}), environment.options)


def test_a_small_policys_tokenizer_knows_what_may_be_said() -> None:
    assert SPEC.training is not None
    scenario = SPEC.load()[0]
    texts = set(SPEC.training.texts(scenario))
    assert {scenario.model.goal, scenario.model.background, *scenario.model.knows} < texts
    assert {beat.text for beat in scenario.beats} < texts
