"""How EQ-Bench3's score is read: the rubric score, 0 to 100."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.environments.eqbench.scenario import KINDS
from heartloop.environments.spec import Scale, Sums, Zone

__all__ = ["SCALE"]


def _rubric_scores(transcript: Transcript) -> list[float]:
    """The score, once the whole dialogue is judged; 0 before it, where nothing was said."""
    return [0.0, *transcript.rewards]


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The mean; EQ-Bench3 knows no success, so these are how many reached the bounds."""
    mean = sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan")
    return Sums(mean, sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues))


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=100.0,
    start=0.0,
    success_at=75.0,
    failure_below=50.0,
    sums=_sums,
    group="kind",
    group_title="kind of scenario",
    group_order=KINDS,
    course=_rubric_scores,
    title="rubric score",
    of="Rubric score, 0 to 100: five times the mean of the marks that count",
    reached="reached {0:g}",
    fell="fell below {0:g}",
    zones=(Zone("", "a", 75, 100), Zone("", "b", 50, 75), Zone("", "c", 25, 50), Zone("", "f", 0, 25)),
    ticks=(0, 25, 50, 75, 100),
    change_limit=100.0,
)
