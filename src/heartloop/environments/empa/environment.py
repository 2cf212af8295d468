"""The EMPA environment: rules of the dialogue, whoever plays the person, judges and directs (EMPA section 3.3, Algorithm 2).

Covers windows, the path of the state, ends, presets, what the director has released, and the score. The three roles beside the
policy are one protocol, `EmpaUser`, with a model behind each (`LLMUser`) or rules (`EmbeddedUser`). The IEDR form is filled once
and lies in the scenario. Does not cover the numbers (`heartloop.environments.empa.scoring`).

A window is `window` policy replies (the paper's K); after each the judge gives its levels, the state moves, and, unless the
dialogue ends, the director makes one call. Replies inside a window are unjudged: they have no state. The last reply is always
judged, in a shorter window if need be (ours). No success, failure or end before turn 12; a turn limit below that just cuts.

Presets: `released` (default) and `paper`, as `scoring.energy` has them; they also decide when a dialogue has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.core.errors import AnswerError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.empa.acts import MIN_TURNS, Act, refused, releases
from heartloop.environments.empa.endings import failure, reached
from heartloop.environments.empa.options import EmpaOptions
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.empa.scoring import AXES, Case, Trajectory, epmq, form_keys, trace
from heartloop.environments.episode import CallLog, Outcome, RoleFailed, UserTurn
from heartloop.environments.spec import Player
from heartloop.environments.stored import reading_transcript

__all__ = [
    "Empa",
    "EmpaEpisode",
    "EmpaUser",
    "Judgement",
    "View",
    "case_of",
    "ends",
    "numbers_of",
    "unjudged_turns",
]

Given = TypeVar("Given")


class View(NamedTuple):
    """What is known when a reply has arrived; the person begins, so `said` is one longer than the answered replies."""

    scenario: Scenario
    said: tuple[str, ...]
    """The person's own messages so far, the opening included."""
    heard: tuple[str, ...]
    """The policy's replies so far, the latest included; the empty string is silence."""
    acts: tuple[Act, ...]
    """The director's calls so far."""
    path: Trajectory
    """Where the state has come, by the run's preset: in `adjudicate` before the window, in `direct` and `speak` after it."""
    judgements: tuple[Judgement, ...]
    window: int
    """Replies in the window that is judged."""
    turn: int
    seed: int
    preset: str
    max_turns: int
    ending: StopReason | None = None
    """Why the person says their last words now, if they do."""

    @property
    def released(self) -> tuple[str, ...]:
        """Sources of memory that the person has, in the order of their release; `opening` from the start."""
        return ("opening", *(act.argument for act in self.acts if releases(act)))

    @property
    def focus(self) -> str:
        """The axis that the person is to bring forward; empty where the director has not said so."""
        return next((act.argument for act in reversed(self.acts) if act.function == "adjust_focus"), "")


class Judgement(NamedTuple):
    """An MDEP form with what each level rests on; keys as in `form_keys`."""

    levels: Mapping[str, int]
    quotes: Mapping[str, str]
    """Words of the dialogue, for every level other than 0."""
    reasons: Mapping[str, str]
    evidence: Mapping[str, Any] = {}
    """What else the judge saw."""


class EmpaUser(Player, Protocol):
    """The person, the judge and the director."""

    async def speak(self, view: View, log: CallLog) -> str:
        """The person's answer to the latest reply, out of what was released."""
        ...

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        """What the replies of the window did, on every axis."""
        ...

    async def direct(self, view: View, log: CallLog) -> Act:
        """The director's one call after a judged window."""
        ...


class Empa(BaseEnvironment[Scenario, EmpaUser, EmpaOptions]):
    """EMPA over a list of scenarios, with one kind of person, judge and director."""

    name = "empa"
    options_type = EmpaOptions
    policy = load_prompt(__package__, "policy")

    def begin(self, scenario_id: str, *, seed: int = 0) -> EmpaEpisode:
        return EmpaEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "axis": scenario.axis,
            "domain": scenario.domain,
            "difficulty": scenario.difficulty,
            "threshold": scenario.threshold,
            "theme": scenario.domain,
            "title": scenario.title,
            "person": scenario.who,
            "place": scenario.place,
            "tags": " ".join(scenario.tags),
            "window": str(self.options.window),
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={self.policy.name: self.policy.hash})


