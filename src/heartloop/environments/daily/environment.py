"""Daily conversation: one answer of a companion with a memory, graded by six judges, one per metric (PERM section 3.4, App. A.8).

The score is the mean of the six, 1 to 5. The paper names the metrics and prints one scenario; guidelines, prompts and scenarios
are unpublished, so those here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from statistics import fmean
from typing import Any

from pydantic import model_validator

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, answered
from heartloop.environments.daily.remembering import Remembered, RememberingJudges
from heartloop.environments.daily.scenario import KINDS, MOST_TURNS, OWN_NOTES, SCENARIOS, BriefMemory, DailyBrief, DailyScenario
from heartloop.environments.episode import Outcome, UserTurn
from heartloop.environments.grading import AnswerEpisode, evidence_of, thoughts_of
from heartloop.environments.replay import stored_from_score
from heartloop.environments.spec import EnvironmentSpec, Options, Pilot, Role, Scale, Zone, option


class DailyOptions(Options):
    preset: str = option("paper", affects="score", choices=("paper",))
    """Rules of the score."""
    variant: str = option("plain", choices=("plain", OWN_NOTES))
    """Memory of the model under test: `plain` gives it; with `own-notes` a dialogue is a person's sessions, and the model reads
    the notes that it wrote itself after the earlier ones."""
    max_turns: int = option(1, ge=1, le=MOST_TURNS, paper="1")
    """Policy replies: 1; with `own-notes` always 9, an answer and the notes in each of up to five sessions."""
    notes_limit: int = option(600, ge=100, le=5000)
    """Characters of the model's own notes; the rest is cut off."""

    @model_validator(mode="before")
    @classmethod
    def _turns_of_variant(cls, given: Any) -> Any:
        turns = MOST_TURNS if given.get("variant") == OWN_NOTES else 1
        if str(found := given.get("max_turns", turns)) != str(turns):
            raise ValueError(f"max_turns is {found}; expected {turns} with this variant, or leave it out")
        return {**given, "max_turns": turns}


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
        "notes": lines_of((*scenario.dialogue_memory, *scenario.earlier)),
        "events": lines_of(scenario.event_memory),
    }


def lines_of(memories: Sequence[BriefMemory]) -> str:
    return "\n".join(f"- {_day(memory.on)}: {memory.text}" for memory in memories)


def _day(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]} {day.isoformat()}"


class Daily(BaseEnvironment[DailyBrief, RememberingJudges, DailyOptions]):
    name = "daily"
    options_type = DailyOptions
    policy, notes, memory, memory_turn = (load_prompt(__package__, name) for name in ("policy", "notes", "memory", "memory_turn"))

    def __init__(self, scenarios: Sequence[DailyBrief], user: RememberingJudges, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        self.own_notes = self.options.variant == OWN_NOTES
        for scenario in scenarios if self.own_notes else ():
            if not scenario.is_series:
                raise InputError(f"scenario {scenario.id!r} does not begin a series; expected session 1 of one (docs/daily.md)")
            for session in scenario.sessions[1:]:
                user.admit(session)

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
            **({"notes_limit": str(self.options.notes_limit)} if self.own_notes else {}),
        }
        prompts = (self.policy, *((self.notes, self.memory, self.memory_turn) if self.own_notes else ()))
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={p.name: p.hash for p in prompts})


class DailyEpisode(AnswerEpisode[Daily, DailyBrief]):
    """One answer; with own notes, an answer in each session of a series, and the notes after all but the last."""

    def __init__(self, environment: Daily, scenario: DailyBrief, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._sessions = scenario.sessions if environment.own_notes else (scenario,)
        self._number, self._notes = 0, ""
        self._answered: list[float] = []

    @property
    def policy_prompt(self) -> str:
        values = prompt_values(self._sessions[self._number])
        if self._number:
            values |= {"notes": self._notes or "(none)", "events": "(those in the notes)"}
        return self._environment.policy.fill(**values)

    async def step(self, reply: str) -> UserTurn:
        if len(self._answered) > self._number:
            return self._noted(reply)
        self._scenario, turn, environment = self._sessions[self._number], 2 * self._number, self._environment
        grades = await self.graded(dict.fromkeys(JUDGES, reply), turn)
        evidence = evidence_of(grades)
        if environment.own_notes:
            evidence |= {"session": self._number + 1, "kind": self._scenario.kind}
        if self._number:
            remembered = Remembered(self._scenario, self._notes, reply, self._seed, turn)
            evidence["memory"] = await answered("memory judge", environment.user.trace(remembered, self._log))
        self._answered.append(average(evidence["scores"]))
        last = len(self._answered) == len(self._sessions)
        message = None if last else environment.notes.fill(limit=str(environment.options.notes_limit))
        return UserTurn(message, {}, {}, thoughts_of(grades), evidence, "turn_limit" if last else None)

    def _noted(self, reply: str) -> UserTurn:
        self._notes = reply[: self._environment.options.notes_limit]
        if self._notes != reply:
            self._log.count("notes cut")
        self._number += 1
        return UserTurn(self._sessions[self._number].query, None, None, {}, {"notes": self._notes}, None, self.policy_prompt)

    def outcome(self) -> Outcome:
        """The rewards are the means of the six levels, one per session; the score is their mean."""
        score = fmean(self._answered) if self._answered else None
        return Outcome(score, tuple(self._answered), ({},) * (1 + len(self._answered)))


def sessions_of(transcript: Transcript) -> list[Mapping[str, Any]]:
    """The evidence of each answer: one, or one per session."""
    return [turn.evidence for turn in transcript.turns if "notes" not in turn.evidence]


def _rewards_of(transcript: Transcript) -> list[float]:
    return [average(evidence["scores"]) for evidence in sessions_of(transcript)]


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
    rules=lambda transcript: transcript.facts.get("notes_limit"),
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
    stored=stored_from_score(_rewards_of, "the grades of its judges"),
    baselines={"notebook": "heartloop.environments.daily.users:notebook"},
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=694.7, repeat=68.3, turns=1, tokens=330),
)
