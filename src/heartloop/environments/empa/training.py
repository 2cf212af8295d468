"""EMPA in training (ours: no paper trained in EMPA).

The outcome is 1 for a success and 0 otherwise. The process reward is the energy of a judged window divided by |P_0|, at the last
reply of the window; a sum of 1 is the energy that success requires. The lowest sum is that of a dialogue of `MAX_TURNS` windows,
each with the lowest energy that a form can have.
"""

from __future__ import annotations

import numpy as np

from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.options import MAX_TURNS, EmpaOptions
from heartloop.environments.empa.scoring import longest_step
from heartloop.environments.spec import Returns, Training, rewards_by_turn, score_of

__all__ = ["TRAINING"]


def _returns(transcript: Transcript, options: EmpaOptions) -> Returns:
    score_of(transcript)
    deficit = float(np.linalg.norm(list(transcript.start.values())))
    return Returns(
        outcome=float(transcript.stop == "success"),
        process=[reward / deficit for reward in rewards_by_turn(transcript)],
        worst_outcome=0.0,
        worst_turns=-MAX_TURNS * longest_step(preset=transcript.preset) / deficit,
    )


TRAINING = Training(
    returns=_returns,
    calls_per_turn=3,
    tokens_per_call=3000,  # ours: five dialogues of twelve turns, estimated from their length
)
