"""The scale of EQ-Bench3: the rubric score, 0 to 100."""

from __future__ import annotations

from heartloop.core.dialogue import Transcript
from heartloop.environments.eqbench.scenario import KINDS
from heartloop.environments.spec import Scale, Zone

__all__ = ["SCALE"]


def _rubric_scores(transcript: Transcript) -> list[float]:
    """0 before the dialogue, then its score."""
    return [0.0, *transcript.rewards]


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=100.0,
    start=0.0,
    success_at=75.0,
    failure_below=50.0,
    group="kind",
    group_title="kind of scenario",
    group_order=KINDS,
    course=_rubric_scores,
    title="rubric score",
    of="Rubric score, 0 to 100: five times the mean of the marks that count",
    zones=(Zone("", "a", 75, 100), Zone("", "b", 50, 75), Zone("", "c", 25, 50), Zone("", "f", 0, 25)),
    ticks=(0, 25, 50, 75, 100),
    change_limit=100.0,
)
