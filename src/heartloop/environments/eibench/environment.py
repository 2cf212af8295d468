"""The EIBench environment: rules of the dialogue (EIBench sections 3.2 to 3.4).

Covers state update, stop conditions, presets, the two forms of the policy prompt, and the outcome. The user simulator is
`LLMUser` or `EmbeddedUser`. It gives one answer per turn: both changes, the user's message, and whether the user continues. The
last reply is judged too.

Presets. `paper` (default): a change outside ±10 is re-asked once; then the dialogue is unscored. `released`: it is clamped and
counted, as in the authors' code. The presets do not differ otherwise. Departure: a dialogue with an answer that does not parse is
unscored under both; the released code scores it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.core.errors import InputError
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.eibench.options import RELATION_WEIGHT, EIBenchOptions
from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.eibench.scenario import Scenario
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, STATE_LIMITS, Anchors, move, outcome, process_rewards
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.spec import Player

__all__ = [
    "EIBench",
    "EIBenchEpisode",
    "EIBenchUser",
    "Reaction",
    "View",
    "anchors_of",
    "briefing",
    "next_state",
    "policy_prompt",
    "relation_weight_of",
]


class View(NamedTuple):
    """The dialogue as the user simulator sees it after a reply. `said` and `heard` alternate, starting with `heard` in Charm."""

    scenario: AnyScenario
    said: tuple[str, ...]
    """The user's messages, including an opening line."""
    heard: tuple[str, ...]
    """The policy's replies, including the latest; an empty string is silence."""
    states: tuple[tuple[float, float], ...]
    """(a, t), each in [0, 100]: at the start and after each judged reply."""
    turn: int
    seed: int
    preset: str
    max_turns: int

    @property
    def written(self) -> Scenario:
        """The scenario, which must have written lines.

        Raises:
            InputError: a released record, or a scenario in the short form, which have none.
        """
        if not isinstance(self.scenario, Scenario):
            raise InputError(f"scenario {self.scenario.id!r} has no written lines; expected a scenario of this project's form")
        return self.scenario

    @property
    def a(self) -> float:
        """Negative emotion before the reply."""
        return self.states[-1][0]

    @property
    def t(self) -> float:
        """Relation before the reply."""
        return self.states[-1][1]


class Reaction(NamedTuple):
    """The user simulator's appraisal of a reply, and its next message."""

    a: float
    """Change of negative emotion; may be outside ±10."""
    t: float
    """Change of the relation; may be outside ±10."""
    reply: str
    """The user's next message."""
    goes_on: bool
    """Whether the user continues the dialogue."""
    reflection: Mapping[str, str]
    """Texts by step: need, quality, inertia, changes, tone."""
    evidence: Mapping[str, Any] = {}


class EIBenchUser(Player, Protocol):
    """The user simulator: one reaction per reply."""

    async def react(self, view: View, log: CallLog) -> Reaction:
        """Appraises the latest reply and answers it."""
        ...


class EIBench(BaseEnvironment[AnyScenario, EIBenchUser, EIBenchOptions]):
    """EIBench over a list of scenarios, with one user simulator."""

    name = "eibench"
    options_type = EIBenchOptions

    def begin(self, scenario_id: str, *, seed: int = 0) -> EIBenchEpisode:
        return EIBenchEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        anchors = {axis: list(values) for axis, values in zip("at", scenario.axes, strict=True)}
        facts = {
            "scene": scenario.scene,
            **scenario.facts,
            "title": scenario.title,
            "person": scenario.person,
            "place": scenario.place,
            "tags": " ".join(scenario.tags),
            "anchors": json.dumps(anchors),
            "relation_weight": f"{self.options.relation_weight:g}",
        }
        prompts = {p.name: p.hash for p in _policy_prompts(self.variant, isinstance(scenario, ReleasedScenario))}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=prompts)


