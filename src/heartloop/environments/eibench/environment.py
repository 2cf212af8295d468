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
from heartloop.environments.eibench.scenario import SCENES, AnyEIBenchScenario, EIBenchReleasedScenario, EIBenchScenario
from heartloop.environments.eibench.scoring import (
    CHANGE_LIMIT,
    STATE_LIMITS,
    Anchors,
    move,
    outcome,
    process_rewards,
    weighted_mean,
)
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.spec import DemoRun, EnvironmentSpec, Options, Pilot, Player, Role, Scale, Sums, Zone, option

__all__ = [
    "MAX_TURNS",
    "PRESETS",
    "RELATION_WEIGHT",
    "SCALE",
    "SPEC",
    "VARIANTS",
    "EIBench",
    "EIBenchEpisode",
    "EIBenchOptions",
    "EIBenchUser",
    "EIBenchView",
    "Reaction",
    "anchors_of",
    "briefing",
    "next_state",
    "policy_prompt",
    "relation_weight_of",
]


PRESETS = ("paper", "released")
VARIANTS = ("think", "direct")
"""Forms of the policy prompt: with a think block before each reply (the paper's), or without (ours)."""

MAX_TURNS = 8
"""Policy replies in a dialogue (EIBench Table 10)."""
RELATION_WEIGHT = 0.5
"""lambda of the outcome (EIBench Eq. 2)."""


class EIBenchOptions(Options):
    """Options of EIBench; defaults are the paper's."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """A change outside ±10: `paper` re-asks once, then the dialogue is unscored; `released` clamps and counts it."""
    variant: str = option(VARIANTS[0], choices=VARIANTS, think=("think",))
    """Form of the policy prompt: with a think block, or without."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="8")
    """Maximum number of policy replies."""
    relation_weight: float = option(RELATION_WEIGHT, affects="score", ge=0, le=1, paper="0.5 (lambda, Eq. 2)")
    """Weight of the relation in the outcome; negative emotion has the remaining weight."""


class EIBenchView(NamedTuple):
    """The dialogue as the user simulator sees it after a reply. `said` and `heard` alternate, starting with `heard` in Charm."""

    scenario: AnyEIBenchScenario
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
    def written(self) -> EIBenchScenario:
        """The scenario, which must have written lines.

        Raises:
            InputError: a released record, or a scenario in the short form, which have none.
        """
        if not isinstance(self.scenario, EIBenchScenario):
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

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        """Appraises the latest reply and answers it."""
        ...


class EIBench(BaseEnvironment[AnyEIBenchScenario, EIBenchUser, EIBenchOptions]):
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
        prompts = {p.name: p.hash for p in _policy_prompts(self.variant, isinstance(scenario, EIBenchReleasedScenario))}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=prompts)


class EIBenchEpisode(LoggedEpisode[EIBench, AnyEIBenchScenario]):
    """One dialogue with one scenario."""

    def __init__(self, environment: EIBench, scenario: AnyEIBenchScenario, seed: int) -> None:
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

    def _view(self) -> EIBenchView:
        return EIBenchView(
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


def briefing(scenario: AnyEIBenchScenario, options: EIBenchOptions) -> str:
    """The policy's system prompt for a scenario, in the form of `options.variant`."""
    return policy_prompt(scenario, options.variant)


def policy_prompt(scenario: AnyEIBenchScenario, form: str) -> str:
    """The policy's system prompt for a scenario: its profile, and the form of its replies (`think` or `direct`)."""
    manner, profile = _policy_prompts(form, isinstance(scenario, EIBenchReleasedScenario))
    if isinstance(scenario, EIBenchReleasedScenario):
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


def _outcomes(transcript: Transcript) -> list[float]:
    anchors = anchors_of(transcript)
    if anchors is None:
        return []
    weight = relation_weight_of(transcript)
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [100.0 * outcome(s["a"], s["t"], *anchors, relation_weight=weight) for s in states if {"a", "t"} <= s.keys()]


def _by_scene(dialogues: Sequence[tuple[str, float]]) -> dict[str, list[float]]:
    scenes: dict[str, list[float]] = {}
    for scene, points in dialogues:
        scenes.setdefault(scene, []).append(points)
    return scenes


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The scenario-weighted mean over the scenes."""
    mean = weighted_mean(_by_scene(dialogues))
    success, failure = sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues)
    return Sums(float("nan") if mean is None else mean, success, failure)


SCALE = Scale(
    points=100.0,
    low=-100.0,
    high=100.0,
    start=0.0,
    success_at=100.0,
    failure_below=0.0,
    sums=_sums,
    group="scene",
    group_title="scene",
    group_order=tuple(SCENES),
    group_intervals=True,
    course=_outcomes,
    rules=lambda transcript: transcript.facts.get("relation_weight"),
    title="outcome",
    states={"a": "negative emotion", "t": "relation"},
    of="Outcome, -100 to 100, mean over all scenarios; 0: final state equals start state",
    fell="ended below {0:g}",
    zones=(Zone("", "a", 50, 100), Zone("", "b", 0, 50), Zone("", "c", -50, 0), Zone("", "f", -100, -50)),
    ticks=(-100, -50, 0, 50, 100),
    change_limit=CHANGE_LIMIT,
)


SPEC = EnvironmentSpec(
    name="eibench",
    title="EIBench",
    about="Four scenes. State: negative emotion and relation. Score: final state between anchors for success and failure.",
    source="EIBench with CTC-GRPO",
    roles=(Role("user", "plays the user and appraises every reply"),),
    options="heartloop.environments.eibench.environment:EIBenchOptions",
    scale="heartloop.environments.eibench.environment:SCALE",
    scenarios="heartloop.environments.eibench.listing:SCENARIOS",
    environment="heartloop.environments.eibench.environment:EIBench",
    embedded="heartloop.environments.eibench.users:EIBenchEmbeddedUser",
    simulator="heartloop.environments.eibench.users:EIBenchLLMUser",
    report="heartloop.environments.eibench.report.panel:PANEL",
    reading="heartloop.environments.eibench.users:READING",
    stored="heartloop.environments.eibench.stored:STORED",
    demo=DemoRun("all", 12, place=2),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=1805.3, repeat=197.7, turns=8, tokens=4_423),
    briefing="heartloop.environments.eibench.environment:briefing",
    training="heartloop.environments.eibench.training:TRAINING",
    rankings={"Arena of people": "heartloop.environments.eibench.rankings:arena"},
    importers={
        "eibench-scenarios": "heartloop.environments.eibench.importers:SCENARIOS",
    },
    writing={"write": "heartloop.environments.eibench.writing:EIBenchWriting"},
)
