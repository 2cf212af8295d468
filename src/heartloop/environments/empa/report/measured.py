"""EMPA's dialogues, computed once for all pictures: the path of each, its nine indices, how it ended and what held there.

Pure: transcripts in, values out. Covers one dialogue at a time. Does not cover means with intervals over several
(`estimates`), which groups stand on a page (`profiles`) or where a path lies in a picture (`paths`).
"""

from __future__ import annotations

from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.empa.endings import Failure, Success, failure, reached
from heartloop.environments.empa.environment import case_of
from heartloop.environments.empa.scoring import EpmQ, Trajectory, composed, indices_of, trace

__all__ = ["ENDINGS", "FAILED", "SUCCEEDED", "Measured", "measured"]

SUCCEEDED = {
    "near": "came near the balance",
    "far": "covered the distance of the start",
    "company": "kept to the right direction",
    "uncounted": "success in the data, not by this computation",
}
"""Ways through the energy gate, in the order in which one is named; the second is `released`'s, the third `paper`'s."""
FAILED = {"away": "five windows away in a row", "stuck": "stood still while going back", "other": "failure in the data"}
"""What a failure was, in the order in which one is named."""
ENDINGS = {**SUCCEEDED, **FAILED, "left": "the person took leave", "limit": "turn limit", "cut": "no further reply stored"}
"""How a scored dialogue ends, in words."""


class Measured(NamedTuple):
    """A scored dialogue; `place` is where it stands among the dialogues of its page."""

    place: int
    dialogue: Transcript
    path: Trajectory
    epmq: EpmQ
    success: Success
    """What held at its end."""
    failure: Failure

    @property
    def ending(self) -> str:
        """Key of `ENDINGS`: one cause, the first that holds, so that causes add up to the dialogues."""
        stop = self.dialogue.stop
        if stop == "success":
            ways = {"near": self.success.resolution, "far": self.success.position, "company": self.success.companionship}
            return next((way for way, open_ in ways.items() if open_ and self.success.gate), "uncounted")
        if stop == "failure":
            found = self.failure
            return "away" if found.negative_run else "stuck" if found.stagnation and found.regression else "other"
        return "left" if stop == "goodbye" else "cut" if stop == "cut" else "limit"

    @property
    def mechanism(self) -> str:
        """Dominant axis, and whether the start is near (easy, medium) or far (hard, extreme); empty where a fact is missing."""
        axis, difficulty = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("difficulty", "")
        return f"{axis} {'routine' if difficulty in ('easy', 'medium') else 'challenging'}" if axis and difficulty else ""

    @property
    def need(self) -> str:
        """Dominant axis, and whether empathy reaches them easily (low, medium threshold) or not (high); empty without facts."""
        axis, threshold = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("threshold", "")
        return f"{axis} {'defensive' if threshold == 'high' else 'receptive'}" if axis and threshold else ""

    def fact(self, name: str) -> str:
        """A fact of its scenario; empty where it has none."""
        return self.dialogue.facts.get(name, "")


def measured(place: int, dialogue: Transcript) -> Measured | None:
    """The dialogue computed by its own preset; `None` where it is unscored or keeps no levels."""
    if not dialogue.scored:
        return None
    preset = dialogue.preset
    try:
        path = trace(case_of(dialogue), preset=preset)
        found = composed(indices_of(path, preset=preset))
    except InputError:
        return None
    return Measured(place, dialogue, path, found, reached(path, preset=preset), failure(path))
