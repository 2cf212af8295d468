"""How daily conversation's score is read: the mean of six metrics times 20, 20 to 100."""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST
from heartloop.environments.spec import Scale, Zone

__all__ = ["SCALE"]

_A_LEVEL = 20.0  # points of a level, so that 5 is 100


def _means(transcript: Transcript) -> list[float]:
    """The mean of the one answer's metrics; the lowest before it, where nothing was said."""
    return [_A_LEVEL * LOWEST, *(_A_LEVEL * mean for mean in transcript.rewards)]


SCALE = Scale(
    points=_A_LEVEL,
    low=_A_LEVEL * LOWEST,
    high=_A_LEVEL * HIGHEST,
    start=_A_LEVEL * LOWEST,
    success_at=80.0,
    failure_below=50.0,
    group="kind",
    group_title="kind of query",
    group_order=KINDS,
    course=_means,
    title="level over six metrics",
    of="Mean of six metrics times 20, 20 to 100; 100 is 5 in all of them",
    zones=(Zone("", "a", 80, 100), Zone("", "b", 60, 80), Zone("", "c", 40, 60), Zone("", "f", 20, 40)),
    ticks=(20, 40, 60, 80, 100),
    change_limit=1.0,
)
