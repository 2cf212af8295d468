"""The environment of daily conversation: one answer of a companion that remembers (PERM section 3.4 and App. A.8).

Covers the turn, what the model under test is told, who is asked, the score, and what a transcript keeps. The six judges are one
protocol, `DailyUser`, with a model behind them (`LLMUser`) or rules (`EmbeddedUser`). Does not cover the numbers
(`heartloop.environments.daily.scoring`).

The model under test gets the profile, notes of earlier talks and noted days, all with their dates and today's, and the query as
the person's message. Six judges, one a metric, are asked at the same time; one that has no answer leaves the dialogue unscored,
whatever the others said. There is no mood to follow: the state is empty. The score is the mean of the six, 1 to 5, and the one
reward.

The paper names the metrics and prints an instance; guidelines, prompts and instances are unpublished, so those here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import Transcript
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode
from heartloop.environments.daily.options import DailyOptions
from heartloop.environments.daily.scenario import Memory, Scenario
from heartloop.environments.daily.scoring import METRICS, average
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.grading import Grade, ask_all, evidence_of, thoughts_of
from heartloop.environments.spec import Player
from heartloop.environments.stored import reading_transcript, stored_from_score

__all__ = [
    "JUDGES",
    "STORED",
    "Daily",
    "DailyEpisode",
    "DailyUser",
    "View",
    "average_of",
    "prompt_values",
]

JUDGES: tuple[str, ...] = tuple(METRICS)
"""Who is asked, in the order in which their calls are kept: one a metric."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  # whatever the machine's language


class View(NamedTuple):
    """What there is to judge."""

    scenario: Scenario
    reply: str
    seed: int


class DailyUser(Player, Protocol):
    """The six judges."""

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        """What one of `JUDGES` gives the answer, 1 to 5; the six are asked at the same time."""
        ...


def prompt_values(scenario: Scenario) -> dict[str, str]:
    """What a companion knows, as the model under test and the judges are told it: blanks of their prompts, by name."""
    return {
        "persona": f"{scenario.person} ({scenario.persona.gender})",
        "about": scenario.about,
        "today": _day(scenario.today),
        "notes": _lines(scenario.dialogue_memory),
        "events": _lines(scenario.event_memory),
    }


def _lines(memories: Sequence[Memory]) -> str:
    return "\n".join(f"- {_day(memory.on)}: {memory.text}" for memory in memories)


def _day(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]} {day.isoformat()}"


class Daily(BaseEnvironment[Scenario, DailyUser, DailyOptions]):
    """Daily conversation over a list of instances, with one kind of judges."""

    name = "daily"
    options_type = DailyOptions
    policy = load_prompt(__package__, "policy")

    def begin(self, scenario_id: str, *, seed: int = 0) -> DailyEpisode:
        return DailyEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        known = prompt_values(scenario)
        facts = {
            "kind": scenario.kind,
            "want": scenario.want,
            "title": scenario.title,
            "person": scenario.person,
            "tags": " ".join(scenario.tags),
            **{name: known[name] for name in ("about", "today", "notes", "events")},
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={self.policy.name: self.policy.hash})


class DailyEpisode(LoggedEpisode[Daily, Scenario]):
    """One person and one answer."""

    def __init__(self, environment: Daily, scenario: Scenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._mean: float | None = None

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.fill(**prompt_values(self._scenario))

    async def open(self) -> str:
        return self._scenario.query

    async def step(self, reply: str) -> UserTurn:
        view = View(self._scenario, reply, self._seed)
        grades = await ask_all(JUDGES, lambda judge, log: self._environment.user.grade(judge, view, log), self._log)
        evidence = evidence_of(grades)
        self._mean = average(evidence["scores"])
        return UserTurn(None, {}, {}, thoughts_of(grades), evidence, "turn_limit")

    def outcome(self) -> Outcome:
        """The mean of the six, which is also the one turn's reward. The states are empty."""
        return Outcome(None, (), ({},)) if self._mean is None else Outcome(self._mean, (self._mean,), ({}, {}))


def average_of(transcript: Transcript) -> float:
    """The mean of a stored dialogue, from what its judges gave.

    Raises:
        InputError: the transcript keeps no grades.
    """
    with reading_transcript(transcript, "the grades of its judges"):
        return average(transcript.turns[0].evidence["scores"])


STORED = stored_from_score(average_of)