class EIBenchEpisode(LoggedEpisode[EIBench, AnyScenario]):
    """One dialogue with one scenario."""

    def __init__(self, environment: EIBench, scenario: AnyScenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._said: list[str] = []
        self._heard: list[str] = []
        a, t = scenario.axes
        self._states = [(float(a.start), float(t.start))]

    @property
    def policy_prompt(self) -> str:
        return policy_prompt(self._scenario, self._environment.variant)

    async def open(self) -> str | None:
        if self._scenario.opening is not None:
            self._said.append(self._scenario.opening)
        return self._scenario.opening

    async def step(self, reply: str) -> UserTurn:
        bench = self._environment
        self._heard.append(reply)
        reaction = await answered("user", bench.user.react(self._view(), self._log))
        before = self._states[-1]
        after, clamps = next_state(before, reaction)
        for name in clamps:
            self._log.count(name)
        self._states.append(after)
        stop: StopReason | None = None
        if not reaction.goes_on:
            stop = "goodbye"
        elif len(self._heard) >= bench.max_turns:
            stop = "turn_limit"
        self._said.append(reaction.reply)
        return UserTurn(
            reaction.reply,
            _state(after),
            {"a": after[0] - before[0], "t": after[1] - before[1]},
            dict(reaction.reflection),
            dict(reaction.evidence),
            stop,
        )

    def outcome(self) -> Outcome:
        """Outcome in [-1, 1] (Eq. 2); one process reward per turn (Eq. 3); the states."""
        score = outcome(*self._states[-1], *self._scenario.axes, self._environment.options.relation_weight)
        rewards = process_rewards([state[0] for state in self._states], [state[1] for state in self._states])
        return Outcome(score, tuple(float(reward) for reward in rewards), tuple(map(_state, self._states)))

    def _view(self) -> View:
        return View(
            self._scenario,
            tuple(self._said),
            tuple(self._heard),
            tuple(self._states),
            len(self._heard) - 1,
            self._seed,
            self._environment.preset,
            self._environment.max_turns,
        )


def next_state(before: tuple[float, float], reaction: Reaction) -> tuple[tuple[float, float], list[str]]:
    """The state (a, t) after a reaction, and the names of the counts that clamping increments, once per axis."""
    low, high = STATE_LIMITS
    clamps: list[str] = []
    for value, change in zip(before, (reaction.a, reaction.t), strict=True):
        if abs(change) > CHANGE_LIMIT:
            clamps.append("clamped changes")
        if not low <= value + min(CHANGE_LIMIT, max(-CHANGE_LIMIT, change)) <= high:
            clamps.append("states at their limit")
    return (move(before[0], reaction.a), move(before[1], reaction.t)), clamps


def briefing(scenario: AnyScenario, options: EIBenchOptions) -> str:
    """The policy's system prompt for a scenario, in the form of `options.variant`."""
    return policy_prompt(scenario, options.variant)


def policy_prompt(scenario: AnyScenario, form: str) -> str:
    """The policy's system prompt for a scenario: its profile, and the form of its replies (`think` or `direct`)."""
    manner, profile = _policy_prompts(form, isinstance(scenario, ReleasedScenario))
    if isinstance(scenario, ReleasedScenario):
        text = profile.fill(profile=scenario.record.defender_profile.system_prompt.strip())
        return manner.fill(profile=text, name="this person")
    model = scenario.model
    text = profile.fill(
        name=model.name,
        role=model.role,
        background=model.background,
        knows=_listed(model.knows),
        limits=_listed(model.limits),
        goal=model.goal,
    )
    return manner.fill(profile=text, name=model.name)


@cache
def _policy_prompts(form: str, released: bool) -> tuple[Prompt, Prompt]:
    profile = "policy_profile_released" if released else "policy_profile"
    return load_prompt(__package__, f"policy_{form}"), load_prompt(__package__, profile)


def anchors_of(transcript: Transcript) -> tuple[Anchors, Anchors] | None:
    """Anchors of a and of t that a dialogue was played with; `None` if its facts have none."""
    try:
        return _read_anchors(transcript.facts.get("anchors", ""))
    except (ValueError, LookupError, TypeError):
        return None


def relation_weight_of(transcript: Transcript) -> float:
    """The relation weight (lambda) that a dialogue was scored with."""
    return float(transcript.facts.get("relation_weight", RELATION_WEIGHT))


@lru_cache(maxsize=4096)
def _read_anchors(text: str) -> tuple[Anchors, Anchors]:
    anchors = json.loads(text)
    return Anchors(*anchors["a"]), Anchors(*anchors["t"])


def _state(values: tuple[float, float]) -> dict[str, float]:
    return {"a": values[0], "t": values[1]}


def _listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
