"""A stored PERM answer read by other judges: the same words, other grades.

Covers who stands in for the judges in the one turn loop. Does not cover what every environment shares (`environments.stored`),
nor whole runs (`evaluation.rejudging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import CallLog
from heartloop.environments.perm.drawn import AnySample
from heartloop.environments.perm.environment import MAX_TURNS, Grade, Perm, PermUser, View, rules_of
from heartloop.environments.stored import JudgedAnew, about_judged, judged_again

__all__ = ["StoredPerson", "rejudged"]


class StoredPerson(JudgedAnew[PermUser]):
    """Other judges of an answer that is stored; with what it was played with."""

    def describe(self) -> Mapping[str, Any]:
        return about_judged(self._played, self._judge.name, self._judge.describe())

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        return await self._judge.grade(judge, view, log)


async def rejudged(played: Transcript, scenario: AnySample, judge: PermUser, *, preset: str, max_turns: int) -> Transcript:
    """The answer as the judges read it, by the rules of `preset`. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the sample, word for word as it was played.
        max_turns: as for every environment; here it is 1.

    Raises:
        InputError: the person is another text than the one that was played, or the judge cannot read it.
        UseError: another number of turns than one.
        BudgetSpent: a hard stop was reached.
    """
    person = StoredPerson(played, judge)

    def build() -> Perm:
        return Perm(
            [scenario],
            person,
            preset=preset,
            variant=played.variant,
            max_turns=min(max_turns, MAX_TURNS),
            **rules_of(played)._asdict(),
        )

    return await judged_again(played, scenario, person, person.describe(), preset, build)
