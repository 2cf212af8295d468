"""A stored PERM dialogue by another preset: the same grades, another sum; no model is asked.

Covers one transcript. Does not cover another judge (`rejudge`), nor whole runs (`evaluation.rescoring`). A broken form is worth
the same by every preset.
"""

from __future__ import annotations

from heartloop.dialogue import Transcript
from heartloop.environments.perm.environment import reward_of
from heartloop.environments.stored import check_rescorable
from heartloop.scoring.perspectives import PRESETS

__all__ = ["rescored"]


def rescored(transcript: Transcript, *, preset: str, max_turns: int) -> Transcript:
    """The transcript as `preset` sums it; unchanged where it was played so.

    Args:
        max_turns: as for every environment; here it is 1.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a scored dialogue that keeps no grades.
    """
    check_rescorable(transcript, "perm", PRESETS, preset, max_turns)
    if preset == transcript.preset:
        return transcript
    update: dict[str, object] = {"preset": preset}
    if transcript.score is not None:
        reward = reward_of(transcript, preset=preset)
        if reward is not None:
            turn = transcript.turns[0]
            evidence = {**turn.evidence, "reward": reward._asdict()}
            update["turns"] = (turn.model_copy(update={"evidence": evidence}),)
            update["score"], update["rewards"] = reward.total, (reward.total,)
    return transcript.model_copy(update=update)
