"""SAGE: rules of the dialogue, options, score scale and spec (SAGE sections 2.1 to 2.2, App. E; training options as in RLVER).

Preset `corrected` (default, ours): every reply of the policy is judged, including the last; a change outside ±10 is re-asked; a
dialogue ends at 100, below 10 or at the turn limit. Preset `released`, as the authors' code: the reply at the limit is not
judged (half of the published dialogues); a change outside ±10 is clamped and counted; the user's "goodbye" ends the dialogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from pydantic import model_validator

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.core.errors import AnswerError, ModelError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.sage.scenario import INTENTIONS, AnySageScenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT, FAILURE_BELOW, START, SUCCESS_AT, Band, band, step, summarise
from heartloop.environments.spec import DemoRun, EnvironmentSpec, Options, Pilot, Player, Role, Scale, Sums, Zone, option
from heartloop.environments.training import Returns, Training, rewards_by_turn, score_of
from heartloop.scoring.credit import TURN_SCALE, outcome_reward, turn_rewards

PRESETS = ("corrected", "released")
VARIANTS = ("vanilla", "challenging", "hard")
FORMS = ("plain", "think", "direct")
"""Forms of the policy prompt: SAGE's, and RLVER's two training templates (App. A.5; our wording)."""

OPENING = load_prompt(__package__, "open_turn")

MAX_TURNS = 10
"""Maximum number of policy replies in a dialogue (SAGE released logs)."""

_GOODBYE = re.compile(r"\b(good-?bye|bye(-bye)?)\b|再见|拜拜", re.IGNORECASE)


def says_goodbye(message: str) -> bool:
    """Whether a message of the user ends the dialogue under preset `released`.

    >>> says_goodbye("I see. Good-bye then."), says_goodbye("That was bygone.")
    (True, False)
    """
    return bool(_GOODBYE.search(message))


class SageOptions(Options):
    """Defaults as in the SAGE paper. RLVER's training changes `start`, `leaves_at` and `form`."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules: `corrected` judges every reply and re-asks a change outside ±10; `released` follows the authors' code."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """`challenging` conceals its intention (RLVER App. D.1); `hard` is also slow to warm (ours)."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="10 (released logs); 8 in RLVER's training")
    """Maximum number of policy replies."""
    start: float = option(START, ge=0, le=100, paper="40; 30 in RLVER's released training code")
    """Emotion before the first reply."""
    leaves_at: float | None = option(None, ge=0, le=100, paper="below 10; 0 in RLVER's training")
    """Emotion at or below which the user leaves; default: below 10."""
    form: str = option(FORMS[0], choices=FORMS, think=("think",), paper="think or direct in RLVER App. A.5")
    """Form of the policy prompt: the paper's, RLVER's with a think block before each reply, or RLVER's without."""
    success_at: float = option(SUCCESS_AT, affects="score", ge=0, le=100, paper="100")
    """Final emotion at or above which a dialogue counts as a success."""
    failure_below: float = option(FAILURE_BELOW, affects="score", ge=0, le=100, paper="10")
    """Final emotion below which a dialogue counts as a failure."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.failure_below > self.success_at:
            raise ValueError(f"failure_below is {self.failure_below:g}; expected at most success_at, {self.success_at:g}")
        return self


class SageView(NamedTuple):
    """The dialogue as the user simulator sees it after a reply, the last of `replies`; an empty reply is silence."""

    scenario: AnySageScenario
    messages: tuple[str, ...]
    replies: tuple[str, ...]
    emotion: float
    """In [0, 100]: before the reply in `feel`, after it in `speak`."""
    seed: int
    options: SageOptions
    felt: tuple[Feeling, ...] = ()
    """About the replies before the last, with the changes as they were applied."""

    @property
    def turn(self) -> int:
        return len(self.replies) - 1

    @property
    def manner(self) -> Band:
        """The band that sets the user's manner; F only if the user leaves."""
        own, leaves_at = band(self.emotion), self.options.leaves_at
        leaves = own == "F" if leaves_at is None else self.emotion <= leaves_at
        return "F" if leaves else "C" if own == "F" else own


class Feeling(NamedTuple):
    change: float
    """In points of emotion; may be outside ±10."""
    thoughts: Mapping[str, str]
    """`content`, `fit`, `activity` and `feeling`."""
    evidence: Mapping[str, Any] = {}


class Speech(NamedTuple):
    message: str
    """Empty if a stored dialogue has no further message."""
    cut: bool = False
    """Whether a stored dialogue ends here, with no further reply."""


class SageUser(Player, Protocol):
    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]: ...

    async def feel(self, view: SageView, log: CallLog) -> Feeling: ...

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech: ...

    async def open(self, view: SageView, log: CallLog) -> str:
        """The first message of a scenario without one; the same in every dialogue as far as the model allows."""


