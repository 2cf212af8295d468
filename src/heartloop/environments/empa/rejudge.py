"""A stored EMPA dialogue read by another judge: same replies, same words of the person, other levels.

Covers who stands in for the person in the one turn loop: `StoredPerson` says what was said and lets the director call what was
called, and the judge gives the levels. Does not cover what every environment shares (`environments.stored`), nor whole runs
(`evaluation.rejudging`).

The path, the ends and the score are those of the new levels. Where they end the dialogue earlier, it ends there; where the stored
dialogue has no further reply, it ends as `cut`, or as it had ended by the director or the turn limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.environment import Empa, EmpaUser, Judgement, View
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.episode import CallLog
from heartloop.environments.staging import answered
from heartloop.environments.stored import JudgedAnew, about_judged, judged_again

__all__ = ["FormJudge", "StoredPerson", "rejudged"]


class FormJudge(Protocol):
    """Who gives the levels of stored replies: an `EmpaUser`, or what stands for one."""

    @property
    def name(self) -> str: ...

    def describe(self) -> Mapping[str, Any]:
        """As `EmpaUser.describe`."""
        ...

    def admit(self, scenario: Scenario) -> None:
        """As `EmpaUser.admit`."""
        ...

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        """As `EmpaUser.adjudicate`."""
        ...


class StoredPerson(JudgedAnew[FormJudge]):
    """A person whose words, and a director whose calls, are stored; the levels are the judge's."""

    def describe(self) -> Mapping[str, Any]:
        return about_judged(self._played, self._judge.name, self._judge.describe())

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return await answered("judge", self._judge.adjudicate(view, log))

    async def direct(self, view: View, log: CallLog) -> Act:
        stored = self._played.turns[view.turn].evidence.get("director")
        return Act(**stored) if stored else Act("wait", reason="the stored dialogue had ended here")

    async def speak(self, view: View, log: CallLog) -> str:
        return self._played.turns[view.turn].message or ""


async def rejudged(played: Transcript, scenario: Scenario, judge: EmpaUser, *, preset: str, max_turns: int) -> Transcript:
    """The dialogue as the judge reads it, by the rules of `preset`. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the case, word for word as it was played.
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        InputError: the person is another text than the one that was played, or the judge cannot read it.
        BudgetSpent: a hard stop was reached.
    """
    person = StoredPerson(played, judge)
    limit = min(max_turns, len(played.turns))  # no further reply is stored

    def build() -> Empa:
        return Empa(
            [scenario],
            person,
            preset=preset,
            variant=played.variant,
            max_turns=limit,
            window=int(played.facts.get("window", "1")),
        )

    found = await judged_again(played, scenario, person, person.describe(), preset, build)
    if found.stop == "turn_limit" and limit < max_turns:
        left_off = played.stop if played.stop == "goodbye" else "cut"
        return found.model_copy(update={"stop": left_off})
    return found
