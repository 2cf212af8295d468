"""RLVER's rewards of a SAGE dialogue."""

from __future__ import annotations

import itertools

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.training import Returns

SPEC = load_environment("sage")


async def played(start: float = 40.0) -> Transcript:
    scenarios = SPEC.load()
    environment = SPEC.make(scenarios, SPEC.players(), {"max_turns": 3, "start": start})
    return await play(environment, scenarios[0].id, ScriptedChat(["I hear you."] * 3), seed=7)


def returns(transcript: Transcript) -> Returns:
    assert SPEC.training is not None
    return SPEC.training.returns(transcript, SPEC.read_options({}))


async def test_the_outcome_is_the_final_emotion_over_100_and_a_turn_its_change_over_10() -> None:
    transcript = await played()
    emotions = [40.0, *(turn.state["emotion"] for turn in transcript.turns if turn.state)]
    found = returns(transcript)
    assert found.outcome == emotions[-1] / 100
    assert list(found.process) == pytest.approx([(after - before) / 10 for before, after in itertools.pairwise(emotions)])


@pytest.mark.parametrize(("start", "lowest"), [(40.0, -4.0), (30.0, -3.0)])
async def test_the_lowest_is_an_emotion_of_0(start: float, lowest: float) -> None:
    found = returns(await played(start))
    assert (found.worst_outcome, found.worst_turns) == (0.0, lowest)


async def test_an_unscored_dialogue_is_refused() -> None:
    with pytest.raises(UseError, match="unscored"):
        returns((await played()).model_copy(update={"score": None}))