class Sage(BaseEnvironment[AnySageScenario, SageUser, SageOptions]):
    name = "sage"
    options_type = SageOptions

    def __init__(self, scenarios: Sequence[AnySageScenario], user: SageUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        form = self.options.form
        self.policy = load_prompt(__package__, "policy" if form == "plain" else f"policy_{form}")

    def begin(self, scenario_id: str, *, seed: int = 0) -> SageEpisode:
        return SageEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        names = ("family", "intention", "intention_text", "theme", "title", "person", "place")
        facts = {name: getattr(scenario, name) for name in names} | {"tags": " ".join(scenario.tags)}
        if self.options.leaves_at is not None:
            facts["leaves_at"] = f"{self.options.leaves_at:g}"
        players = self.user.describe(self.options.variant)
        prompts = [self.policy, *([] if scenario.first_message else [OPENING])]
        return self.described(scenario_id, players, facts=facts, prompts={prompt.name: prompt.hash for prompt in prompts})


class SageEpisode(LoggedEpisode[Sage, AnySageScenario]):
    def __init__(self, environment: Sage, scenario: AnySageScenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._messages: list[str] = []
        self._replies: list[str] = []
        self._emotions = [float(environment.options.start)]
        self._felt: list[Feeling] = []

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.text

    async def open(self) -> str:
        message = self._scenario.first_message
        self._messages.append(message or await answered("user", self._environment.user.open(self._view(), self._log)))
        return self._messages[0]

    async def step(self, reply: str) -> UserTurn:
        sage = self._environment
        self._replies.append(reply)
        last = len(self._replies) >= sage.options.max_turns
        if last and sage.options.preset == "released":
            return UserTurn(None, None, None, {}, {}, "turn_limit")
        feeling = await answered("user", sage.user.feel(self._view(), self._log))
        before = self._emotions[-1]
        after = step(before, feeling.change)
        if abs(feeling.change) > CHANGE_LIMIT:
            self._log.count("clamped changes")
        if after != before + max(-CHANGE_LIMIT, min(CHANGE_LIMIT, feeling.change)):
            self._log.count("states at their limit")
        self._emotions.append(after)
        view, message = self._view(), ""
        self._felt.append(feeling._replace(change=after - before))
        stop: StopReason | None = {"S": "success", "F": "failure"}.get(view.manner)  # type: ignore[assignment]
        if stop is not None:
            try:
                message = (await sage.user.speak(view, feeling, self._log)).message
            except (ModelError, AnswerError):  # the score is complete; only the last message is lost
                self._log.count("lost farewells")
        elif last:
            stop = "turn_limit"
        else:
            speech = await answered("user", sage.user.speak(view, feeling, self._log))
            message = speech.message
            leaves = sage.options.preset == "released" and says_goodbye(message)
            stop = "goodbye" if leaves else "cut" if speech.cut else None
        if message:
            self._messages.append(message)
        change = {"emotion": after - before}
        return UserTurn(message or None, {"emotion": after}, change, dict(feeling.thoughts), dict(feeling.evidence), stop)

    def outcome(self) -> Outcome:
        """Final emotion in [0, 100]; one reward per judged turn, (e_t - e_{t-1})/10 (RLVER turn reward); the emotions."""
        rewards = tuple(map(float, turn_rewards(self._emotions)))
        return Outcome(self._emotions[-1], rewards, tuple({"emotion": e} for e in self._emotions))

    def _view(self) -> SageView:
        messages, replies = tuple(self._messages), tuple(self._replies)
        options, felt = self._environment.options, tuple(self._felt)
        return SageView(self._scenario, messages, replies, self._emotions[-1], self._seed, options, felt)


def _emotions(transcript: Transcript) -> list[float]:
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [state["emotion"] for state in states if "emotion" in state]


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    summary = summarise([points for _, points in dialogues], success_at=success_at, failure_below=failure_below)
    return Sums(summary.mean, summary.success, summary.failure)


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=100.0,
    start=START,
    success_at=SUCCESS_AT,
    failure_below=FAILURE_BELOW,
    sums=_sums,
    group="intention",
    group_title="hidden intention",
    group_order=tuple(INTENTIONS),
    course=_emotions,
    rules=lambda transcript: tuple(sorted(transcript.start.items())),
    title="final emotion",
    now="emotion",
    of="Final emotion, 0 to 100",
    zones=(
        Zone("S", "s", 100, 100),
        Zone("A", "a", 70, 100),
        Zone("B", "b", 40, 70),
        Zone("C", "c", 10, 40),
        Zone("F", "f", 0, 10),
    ),
    ticks=(0, 40, 70, 100),
    change_limit=CHANGE_LIMIT,
)


def _returns(transcript: Transcript, options: SageOptions) -> Returns:
    """RLVER's rewards (sections 2.1 and H.1): the final emotion over 100, and a turn's change over 10; both are lowest at 0."""
    worst = -transcript.start["emotion"] / TURN_SCALE
    return Returns(outcome_reward(score_of(transcript)), rewards_by_turn(transcript), worst_outcome=0.0, worst_turns=worst)


SPEC = EnvironmentSpec(
    name="sage",
    title="SAGE",
    about="A user simulator whose emotion, 0 to 100, changes after every reply; the score is the final emotion.",
    source="SAGE (Sentient Agent as a Judge); training as in RLVER",
    roles=(Role("user", "plays the user and judges every reply"),),
    options=SageOptions,
    scale=SCALE,
    scenarios="heartloop.environments.sage.scenario:SCENARIOS",
    environment=Sage,
    embedded="heartloop.environments.sage.users:SageEmbeddedUser",
    simulator="heartloop.environments.sage.users:SageLLMUser",
    report="heartloop.environments.sage.report:PANEL",
    reading="heartloop.environments.sage.users:READING",
    stored="heartloop.environments.sage.stored:STORED",
    demo=DemoRun("general", 24, place=1),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=55.1, repeat=8.1, turns=10, tokens=3_964),
    training=Training(
        _returns, calls_per_turn=2, tokens_per_call=3300
    ),  # ours: shipped scenarios, eight turns, four characters a token
    rankings={"Chatbot Arena": "heartloop.environments.sage.report:arena"},
    importers={
        "sage-profiles": "heartloop.environments.sage.importers:PROFILES",
        "sage-logs": "heartloop.environments.sage.importers:LOGS",
    },
    writing={"write": "heartloop.environments.sage.writing:SageWriting"},
)
