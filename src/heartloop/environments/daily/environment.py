"""Daily conversation: one answer of a companion with a memory, graded by six judges, one per metric (PERM section 3.4, App. A.8).

The score is the mean of the six, 1 to 5. The paper names the metrics and prints one scenario; guidelines, prompts and scenarios
are unpublished, so those here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from statistics import fmean
from typing import Any

from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment
from heartloop.environments.daily.scenario import KINDS, SCENARIOS, BriefMemory, DailyBrief, DailyScenario
from heartloop.environments.episode import UserTurn
from heartloop.environments.grading import AnswerEpisode, Judges, evidence_of, thoughts_of
from heartloop.environments.replay import stored_from_score
from heartloop.environments.spec import EnvironmentSpec, Options, Pilot, Role, Scale, Zone, option


class DailyOptions(Options):
    preset: str = option("paper", affects="score", choices=("paper",))
    """Rules of the score."""
    variant: str = option("plain", choices=("plain",))
    """Form of the policy prompt."""
    max_turns: int = option(1, ge=1, le=1, paper="1")
    """Policy replies: one answer."""


METRICS: Mapping[str, str] = {
    "empathy": "Empathy",
    "topic": "Topic guidance",
    "value": "Value guidance",
    "intention": "Intention following",
    "fluency": "Fluency",
    "colloquial": "Colloquial expression",
}
"""Published names of the metrics, in the paper's order (section 3.4)."""

LOWEST, HIGHEST = 1, 5

JUDGES: tuple[str, ...] = tuple(METRICS)

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  # independent of the locale


def average(levels: Mapping[str, int]) -> float:
    """The mean of the six levels, 1 to 5; the paper's "Avg.".

    >>> average({"empathy": 4, "topic": 3, "value": 3, "intention": 5, "fluency": 4, "colloquial": 5})
    4.0
    """
    if levels.keys() != METRICS.keys():
        raise UseError(f"levels of {', '.join(sorted(levels)) or 'nothing'}; expected {', '.join(METRICS)}")
    for name, level in levels.items():
        if not LOWEST <= level <= HIGHEST:
            raise UseError(f"{name} is {level}; expected {LOWEST} to {HIGHEST}")
    return fmean(levels.values())


def prompt_values(scenario: DailyBrief) -> dict[str, str]:
    return {
        "persona": f"{scenario.person} ({scenario.persona.gender})",
        "about": scenario.about,
        "today": _day(scenario.today),
        "notes": _lines(scenario.dialogue_memory),
        "events": _lines(scenario.event_memory),
    }


def _lines(memories: Sequence[BriefMemory]) -> str:
    return "\n".join(f"- {_day(memory.on)}: {memory.text}" for memory in memories)


def _day(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]} {day.isoformat()}"


class Daily(BaseEnvironment[DailyBrief, Judges, DailyOptions]):
    name = "daily"
    options_type = DailyOptions
    policy = load_prompt(__package__, "policy")

    def begin(self, scenario_id: str, *, seed: int = 0) -> DailyEpisode:
        return DailyEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        values = prompt_values(scenario)
        facts = {
            "kind": scenario.kind,
            **({"want": scenario.want} if isinstance(scenario, DailyScenario) else {}),
            "title": scenario.title,
            "person": scenario.person,
            "tags": " ".join(scenario.tags),
            **{name: values[name] for name in ("about", "today", "notes", "events")},
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={self.policy.name: self.policy.hash})


class DailyEpisode(AnswerEpisode[Daily, DailyBrief]):
    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.fill(**prompt_values(self._scenario))

    async def step(self, reply: str) -> UserTurn:
        grades = await self.graded(dict.fromkeys(JUDGES, reply))
        evidence = evidence_of(grades)
        self._score = average(evidence["scores"])
        return UserTurn(None, {}, {}, thoughts_of(grades), evidence, "turn_limit")


_POINTS = 20.0

_SCALE = Scale(
    points=_POINTS,
    low=_POINTS * LOWEST,
    high=_POINTS * HIGHEST,
    start=_POINTS * LOWEST,
    success_at=80.0,
    failure_below=50.0,
    group="kind",
    group_title="kind of query",
    group_order=KINDS,
    course=lambda transcript: [_POINTS * LOWEST, *(_POINTS * mean for mean in transcript.rewards)],
    title="level over six metrics",
    of="Mean of six metrics times 20, 20 to 100; 100 is 5 in all of them",
    zones=(Zone("", "a", 80, 100), Zone("", "b", 60, 80), Zone("", "c", 40, 60), Zone("", "f", 20, 40)),
    ticks=(20, 40, 60, 80, 100),
    change_limit=1.0,
)

SPEC = EnvironmentSpec(
    name="daily",
    title="Daily",
    about="One answer of a companion with a memory, graded by six metrics.",
    source="PERM, section 3.4",
    roles=(Role("judge", "grades six metrics"),),
    options=DailyOptions,
    scale=_SCALE,
    scenarios=SCENARIOS,
    environment=Daily,
    embedded="heartloop.environments.daily.users:DailyEmbeddedUser",
    simulator="heartloop.environments.daily.users:DailyLLMUser",
    report="heartloop.environments.daily.report:PANEL",
    reading="heartloop.environments.daily.users:READING",
    stored=stored_from_score(lambda played: average(played.turns[0].evidence["scores"]), "the grades of its judges"),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=694.7, repeat=68.3, turns=1, tokens=330),
)
