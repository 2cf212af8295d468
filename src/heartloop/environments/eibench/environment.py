"""EIBench: rules of the dialogue, options, score scale and spec (EIBench sections 3.2 to 3.4).

The user simulator gives one answer per turn: both changes, the user's message, and whether the user continues. The last reply is
judged too. Preset `paper` (default): a change outside ±10 is re-asked once; then the dialogue is unscored. Preset `released`, as
the authors' code: it is clamped and counted. Departure: a dialogue with an answer that does not parse is unscored under both; the
released code scores it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.eibench.scenario import (
    SCENES,
    AnyEIBenchScenario,
    EIBenchReleasedScenario,
    EIBenchScenario,
    as_list,
    lines_of,
)
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
from heartloop.environments.spec import (
    DemoRun,
    EnvironmentSpec,
    Options,
    Pilot,
    Player,
    Role,
    Scale,
    Sums,
    Zone,
    bounded_sums,
    option,
)
from heartloop.environments.training import Returns, Training, rewards_by_turn, score_of

PRESETS = ("paper", "released")
VARIANTS = ("think", "direct")
"""Forms of the policy prompt: with a think block before each reply (the paper's), or without (ours)."""

MAX_TURNS = 8
"""Policy replies in a dialogue (EIBench Table 10)."""
RELATION_WEIGHT = 0.5
"""lambda of the outcome (EIBench Eq. 2)."""


class EIBenchOptions(Options):
    """Defaults as in the EIBench paper."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """A change outside ±10: re-asked once, else unscored, or (`released`) clamped and counted. Each has its simulator prompt."""
    variant: str = option(VARIANTS[0], choices=VARIANTS, think=("think",))
    """Form of the policy prompt: with a think block, or without."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="8")
    """Maximum number of policy replies."""
    relation_weight: float = option(RELATION_WEIGHT, affects="score", ge=0, le=1, paper="0.5 (lambda, Eq. 2)")
    """Weight of the relation in the outcome; negative emotion has the remaining weight."""


class EIBenchView(NamedTuple):
    """The dialogue as the user simulator sees it after a reply, the last of `replies`; an empty reply is silence."""

    scenario: AnyEIBenchScenario
    messages: tuple[str, ...]
    """The user's; in Charm, where the policy speaks first, one less than replies."""
    replies: tuple[str, ...]
    states: tuple[tuple[float, float], ...]
    """(a, t), negative emotion and relation, each in [0, 100]: at the start and after each judged reply."""
    seed: int
    options: EIBenchOptions
    thoughts: tuple[Mapping[str, str], ...] = ()
    """The user simulator's earlier reflections, by turn."""

    @property
    def turn(self) -> int:
        return len(self.replies) - 1


class Reaction(NamedTuple):
    """The user simulator's appraisal of a reply, as changes of a and t that may be outside ±10, and its next message."""

    a: float
    t: float
    reply: str
    stop: StopReason | None
    """How the user ends the dialogue: settled or broken off; `None` if they go on."""
    reflection: Mapping[str, str]
    """Texts by step: need, quality, inertia, changes, tone; after an end also its reason."""
    evidence: Mapping[str, Any] = {}


class EIBenchUser(Player, Protocol):
    async def react(self, view: EIBenchView, log: CallLog) -> Reaction: ...


class EIBench(BaseEnvironment[AnyEIBenchScenario, EIBenchUser, EIBenchOptions]):
    name = "eibench"
    options_type = EIBenchOptions

    def begin(self, scenario_id: str, *, seed: int = 0) -> EIBenchEpisode:
        return EIBenchEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "scene": scenario.scene,
            **scenario.facts,
            "title": scenario.title,
            "person": scenario.person,
            "place": scenario.place,
            "tags": " ".join(scenario.tags),
            "anchors": json.dumps(dict(zip("at", scenario.axes, strict=True))),
            "relation_weight": f"{self.options.relation_weight:g}",
        }
        prompts = {p.name: p.hash for p in _policy_prompts(self.options.variant, isinstance(scenario, EIBenchReleasedScenario))}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=prompts)


