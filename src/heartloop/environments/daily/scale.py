"""How daily conversation's score is read: the mean of six metrics times 20, 20 to 100."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST
from heartloop.environments.spec import Scale, Sums, Zone

__all__ = ["SCALE"]

_A_LEVEL = 20.0  # points of a level, so that 5 is 100


def _means(transcript: Transcript) -> list[float]:
    """The mean of the one answer's metrics; the lowest before it, where nothing was said."""
    return [_A_LEVEL * LOWEST, *(_A_LEVEL * mean for mean in transcript.rewards)]


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The mean; daily conversation knows no success, so these are how many reached the bounds."""
    mean = sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan")
    return Sums(mean, sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues))


SCALE = Scale(
    points=_A_LEVEL,
    low=_A_LEVEL * LOWEST,
    high=_A_LEVEL * HIGHEST,
    start=_A_LEVEL * LOWEST,
    success_at=80.0,
    failure_below=50.0,
    sums=_sums,
    group="kind",
    group_title="kind of query",
    group_order=KINDS,
    course=_means,
    title="level over six metrics",
    of="Mean of six metrics times 20, 20 to 100; 100 is 5 in all of them",
    reached="reached {0:g}",
    fell="fell below {0:g}",
    zones=(Zone("", "a", 80, 100), Zone("", "b", 60, 80), Zone("", "c", 40, 60), Zone("", "f", 20, 40)),
    ticks=(20, 40, 60, 80, 100),
    change_limit=1.0,
)
