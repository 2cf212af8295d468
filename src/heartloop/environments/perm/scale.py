"""The scale of PERM's score: the reward times 100, at most 100."""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.scenario import EMOTIONS
from heartloop.environments.spec import Scale, Zone

__all__ = ["SCALE"]


def _rewards(transcript: Transcript) -> list[float]:
    """0 before the answer, then its reward, times 100."""
    return [0.0, *(100.0 * reward for reward in transcript.rewards)]


SCALE = Scale(
    points=100.0,
    low=-50.0,
    high=100.0,
    start=0.0,
    success_at=60.0,
    failure_below=0.0,
    group="emotion",
    group_title="emotion",
    group_order=EMOTIONS,
    course=_rewards,
    rules=lambda transcript: " ".join(transcript.facts.get(name, "") for name in ("bystander_weight", "without")).strip() or None,
    title="reward",
    of="Reward times 100, at most 100; a format failure scores -50, or -100 times a bystander weight above 0.5",
    zones=(Zone("", "a", 60, 100), Zone("", "b", 30, 60), Zone("", "c", 0, 30), Zone("", "f", -50, 0)),
    ticks=(-50, 0, 30, 60, 100),
    change_limit=1.0,
)
