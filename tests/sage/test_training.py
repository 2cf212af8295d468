"""RLVER's rewards of a SAGE dialogue."""

from __future__ import annotations

import pytest

from heartloop.core.errors import UseError
from heartloop.environments.sage.environment import SPEC
from tests.sage.test_environment import ScriptedUser, dialogue


@pytest.mark.parametrize(("start", "lowest"), [(40.0, -4.0), (30.0, -3.0)])
async def test_the_outcome_is_the_final_emotion_over_100_and_a_turn_its_change_over_10(start: float, lowest: float) -> None:
    assert SPEC.training is not None
    transcript = await dialogue(ScriptedUser([5, -3, 10]), max_turns=3, start=start)
    returns = SPEC.training.returns(transcript, SPEC.read_options({}))
    assert returns.outcome == pytest.approx((start + 12) / 100)
    assert list(returns.process) == pytest.approx([0.5, -0.3, 1.0])
    assert (returns.worst_outcome, returns.worst_turns) == (0.0, lowest)
    with pytest.raises(UseError, match="unscored"):
        SPEC.training.returns(transcript.model_copy(update={"score": None}), SPEC.read_options({}))
