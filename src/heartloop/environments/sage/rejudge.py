"""A stored SAGE dialogue read by another judge: same replies, same words of the person, other feelings.

Covers who stands in for the person in the one turn loop: `StoredPerson` answers what the person answered and asks the judge
how each reply was felt. Does not cover what every environment shares (`environments.stored`), nor whole runs
(`evaluation.rejudging`).

The judge sees its own running emotion and the rules run on it: at 100 or below 10 the talk ends, though more is stored.
Where the stored talk ended and the judge's emotion would have let it go on, it is `cut`, and scored by the emotion there.
The person's leaving is theirs, part of the words: such a talk still ends in goodbye.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import CallLog
from heartloop.environments.sage.environment import Feeling, Sage, SageUser, Speech, View
from heartloop.environments.sage.released import AnyScenario
from heartloop.environments.sage.rescore import decided_to_leave
from heartloop.environments.sage.scoring import band
from heartloop.environments.staging import answered
from heartloop.environments.stored import JudgedAnew, about_judged, judged_again

__all__ = ["StoredPerson", "rejudged"]


class StoredPerson(JudgedAnew[SageUser]):
    """A person whose words are stored and whose feelings are the judge's."""

    def describe(self, variant: str) -> Mapping[str, Any]:
        return about_judged(self._played, self._judge.name, self._judge.describe(variant), unused="speak")

    async def feel(self, view: View, log: CallLog) -> Feeling:
        return await answered("judge", self._judge.feel(view, log))

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        played = self._played
        last = view.turn == len(played.turns) - 1
        if band(view.emotion) in ("S", "F") and not last:  # the stored answer goes on with a talk that is over
            return Speech("")
        left = last and played.preset == "corrected" and played.stop == "goodbye"  # by rules there is no raw answer
        leaves = left or decided_to_leave(played.calls, view.turn)
        return Speech(played.turns[view.turn].message or "", leaves=leaves, cut=last)


async def rejudged(played: Transcript, scenario: AnyScenario, judge: SageUser, *, preset: str, max_turns: int) -> Transcript:
    """The dialogue as the judge feels it, by the rules of `preset`. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the person, word for word as they were played.
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        InputError: the person is another text than the one that was played, or the judge cannot read it.
        BudgetSpent: a hard stop was reached.
    """
    person = StoredPerson(played, judge)

    def build() -> Sage:
        return Sage([scenario], person, preset=preset, variant=played.variant, max_turns=max_turns, start=played.start["emotion"])

    return await judged_again(played, scenario, person, person.describe(played.variant), preset, build)
