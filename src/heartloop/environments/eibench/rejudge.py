"""A stored EIBench dialogue read by another judge: same replies, same words of the person, other changes.

Covers who stands in for the person in the one turn loop: `StoredPerson` answers what the person answered, and the judge gives the
reflection and both changes. Does not cover what every environment shares (`environments.stored`), nor whole runs
(`evaluation.rejudging`).

The judge sees its own running state. It is asked as a simulator is; the answer it would have given, and whether it would have
gone on, are passed over: the talk ends where it ended, by the person's words or by the turn limit, so none is ever cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.eibench.environment import EIBench, EIBenchUser, Reaction, View, relation_weight_of
from heartloop.environments.eibench.released import AnyScenario
from heartloop.environments.episode import CallLog
from heartloop.environments.staging import answered
from heartloop.environments.stored import JudgedAnew, about_judged, judged_again

__all__ = ["StoredPerson", "rejudged"]


class StoredPerson(JudgedAnew[EIBenchUser]):
    """A person whose words are stored and whose changes are the judge's."""

    def describe(self) -> Mapping[str, Any]:
        return about_judged(self._played, self._judge.name, self._judge.describe())

    async def react(self, view: View, log: CallLog) -> Reaction:
        felt = await answered("judge", self._judge.react(view, log))
        left = self._played.stop == "goodbye" and view.turn == len(self._played.turns) - 1
        return felt._replace(reply=self._played.turns[view.turn].message or "", goes_on=not left)


async def rejudged(played: Transcript, scenario: AnyScenario, judge: EIBenchUser, *, preset: str, max_turns: int) -> Transcript:
    """The dialogue as the judge feels it, by the rules of `preset`. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the person, word for word as they were played.
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        InputError: the person is another text than the one that was played, or the judge cannot read it.
        BudgetSpent: a hard stop was reached.
    """
    person = StoredPerson(played, judge)

    def build() -> EIBench:
        return EIBench(
            [scenario],
            person,
            preset=preset,
            variant=played.variant,
            max_turns=max_turns,
            relation_weight=relation_weight_of(played),
        )

    return await judged_again(played, scenario, person, person.describe(), preset, build)