class EmpaEpisode(LoggedEpisode[Empa, Scenario]):
    """One person for one dialogue."""

    def __init__(self, environment: Empa, scenario: Scenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._said: list[str] = []
        self._heard: list[str] = []
        self._acts: list[Act] = []
        self._judged: list[Judgement] = []
        self._judged_until = 0
        self._path = self._trace()

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.text

    async def open(self) -> str:
        self._said.append(self._scenario.opening)
        return self._scenario.opening

    async def step(self, reply: str) -> UserTurn:
        empa, user = self._environment, self._environment.user
        self._heard.append(reply)
        turns = len(self._heard)
        last = turns >= empa.max_turns
        if turns % empa.options.window and not last:
            return UserTurn(await self._speak(), None, None, {}, {}, None)
        judged = await answered("judge", user.adjudicate(self._view(), self._log))
        self._judged.append(judged)
        self._judged_until, before = turns, self._path
        self._path = path = self._trace()
        ended = None if empa.options.to_the_end else ends(path, preset=empa.preset, turns=turns)
        stop = ended or ("turn_limit" if last else None)
        act: Act | None = None
        if stop is None:
            act = await answered("director", user.direct(self._view(), self._log))
            problem = refused(act, released=self._view().released, turns=turns)
            if problem is not None:
                raise RoleFailed("director", AnswerError(f"the director called {act.function}({act.argument}): {problem}"))
            self._acts.append(act)
            stop = "goodbye" if act.function == "end" else None
        message = await self._speak(stop)
        state = _point(path, -1)
        was = _point(before, -1)
        change = {axis: value - was[axis] for axis, value in state.items()}
        return UserTurn(message, state, change, _told(judged), _kept(judged, path, act), stop)

    def outcome(self) -> Outcome:
        """EPM-Q of the dialogue, from 0, best 100 or more; the energy of each window (process reward); the states."""
        states = tuple(_point(self._path, number) for number in range(len(self._path.position)))
        rewards = tuple(map(float, self._path.energy))
        score = epmq([self._case()], preset=self._environment.preset).score if rewards else None
        return Outcome(score, rewards, states)

    async def _speak(self, ending: StopReason | None = None) -> str | None:
        """The person's next words; at an end the measurement is complete, and only parting words can be lost."""
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

    def _case(self) -> Case:
        return Case(self._scenario.start, [judged.levels for judged in self._judged])

    def _trace(self) -> Trajectory:
        return trace(self._case(), preset=self._environment.preset)

    def _view(self, ending: StopReason | None = None) -> View:
        return View(
            scenario=self._scenario,
            said=tuple(self._said),
            heard=tuple(self._heard),
            acts=tuple(self._acts),
            path=self._path,
            judgements=tuple(self._judged),
            window=len(self._heard) - self._judged_until,
            turn=len(self._heard) - 1,
            seed=self._seed,
            preset=self._environment.preset,
            max_turns=self._environment.max_turns,
            ending=ending,
        )


def ends(path: Trajectory, *, preset: str, turns: int) -> StopReason | None:
    """Whether a dialogue has succeeded or failed after so many replies; never before `MIN_TURNS` of them."""
    if turns < MIN_TURNS:
        return None
    if reached(path, preset=preset).reached:
        return "success"
    return "failure" if failure(path).detected else None


def _point(path: Trajectory, number: int) -> dict[str, float]:
    """One position of a path, by axis."""
    return {str(axis): float(x) for axis, x in zip(AXES, path.position[number], strict=True)}


def _told(judged: Judgement) -> dict[str, str]:
    """The judge's reasons in a line an axis."""
    told: dict[str, str] = {}
    for axis in AXES:
        sides = [key for key in form_keys([axis]) if judged.levels[key]]
        parts = [f"{judged.levels[key]:+d} “{judged.quotes.get(key, '')}” {judged.reasons.get(key, '')}".strip() for key in sides]
        told[axis] = "; ".join(parts) or "0"
    return told


def _kept(judged: Judgement, path: Trajectory, act: Act | None) -> dict[str, Any]:
    """What a transcript keeps of a judged window: enough to compute everything anew."""
    return {
        "levels": dict(judged.levels),
        "quotes": dict(judged.quotes),
        "reasons": dict(judged.reasons),
        **numbers_of(path),
        **({} if act is None else {"director": act._asdict()}),
        **judged.evidence,
    }


def numbers_of(path: Trajectory) -> dict[str, float]:
    """Energy and alignment of the latest window, and all energy so far, as a transcript keeps them."""
    return {
        "energy": round(float(path.energy[-1]), 4) + 0.0,  # no -0
        "alignment": round(float(path.alignment[-1]), 4) + 0.0,
        "total": round(path.total, 4) + 0.0,
    }


def case_of(transcript: Transcript) -> Case:
    """The judged dialogue of a transcript: P_0, and one form for every window, `None` where an import had no judgement.

    Raises:
        InputError: a judged turn that keeps no levels, or a start without the axes.
    """
    with reading_transcript(transcript, "the levels of every judged turn"):
        p0 = [transcript.start[axis] for axis in AXES]
        window = int(transcript.facts.get("window", "1"))
        forms: list[Mapping[str, int] | None] = []
        for turn in transcript.turns:
            if turn.state is not None:
                forms.append({key: int(turn.evidence["levels"][key]) for key in form_keys()})
            elif window == 1:
                forms.append(None)
    return Case(p0, forms)


def unjudged_turns(transcript: Transcript) -> int:
    """Turns that should have been judged and were not: windows without a judgement, as some released dialogues have them."""
    return len(trace(case_of(transcript), preset=transcript.preset).unjudged)
