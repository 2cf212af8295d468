"""EMPA: options, rules of a dialogue, score, rewards, and the spec (EMPA section 3.3, Algorithm 2).

After each window of `window` replies (the paper's K) the judge gives its levels and, unless the dialogue ends, the director makes
one call. The last reply is always judged, in a shorter window if necessary (ours). In `released` only the turn limit ends a
dialogue before turn 12. P_0 comes from the IEDR form of the scenario, or from one that the judge fills before the dialogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.empa.scenario import SCENARIOS, SOURCES, EmpaBrief
from heartloop.environments.empa.scoring import (
    AXES,
    LEVELS,
    PRESETS,
    Case,
    Trajectory,
    composed,
    epmq,
    failure,
    form_keys,
    increment,
    indices_of,
    reached,
    trace,
)  # fmt: skip
from heartloop.environments.episode import CallLog, Outcome, RoleFailed, UserTurn
from heartloop.environments.replay import reading_transcript
from heartloop.environments.spec import DemoRun, EnvironmentSpec, Options, Pilot, Player, Role, Scale, Zone, bounded_sums, option
from heartloop.environments.training import Returns, Training, rewards_by_turn, score_of

VARIANTS = ("plain",)
DEFICITS = ("scenario", "judged")

MAX_TURNS = 45
MIN_TURNS: Mapping[str, int] = {"released": 12, "paper": 1}
"""Replies before which only the turn limit ends a dialogue: the released code's twelve; the paper prints no least number."""


class EmpaOptions(Options):
    """Options of EMPA; the defaults are those of the released code."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules of points, energy, success and EPM-Q: the authors' code, or the paper as printed."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="45 (released code)")
    """Maximum number of policy replies."""
    window: int = option(1, ge=1, paper="1 (K)")
    """Policy replies between two judgements."""
    deficit: str = option(DEFICITS[0], choices=DEFICITS)
    """Initial deficit P_0: by the scenario's IEDR form, or by a form that the judge, a model, fills before the dialogue."""
    penalty: float = option(0.0, affects="score", ge=0, allow_inf_nan=False, paper="not printed (Eq. 1)")
    """In training, taken from the reward of a window with stagnation, and again from one with regression."""
    to_the_end: bool = option(False)
    """Whether success and failure do not end a dialogue, so that all stored replies are judged."""


STAGES: tuple[str, ...] = tuple(source for source in SOURCES if source.startswith("stage") or source == "epilogue")
MEMORIES: tuple[str, ...] = tuple(source for source in SOURCES if source not in ("opening", *STAGES))

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "reveal_stage": STAGES,
    "reveal_memory": MEMORIES,
    "adjust_focus": AXES,
    "advise": (),
    "wait": (),
    "end": (),
}


class Act(NamedTuple):
    """One call of a function by the director."""

    function: str
    argument: str = ""
    note: str = ""
    reason: str = ""


def releases(act: Act) -> bool:
    return act.function in ("reveal_stage", "reveal_memory")


def call_problem(act: Act, *, released: Sequence[str], turns: int, preset: str) -> str | None:
    """Why a call is invalid after this number of policy replies: stages come in order, and no source twice."""
    if act.function not in FUNCTIONS:
        return f"there is no function {act.function!r}; expected one of {', '.join(FUNCTIONS)}"
    arguments = FUNCTIONS[act.function]
    if arguments and act.argument not in arguments:
        return f"{act.function} takes one of {', '.join(arguments)}, not {act.argument!r}"
    if not arguments and act.argument:
        return f"{act.function} takes no argument, not {act.argument!r}"
    if releases(act) and act.argument in released:
        return f"{act.argument!r} is released already"
    earlier = STAGES[: STAGES.index(act.argument)] if act.function == "reveal_stage" else ()
    if missing := [stage for stage in earlier if stage not in released]:
        return f"{act.argument!r} would be told before {missing[0]!r}; the pieces of the story come in order"
    if act.function == "end" and turns < MIN_TURNS[preset]:
        return f"nothing ends before {MIN_TURNS[preset]} replies, and there were {turns}"
    return None


