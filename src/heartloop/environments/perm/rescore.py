"""A stored PERM dialogue by another preset, weight of the bystander, or choice of parts: the same grades, another sum.

Covers one transcript; no model is asked. Does not cover another judge (`rejudge`), nor whole runs (`evaluation.rescoring`).
"""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.environment import Rules, reward_of, rules_of
from heartloop.environments.perm.scoring import PRESETS, broken_form
from heartloop.environments.stored import check_rescorable

__all__ = ["rescored"]


def rescored(
    transcript: Transcript,
    *,
    preset: str,
    max_turns: int,
    bystander_weight: float | None = None,
    without: Sequence[str] | None = None,
) -> Transcript:
    """The transcript as `preset` and the rules sum it; unchanged where it was played so.

    Args:
        max_turns: as for every environment; here it is 1.
        bystander_weight: `None` as it was played; so `without`, where nothing is left out by an empty one.

    Raises:
        UseError: another environment, an unknown preset, rules that do not fit, or more turns than `max_turns`.
        InputError: a scored dialogue that keeps no grades.
    """
    check_rescorable(transcript, "perm", PRESETS, preset, max_turns)
    was = rules_of(transcript)
    rules = Rules(
        was.bystander_weight if bystander_weight is None else bystander_weight, was.without if without is None else tuple(without)
    ).checked()
    if preset == transcript.preset and rules == was:
        return transcript
    kept = {name: value for name, value in transcript.facts.items() if name not in was.facts}
    update: dict[str, object] = {"preset": preset, "facts": kept | rules.facts}
    if transcript.score is not None:
        reward = reward_of(transcript, preset=preset, rules=rules)
        total = broken_form(rules.weight) if reward is None else reward.total
        if reward is not None:
            turn = transcript.turns[0]
            update["turns"] = (turn.model_copy(update={"evidence": {**turn.evidence, "reward": reward._asdict()}}),)
        update["score"], update["rewards"] = total, (total,)
    return transcript.model_copy(update=update)
