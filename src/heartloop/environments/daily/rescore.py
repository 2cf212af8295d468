"""A stored dialogue of daily conversation, its score worked out again from its grades; no model is asked.

Covers one transcript. Does not cover another judge (`rejudge`), nor whole runs (`evaluation.rescoring`). There is one preset.
"""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.environment import PRESETS, average_of
from heartloop.environments.stored import check_rescorable

__all__ = ["rescored"]


def rescored(transcript: Transcript, *, preset: str, max_turns: int) -> Transcript:
    """The transcript with the mean of its grades; unchanged where it is unscored.

    Args:
        max_turns: as for every environment; here it is 1.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a scored dialogue that keeps no grades.
    """
    check_rescorable(transcript, "daily", PRESETS, preset, max_turns)
    if transcript.score is None:
        return transcript
    mean = average_of(transcript)
    return transcript.model_copy(update={"score": mean, "rewards": (mean,)})