class Judgement(NamedTuple):
    """An MDEP form with quotes and reasons; keys as in `form_keys`."""

    levels: Mapping[str, int]
    quotes: Mapping[str, str]
    """Quotes of the dialogue, for every level other than 0."""
    reasons: Mapping[str, str]
    evidence: Mapping[str, Any] = {}


class EmpaView(NamedTuple):
    """The dialogue as the three roles see it after a reply. `said` and `heard` alternate, starting with `said`."""

    scenario: EmpaBrief
    said: tuple[str, ...]
    heard: tuple[str, ...]
    acts: tuple[Act, ...]
    path: Trajectory
    """By the run's preset: in `adjudicate` up to the window, in `direct` and `speak` including it."""
    judgements: tuple[Judgement, ...]
    window: int
    """Number of replies in the window to be judged; 0 if all are judged."""
    turn: int
    seed: int
    preset: str
    max_turns: int
    ending: StopReason | None = None
    """Why the dialogue ends, if the next message of the user is the last."""

    @property
    def released(self) -> tuple[str, ...]:
        return ("opening", *(act.argument for act in self.acts if releases(act)))

    @property
    def focus(self) -> str:
        return next((act.argument for act in reversed(self.acts) if act.function == "adjust_focus"), "")


class EmpaUser(Player, Protocol):
    async def speak(self, view: EmpaView, log: CallLog) -> str: ...

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement: ...

    async def direct(self, view: EmpaView, log: CallLog) -> Act: ...


@runtime_checkable
class DeficitJudge(Protocol):
    """An `EmpaUser` whose judge also fills the IEDR form, for `deficit=judged` (EMPA Algorithm 2, line 4)."""

    async def rate(self, view: EmpaView, log: CallLog) -> Sequence[float]:
        """P_0, before the first message."""


class Empa(BaseEnvironment[EmpaBrief, EmpaUser, EmpaOptions]):
    name = "empa"
    options_type = EmpaOptions
    policy = load_prompt(__package__, "policy")
    iedr = load_prompt(__package__, "iedr")

    def __init__(self, scenarios: Sequence[EmpaBrief], user: EmpaUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        if self.options.deficit == "judged" and not isinstance(user, DeficitJudge):
            raise UseError("deficit is judged, but the embedded judge fills no IEDR form; name a model with --judge or --user")

    def begin(self, scenario_id: str, *, seed: int = 0) -> EmpaEpisode:
        return EmpaEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            **{name: getattr(scenario, name) for name in ("axis", "domain", "difficulty", "threshold")},
            "theme": scenario.domain,
            "title": scenario.title,
            "person": scenario.who,
            "place": scenario.place,
            "tags": " ".join(scenario.tags),
            "window": str(self.options.window),
        }
        prompts = [self.policy]
        if self.options.deficit == "judged":
            facts["deficit"] = "judged"
            prompts.append(self.iedr)
        hashes = {prompt.name: prompt.hash for prompt in prompts}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=hashes)


