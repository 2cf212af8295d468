"""Values of one EMPA dialogue for all charts: path, nine indices, cause of the end, conditions at the end."""

from __future__ import annotations

from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.scoring import (
    EpmQ,
    FailureSigns,
    SuccessSigns,
    Trajectory,
    composed,
    failure,
    indices_of,
    reached,
    trace,
)

__all__ = ["ENDINGS", "FAILED", "SUCCEEDED", "Measured", "measured"]

SUCCEEDED = {
    "near": "ended near the balance",
    "far": "covered the distance of the start",
    "company": "kept the right direction",
    "uncounted": "success in the data, but not by the levels",
}
"""Causes of success, in order of precedence; the second exists in `released` only, the third in `paper` only."""
FAILED = {
    "away": "five windows of negative energy in a row",
    "stuck": "stagnation with regression",
    "other": "failure in the data",
}
"""Causes of failure, in order of precedence."""
ENDINGS = {**SUCCEEDED, **FAILED, "left": "ended by the director", "limit": "turn limit", "cut": "no further reply stored"}
"""Labels of all causes of an end."""


class Measured(NamedTuple):
    """A scored dialogue; `place` is its index among the dialogues of the page."""

    place: int
    dialogue: Transcript
    path: Trajectory
    epmq: EpmQ
    success: SuccessSigns
    """Conditions at the end."""
    failure: FailureSigns

    @property
    def ending(self) -> str:
        """Key of `ENDINGS`: the first cause that holds."""
        stop = self.dialogue.stop
        if stop == "success":
            causes = {"near": self.success.resolution, "far": self.success.position, "company": self.success.companionship}
            return next((cause for cause, holds in causes.items() if holds and self.success.gate), "uncounted")
        if stop == "failure":
            cause = self.failure
            return "away" if cause.negative_run else "stuck" if cause.stagnation and cause.regression else "other"
        return "left" if stop == "goodbye" else "cut" if stop == "cut" else "limit"

    @property
    def mechanism(self) -> str:
        """Dominant axis with `routine` (easy, medium) or `challenging` (hard, extreme); empty if a fact is missing."""
        axis, difficulty = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("difficulty", "")
        return f"{axis} {'routine' if difficulty in ('easy', 'medium') else 'challenging'}" if axis and difficulty else ""

    @property
    def need(self) -> str:
        """Dominant axis with `receptive` (low or medium threshold) or `defensive` (high); empty if a fact is missing."""
        axis, threshold = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("threshold", "")
        return f"{axis} {'defensive' if threshold == 'high' else 'receptive'}" if axis and threshold else ""

    def fact(self, name: str) -> str:
        """A fact of the scenario; empty if it has none."""
        return self.dialogue.facts.get(name, "")


def measured(place: int, dialogue: Transcript) -> Measured | None:
    """The values of a dialogue by its own preset; `None` if it is unscored or has no levels."""
    if not dialogue.scored:
        return None
    preset = dialogue.preset
    try:
        path = trace(judged_dialogue(dialogue), preset=preset)
        score = composed(indices_of(path, preset=preset))
    except InputError:
        return None
    return Measured(place, dialogue, path, score, reached(path, preset=preset), failure(path))
