"""Stored dialogues of daily conversation: the score from the stored grades; no model is asked.

Another judge reads a stored dialogue as it reads a new one. Does not cover whole runs (`evaluation.rescoring`).
"""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.environment import average_of
from heartloop.environments.daily.options import DailyOptions
from heartloop.environments.spec import Stored
from heartloop.environments.stored import check_turns

__all__ = ["STORED", "rescored"]


def rescored(transcript: Transcript, options: DailyOptions) -> Transcript:
    """The transcript with the score of its stored judgements; an unscored one is unchanged.

    Raises:
        UseError: more turns than `options.max_turns`.
        InputError: a scored dialogue that keeps no judgements.
    """
    check_turns(transcript, options)
    if transcript.score is None:
        return transcript
    score = average_of(transcript)
    return transcript.model_copy(update={"score": score, "rewards": (score,)})


STORED = Stored(options=lambda played: {"preset": played.preset, "variant": played.variant}, rescored=rescored)
