"""RLVER's rewards (sections 2.1 and H.1): the outcome is the final emotion over 100, the process reward of a turn its change over
10; both are lowest at emotion 0.
"""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.sage.environment import SageOptions
from heartloop.environments.training import Returns, Training, rewards_by_turn, score_of
from heartloop.scoring.credit import TURN_SCALE, outcome_reward


def _returns(transcript: Transcript, options: SageOptions) -> Returns:
    worst = -transcript.start["emotion"] / TURN_SCALE
    return Returns(outcome_reward(score_of(transcript)), rewards_by_turn(transcript), worst_outcome=0.0, worst_turns=worst)


TRAINING = Training(
    returns=_returns,
    calls_per_turn=2,
    tokens_per_call=2200,  # ours: five dialogues of eight turns, estimated from their length
)