class EIBenchEpisode(LoggedEpisode[EIBench, AnyEIBenchScenario]):
    def __init__(self, environment: EIBench, scenario: AnyEIBenchScenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._messages: list[str] = []
        self._replies: list[str] = []
        self._thoughts: list[Mapping[str, str]] = []
        a, t = scenario.axes
        self._states = [(float(a.start), float(t.start))]

    @property
    def policy_prompt(self) -> str:
        return briefing(self._scenario, self._environment.options)

    async def open(self) -> str | None:
        if self._scenario.opening is not None:
            self._messages.append(self._scenario.opening)
        return self._scenario.opening

    async def step(self, reply: str) -> UserTurn:
        bench = self._environment
        self._replies.append(reply)
        messages, replies, states = tuple(self._messages), tuple(self._replies), tuple(self._states)
        view = EIBenchView(self._scenario, messages, replies, states, self._seed, bench.options, tuple(self._thoughts))
        reaction = await answered("user", bench.user.react(view, self._log))
        before, (low, high) = self._states[-1], STATE_LIMITS
        for value, change in zip(before, (reaction.a, reaction.t), strict=True):
            if abs(change) > CHANGE_LIMIT:
                self._log.count("clamped changes")
            if not low <= value + min(CHANGE_LIMIT, max(-CHANGE_LIMIT, change)) <= high:
                self._log.count("states at their limit")
        after = (move(before[0], reaction.a), move(before[1], reaction.t))
        self._states.append(after)
        self._messages.append(reaction.reply)
        self._thoughts.append(reaction.reflection)
        last = len(self._replies) >= bench.options.max_turns
        stop: StopReason | None = reaction.stop or ("turn_limit" if last else None)
        moved = _state((after[0] - before[0], after[1] - before[1]))
        return UserTurn(reaction.reply, _state(after), moved, dict(reaction.reflection), dict(reaction.evidence), stop)

    def outcome(self) -> Outcome:
        """Outcome in [-1, 1] (Eq. 2); one process reward per turn (Eq. 3); the states."""
        score = outcome(*self._states[-1], *self._scenario.axes, self._environment.options.relation_weight)
        rewards = map(float, process_rewards(*zip(*self._states, strict=True)))
        return Outcome(score, tuple(rewards), tuple(map(_state, self._states)))


def briefing(scenario: AnyEIBenchScenario, options: EIBenchOptions) -> str:
    if isinstance(scenario, EIBenchReleasedScenario):
        name, blanks = "this person", {"profile": scenario.record.defender_profile.system_prompt.strip()}
    else:
        name, model = scenario.model.name, scenario.model
        lists = {field: as_list(getattr(model, field)) for field in ("knows", "limits")}
        blanks = {"name": name, "role": model.role, "background": model.background, "goal": model.goal, **lists}
    manner, profile = _policy_prompts(options.variant, isinstance(scenario, EIBenchReleasedScenario))
    return manner.fill(profile=profile.fill(**blanks), name=name)


@cache
def _policy_prompts(form: str, released: bool) -> tuple[Prompt, Prompt]:
    profile = "policy_profile_released" if released else "policy_profile"
    return load_prompt(__package__, f"policy_{form}"), load_prompt(__package__, profile)


def anchors_of(transcript: Transcript) -> tuple[Anchors, Anchors] | None:
    """Anchors of a and of t that a dialogue was played with; `None` if its facts have none."""
    try:
        anchors = json.loads(transcript.facts.get("anchors", ""))
        return Anchors(*anchors["a"]), Anchors(*anchors["t"])
    except (ValueError, LookupError, TypeError):
        return None


def relation_weight_of(transcript: Transcript) -> float:
    return float(transcript.facts.get("relation_weight", RELATION_WEIGHT))


def _state(values: tuple[float, float]) -> dict[str, float]:
    return {"a": values[0], "t": values[1]}


def states_of(transcript: Transcript) -> list[tuple[float, float]]:
    """(a, t) at the start and after each judged reply."""
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [(state["a"], state["t"]) for state in states if {"a", "t"} <= state.keys()]


def _outcomes(transcript: Transcript) -> list[float]:
    anchors, weight = anchors_of(transcript), relation_weight_of(transcript)
    return [100.0 * outcome(a, t, *anchors, relation_weight=weight) for a, t in states_of(transcript)] if anchors else []


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    mean = weighted_mean({scene: [p for s, p in dialogues if s == scene] for scene in dict.fromkeys(s for s, _ in dialogues)})
    _, success, failure = bounded_sums(dialogues, success_at, failure_below)
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


def _returns(transcript: Transcript, options: EIBenchOptions) -> Returns:
    """Outcome and process rewards; their lowest sum moves a from its start to 100 and t from its start to 0."""
    low, high = STATE_LIMITS
    (worst_turns,) = process_rewards([transcript.start["a"], high], [transcript.start["t"], low])
    return Returns(score_of(transcript), rewards_by_turn(transcript), worst_outcome=-1.0, worst_turns=float(worst_turns))


def _texts(scenario: AnyEIBenchScenario) -> Iterable[str]:
    if not isinstance(scenario, EIBenchScenario):
        return ()
    model, beats = scenario.model, (beat.text for beat in scenario.beats)
    return (scenario.opening or "", *beats, *lines_of(scenario), model.goal, model.background, *model.knows)


SPEC = EnvironmentSpec(
    name="eibench",
    title="EIBench",
    about="Four scenes. State: negative emotion and relation. Score: final state between anchors for success and failure.",
    source="EIBench with CTC-GRPO",
    roles=(Role("user", "plays the user and appraises every reply"),),
    options=EIBenchOptions,
    scale=SCALE,
    scenarios="heartloop.environments.eibench.composer:SCENARIOS",
    environment=EIBench,
    embedded="heartloop.environments.eibench.users:EIBenchEmbeddedUser",
    simulator="heartloop.environments.eibench.users:EIBenchLLMUser",
    report="heartloop.environments.eibench.report:PANEL",
    reading="heartloop.environments.eibench.users:READING",
    stored="heartloop.environments.eibench.stored:STORED",
    demo=DemoRun("all", 12, place=2),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=1095.8, repeat=129.6, turns=8, tokens=4_596),
    briefing="heartloop.environments.eibench.environment:briefing",
    training=Training(
        _returns,
        calls_per_turn=1,
        tokens_per_call=3300,  # ours: requests of eight turns and their answers; 1,200 in EIBench App. B.2
        prompt_headings=("What you are after", "What you know", "Your situation"),
        texts=_texts,
    ),
    rankings={"Arena of people": "heartloop.environments.eibench.report:arena"},
    importers={"eibench-scenarios": "heartloop.environments.eibench.importers:SCENARIOS"},
    writing={
        "write": "heartloop.environments.eibench.writing:EIBenchWriting",
        "write.released": "heartloop.environments.eibench.writing:EIBenchReleasedWriting",
    },
)
