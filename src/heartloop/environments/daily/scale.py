"""The scale of daily conversation: the mean of six metrics times 20, 20 to 100."""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST
from heartloop.environments.spec import Scale, Zone

__all__ = ["SCALE"]

_POINTS_PER_LEVEL = 20.0  # points per level; level 5 is 100


def _points(transcript: Transcript) -> list[float]:
    """The lowest points before the answer, then the mean of its metrics times 20."""
    return [_POINTS_PER_LEVEL * LOWEST, *(_POINTS_PER_LEVEL * mean for mean in transcript.rewards)]


SCALE = Scale(
    points=_POINTS_PER_LEVEL,
    low=_POINTS_PER_LEVEL * LOWEST,
    high=_POINTS_PER_LEVEL * HIGHEST,
    start=_POINTS_PER_LEVEL * LOWEST,
    success_at=80.0,
    failure_below=50.0,
    group="kind",
    group_title="kind of query",
    group_order=KINDS,
    course=_points,
    title="level over six metrics",
    of="Mean of six metrics times 20, 20 to 100; 100 is 5 in all of them",
    zones=(Zone("", "a", 80, 100), Zone("", "b", 60, 80), Zone("", "c", 40, 60), Zone("", "f", 20, 40)),
    ticks=(20, 40, 60, 80, 100),
    change_limit=1.0,
)
