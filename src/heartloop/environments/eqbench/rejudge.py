"""Stored EQ-Bench3 answers read by another judge: the same words, other marks.

Covers who stands in for the judge in the one turn loop. Does not cover what every environment shares (`environments.stored`),
nor whole runs (`evaluation.rejudging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import EQBench, EQBenchUser, Marked, View
from heartloop.environments.eqbench.scenario import Scenario
from heartloop.environments.stored import JudgedAnew, about_judged, judged_again

__all__ = ["StoredPerson", "rejudged"]


class StoredPerson(JudgedAnew[EQBenchUser]):
    """Another judge of answers that are stored; with what they were played with."""

    def describe(self) -> Mapping[str, Any]:
        return about_judged(self._played, self._judge.name, self._judge.describe())

    async def mark(self, view: View, log: CallLog) -> Marked:
        return await self._judge.mark(view, log)


async def rejudged(played: Transcript, scenario: Scenario, judge: EQBenchUser, *, preset: str, max_turns: int) -> Transcript:
    """The dialogue as the judge marks it. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the scenario, word for word as it was played.

    Raises:
        InputError: the person is another text than the one that was played, or the judge cannot read it.
        BudgetSpent: a hard stop was reached.
    """
    person = StoredPerson(played, judge)

    def build() -> EQBench:
        return EQBench([scenario], person, preset=preset, variant=played.variant, max_turns=max_turns)

    return await judged_again(played, scenario, person, person.describe(), preset, build)
