"""The scale of EMPA's score: EPM-Q, from 0, without an upper bound."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.scoring import AXES, composed, indices_of, trace
from heartloop.environments.spec import Scale, Sums, Zone

__all__ = ["SCALE"]


def _epmqs(transcript: Transcript) -> list[float]:
    """EPM-Q of the dialogue up to every judged reply; 0 before the first."""
    preset = transcript.preset
    try:
        path = trace(judged_dialogue(transcript), preset=preset)
        by_reply = (indices_of(path.until(n), preset=preset) for n in range(1, len(path.energy) + 1))
        return [0.0, *(composed(indices).score for indices in by_reply)]
    except InputError:
        return []


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The mean; success and failure do not follow from EPM-Q and are counted elsewhere (`by_end`)."""
    return Sums(sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan"), 0, 0)


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=120.0,
    start=0.0,
    success_at=100.0,
    failure_below=0.0,
    sums=_sums,
    group="axis",
    group_title="dominant axis",
    group_order=AXES,
    course=_epmqs,
    rules=lambda transcript: transcript.facts.get("window"),
    title="EPM-Q",
    states={"C": "to be understood", "A": "to be felt with", "P": "to become active again"},
    of="EPM-Q, from 0; about 100 if the whole deficit is made good",
    reached="succeeded",
    fell="failed",
    zones=(Zone("", "a", 85, 120), Zone("", "b", 60, 85), Zone("", "c", 30, 60), Zone("", "f", 0, 30)),
    ticks=(0, 30, 60, 85, 120),
    change_limit=5.0,
    by_end=True,
)