class EmpaEpisode(LoggedEpisode[Empa, EmpaBrief]):
    def __init__(self, environment: Empa, scenario: EmpaBrief, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._said: list[str] = []
        self._heard: list[str] = []
        self._acts: list[Act] = []
        self._judgements: list[Judgement] = []
        self._judged_until = 0
        self._p0: Sequence[float] = scenario.start
        self._path = trace(self._dialogue(), preset=environment.options.preset)

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.text

    async def open(self) -> str:
        user = self._environment.user
        if self._environment.options.deficit == "judged" and isinstance(user, DeficitJudge):
            self._p0 = await answered("judge", user.rate(self._view(), self._log))
            self._path = trace(self._dialogue(), preset=self._environment.options.preset)
        self._said.append(self._scenario.opening)
        return self._scenario.opening

    async def step(self, reply: str) -> UserTurn:
        empa, user = self._environment, self._environment.user
        self._heard.append(reply)
        turns = len(self._heard)
        last = turns >= empa.options.max_turns
        if turns % empa.options.window and not last:
            return UserTurn(await self._speak(), None, None, {}, {}, None)
        judgement = await answered("judge", user.adjudicate(self._view(), self._log))
        self._judgements.append(judgement)
        self._judged_until = turns
        self._path = path = trace(self._dialogue(), preset=empa.options.preset)
        ended = None if empa.options.to_the_end else ends(path, preset=empa.options.preset, turns=turns)
        stop = ended or ("turn_limit" if last else None)
        act: Act | None = None
        if stop is None:
            view = self._view()
            act = await answered("director", user.direct(view, self._log))
            if problem := call_problem(act, released=view.released, turns=turns, preset=view.preset):
                raise RoleFailed("director", AnswerError(f"the director called {act.function}({act.argument}): {problem}"))
            self._acts.append(act)
            stop = "goodbye" if act.function == "end" else None
        return UserTurn(message=await self._speak(stop), stop=stop, **judged_turn(judgement, path, act))

    def outcome(self) -> Outcome:
        """EPM-Q, from 0, about 100 if the deficit is made good; the energy of each window as reward; the states."""
        rewards = tuple(map(float, self._path.energy))
        score = epmq([self._dialogue()], preset=self._environment.options.preset).score if rewards else None
        return Outcome(score, rewards, tuple(map(_by_axis, self._path.position)))

    async def _speak(self, ending: StopReason | None = None) -> str | None:
        """The user's next message. At an end the score is complete, so a failure only loses the last message."""
        if ending == "turn_limit":
            return None
        try:
            message = await answered("user", self._environment.user.speak(self._view(ending), self._log))
        except RoleFailed:
            if ending is None:
                raise
            self._log.count("lost farewells")
            return None
        self._said.append(message)
        return message

    def _dialogue(self) -> Case:
        return Case(self._p0, [judgement.levels for judgement in self._judgements])

    def _view(self, ending: StopReason | None = None) -> EmpaView:
        return EmpaView(
            scenario=self._scenario,
            said=tuple(self._said),
            heard=tuple(self._heard),
            acts=tuple(self._acts),
            path=self._path,
            judgements=tuple(self._judgements),
            window=len(self._heard) - self._judged_until,
            turn=len(self._heard) - 1,
            seed=self._seed,
            preset=self._environment.options.preset,
            max_turns=self._environment.options.max_turns,
            ending=ending,
        )


def ends(path: Trajectory, *, preset: str, turns: int) -> StopReason | None:
    """Success or failure of a dialogue after `turns` replies; `None` if neither, or before `MIN_TURNS` replies."""
    if turns < MIN_TURNS[preset]:
        return None
    if reached(path, preset=preset).reached:
        return "success"
    return "failure" if failure(path, preset=preset).detected else None


def judged_turn(judgement: Judgement, path: Trajectory, act: Act | None = None) -> dict[str, Any]:
    """State, change, thoughts and evidence of a turn that closes the last window of `path`; rescoring needs nothing else."""
    levels, quotes, reasons, more = judgement
    parts = {key: f"{level:+d} “{quotes.get(key, '')}” {reasons.get(key, '')}".strip() for key, level in levels.items() if level}
    thoughts = {axis: "; ".join(parts[key] for key in form_keys([axis]) if key in parts) or "0" for axis in AXES}
    evidence = {
        "levels": dict(levels),
        "quotes": dict(quotes),
        "reasons": dict(reasons),
        **numbers_of(path),
        **({} if act is None else {"director": act._asdict()}),
        **more,
    }
    state, change = _by_axis(path.position[-1]), _by_axis(path.increment[-1])
    return {"state": state, "change": change, "thoughts": thoughts, "evidence": evidence}


def numbers_of(path: Trajectory) -> dict[str, float]:
    numbers = {"energy": path.energy[-1], "alignment": path.alignment[-1], "total": path.total}
    return {name: round(float(number), 4) + 0.0 for name, number in numbers.items()}  # no -0


def _by_axis(values: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    return {str(axis): float(x) for axis, x in zip(AXES, values, strict=True)}


def judged_dialogue(transcript: Transcript) -> Case:
    """P_0 and the forms of a transcript; `None` for a window that an import left unjudged."""
    with reading_transcript(transcript, "the levels of every judged turn"):
        p0 = [transcript.start[axis] for axis in AXES]
        window = int(transcript.facts.get("window", "1"))
        closing = [turn for turn in transcript.turns if turn.state is not None or window == 1]
        forms = [None if turn.state is None else {k: int(turn.evidence["levels"][k]) for k in form_keys()} for turn in closing]
    return Case(p0, forms)


def _epmqs(transcript: Transcript) -> list[float]:
    """EPM-Q of the dialogue up to every judged reply; 0 before the first."""
    try:
        path = trace(judged_dialogue(transcript), preset=transcript.preset)
        by_reply = (indices_of(path.until(n), preset=transcript.preset) for n in range(1, len(path.energy) + 1))
        return [0.0, *(composed(indices).score for indices in by_reply)]
    except InputError:
        return []


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=120.0,
    start=0.0,
    success_at=100.0,
    failure_below=0.0,
    sums=lambda dialogues, success_at, failure_below: bounded_sums(dialogues, math.inf, -math.inf),  # see `by_end`
    group="axis",
    group_title="dominant axis",
    group_order=AXES,
    course=_epmqs,
    rules=lambda transcript: transcript.facts.get("window"),
    title="EPM-Q",
    states={"C": "to be understood", "A": "to be felt with", "P": "to become active again"},
    of="EPM-Q, from 0; about 100 if the whole deficit is made good",
    reached="succeeded",
    fell="failed",
    # 26.7: nothing happens
    zones=(Zone("", "a", 85, 120), Zone("", "b", 60, 85), Zone("", "c", 26.7, 60), Zone("", "f", 0, 26.7)),
    ticks=(0, 27, 60, 85, 120),
    change_limit=5.0,
    by_end=True,
)


def _returns(transcript: Transcript, options: EmpaOptions) -> Returns:
    """Rewards for training: success, and r_t of each window: its energy over |P_0| less the penalties (EMPA Eq. 1).

    Division and size of the penalties are ours (the paper trains nothing); stagnation and regression are the released code's, in
    both presets. The lowest sum is that of `MAX_TURNS` windows with the lowest energy that a form can have and both penalties.
    """
    score_of(transcript)
    path = trace(judged_dialogue(transcript), preset=transcript.preset)
    deficit = float(path.distance[0])
    signs = (failure(path.until(n + 1), preset="released") for n in range(len(path.energy)))
    penalties = [options.penalty * (bool(one.stagnation) + bool(one.regression)) for one in signs]
    rewards = [reward / deficit - taken for reward, taken in zip(transcript.rewards, penalties, strict=True)]
    worst = increment({key: min(LEVELS[key[2:]]) for key in form_keys()}, preset=transcript.preset)
    return Returns(
        outcome=float(transcript.stop == "success"),
        process=rewards_by_turn(transcript.model_copy(update={"rewards": tuple(rewards)})),
        worst_outcome=0.0,
        worst_turns=-MAX_TURNS * (float(np.linalg.norm(worst)) / deficit + 2 * options.penalty),
    )


SPEC = EnvironmentSpec(
    name="empa",
    title="EMPA",
    about="Long dialogues with a user whose deficit is a vector of three axes; the score is EPM-Q.",
    source="EMPA",
    roles=(
        Role("user", "plays the user"),
        Role("judge", "rates progress and regress on every axis, with quotes"),
        Role("director", "releases parts of the story"),
    ),
    options=EmpaOptions,
    scale=SCALE,
    scenarios=SCENARIOS,
    environment=Empa,
    embedded="heartloop.environments.empa.embedded:EmpaEmbeddedUser",
    simulator="heartloop.environments.empa.users:EmpaLLMUser",
    players_by_role="heartloop.environments.empa.users:players",
    report="heartloop.environments.empa.report:PANEL",
    reading="heartloop.environments.empa.embedded:READING",
    stored="heartloop.environments.empa.stored:STORED",
    demo=DemoRun("general", 3, place=3),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=216.6, repeat=42.2, turns=27.6, tokens=34_711),
    # calls and tokens: ours, estimated from dialogues of twelve turns
    training=Training(_returns, calls_per_turn=3, tokens_per_call=3800, reward_options=("penalty",)),
    suites={"perturbation": "heartloop.environments.empa.perturbations:SUITE"},
    importers={"empa-results": "heartloop.environments.empa.importers:RESULTS"},
    writing={
        "distil": "heartloop.environments.empa.writing:EmpaDistilling",
        "expand": "heartloop.environments.empa.writing:EmpaExpanding",
    },
)
