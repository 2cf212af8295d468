"""A stored EQ-Bench3 dialogue by its own marks: the score worked out anew; no model is asked.

Covers one transcript. Does not cover another judge (`rejudge`), nor whole runs (`evaluation.rescoring`).
"""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.eqbench.environment import PRESETS, score_of
from heartloop.environments.stored import check_rescorable

__all__ = ["rescored"]


def rescored(transcript: Transcript, *, preset: str, max_turns: int) -> Transcript:
    """The transcript with its score from its marks; an unscored one as it is.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a scored dialogue that keeps no marks.
    """
    check_rescorable(transcript, "eqbench", PRESETS, preset, max_turns)
    if transcript.score is None:
        return transcript
    score = score_of(transcript)
    return transcript.model_copy(update={"score": score, "rewards": (score,)})
