"""Stored PERM answers, rescored from their grades with another preset, bystander weight, or parts, without a model call.

Rejudging needs no code here: judges grade a stored answer like a new one.
"""

from __future__ import annotations

from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.environment import PermOptions, Rules, reward_of, rules_of
from heartloop.environments.perm.scoring import broken_form
from heartloop.environments.replay import check_turns
from heartloop.environments.spec import Stored


def rescored(transcript: Transcript, options: PermOptions) -> Transcript:
    """The transcript with the reward by the options; unchanged if it was scored with them."""
    check_turns(transcript, options)
    old_rules, rules, preset = rules_of(transcript), Rules(options.bystander_weight, options.without), options.preset
    if preset == transcript.preset and rules == old_rules:
        return transcript
    other_facts = {name: value for name, value in transcript.facts.items() if name not in old_rules.facts}
    update: dict[str, object] = {"preset": preset, "facts": other_facts | rules.facts}
    if transcript.score is not None:
        reward = reward_of(transcript, preset=preset, rules=rules)
        total = broken_form(rules.weight) if reward is None else reward.total
        if reward is not None:
            turn = transcript.turns[0]
            update["turns"] = (turn.model_copy(update={"evidence": {**turn.evidence, "reward": reward._asdict()}}),)
        update["score"], update["rewards"] = total, (total,)
    return transcript.model_copy(update=update)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, **rules_of(played)._asdict()}


STORED = Stored(options=_options, rescored=rescored)
