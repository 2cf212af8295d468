"""The SAGE environment: rules of the dialogue, whoever plays the user (SAGE sections 2.1 to 2.2, App. E).

Covers state update, ends, presets and score. The user is one of two: `LLMUser` or `EmbeddedUser`. For training as RLVER does,
the start, the mood at which the person leaves, and the form of the policy prompt are settings, too.

Presets. `corrected` (default, ours): every policy reply is judged, the last one too; a change outside ±10 is
asked again; the person ends the talk by deciding to. `released`: as the authors' code computes it: the
tenth reply of a dialogue that reaches the turn limit is left unjudged (half of the published dialogues); a
change outside ±10 is clamped and counted; any "goodbye" or "bye" in the person's answer ends the talk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import StopReason
from heartloop.core.errors import AnswerError, InputError, ModelError
from heartloop.core.prompts import load_prompt
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.sage.options import VARIANTS, SageOptions
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.scenario import Scenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT, Band, band, step
from heartloop.environments.spec import Player
from heartloop.environments.staging import LoggedEpisode, Staged, answered
from heartloop.scoring.credit import turn_rewards

__all__ = [
    "Feeling",
    "Sage",
    "SageEpisode",
    "SageUser",
    "Speech",
    "View",
    "says_goodbye",
]

_GOODBYE = re.compile(r"\b(good-?bye|bye(-bye)?)\b|再见|拜拜", re.IGNORECASE)


def says_goodbye(message: str) -> bool:
    """Whether words of the person end the talk under `released`.

    >>> says_goodbye("I see. Good-bye then."), says_goodbye("That was bygone.")
    (True, False)
    """
    return bool(_GOODBYE.search(message))


class View(NamedTuple):
    """What the user knows when a reply arrives. `said` and `heard` alternate, the person first."""

    scenario: AnyScenario
    said: tuple[str, ...]
    """The person's own messages so far, first message included."""
    heard: tuple[str, ...]
    """The policy's replies so far, the latest included; the empty string is silence."""
    emotion: float
    """In `feel` the mood before the reply, in `speak` after it."""
    lifted: int
    """Replies so far that lifted the mood."""
    turn: int
    seed: int
    preset: str
    variant: str
    leaves_at: float | None = None
    """As in `SageOptions`."""

    @property
    def manner(self) -> Band:
        """The band in whose manner the person speaks: F only where they leave."""
        own = band(self.emotion)
        leaves = own == "F" if self.leaves_at is None else self.emotion <= self.leaves_at
        return "F" if leaves else "C" if own == "F" else own

    @property
    def written(self) -> Scenario:
        """The scenario with its written lines.

        Raises:
            InputError: it is a released person, who has none.
        """
        if isinstance(self.scenario, ReleasedScenario):
            raise InputError(f"scenario {self.scenario.id!r} has no written lines; expected one of our own form")
        return self.scenario


class Feeling(NamedTuple):
    """What a reply did to the person. The four texts are the planning handed to `speak`."""

    change: float
    content: str
    fit: str
    activity: str
    feeling: str
    evidence: Mapping[str, Any] = {}


class Speech(NamedTuple):
    """What the person answers, and whether they end the talk with it."""

    message: str
    """Empty where a stored dialogue holds no answer."""
    leaves: bool = False
    cut: bool = False
    """Whether a stored dialogue goes no further than this."""


class SageUser(Player, Protocol):
    """The person: appraises a reply, then answers it."""

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        """`models`, `sampling` and `prompts` of the roles it plays, in this variant."""
        ...

    async def feel(self, view: View, log: CallLog) -> Feeling:
        """How the latest reply lands. The change need not be clamped."""
        ...

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        """The answer to the latest reply, in the mood after it."""
        ...


class Sage(Staged[AnyScenario, SageUser, SageOptions]):
    """SAGE over a list of scenarios, with one kind of user."""

    name = "sage"
    options_type = SageOptions

    def __init__(self, scenarios: Sequence[AnyScenario], user: SageUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        form = self.options.form
        self.policy = load_prompt(__package__, "policy" if form == "plain" else f"policy_{form}")

    def begin(self, scenario_id: str, *, seed: int = 0) -> SageEpisode:
        return SageEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "family": scenario.family,
            "intention": scenario.intention,
            "intention_text": scenario.intention_text,
            "theme": scenario.theme,
            "title": scenario.title,
            "person": scenario.person,
            "place": scenario.place,
            "tags": " ".join(scenario.tags),
            **({} if self.options.leaves_at is None else {"leaves_at": f"{self.options.leaves_at:g}"}),
        }
        told = self.user.describe(self.variant)
        return self.described(scenario_id, told, facts=facts, prompts={self.policy.name: self.policy.hash})


class SageEpisode(LoggedEpisode[Sage, AnyScenario]):
    """One person for one dialogue."""

    def __init__(self, environment: Sage, scenario: AnyScenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._said: list[str] = []
        self._heard: list[str] = []
        self._emotions = [float(environment.options.start)]

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.text

    async def open(self) -> str:
        self._said.append(self._scenario.first_message)
        return self._scenario.first_message

    async def step(self, reply: str) -> UserTurn:
        sage = self._environment
        self._heard.append(reply)
        last = len(self._heard) >= sage.max_turns
        if last and sage.preset == "released":
            return UserTurn(None, None, None, {}, {}, "turn_limit")
        feeling = await answered("user", sage.user.feel(self._view(), self._log))
        before = self._emotions[-1]
        after = step(before, feeling.change)
        if abs(feeling.change) > CHANGE_LIMIT:
            self._log.count("clamped changes")
        self._emotions.append(after)
        stop: StopReason | None = {"S": "success", "F": "failure"}.get(self._view().manner)  # type: ignore[assignment]
        message: str | None = None
        if stop is None and last:
            stop = "turn_limit"
        elif stop is None:
            speech = await answered("user", sage.user.speak(self._view(), feeling, self._log))
            message = speech.message or None
            said_goodbye = says_goodbye(speech.message) if sage.preset == "released" else speech.leaves
            stop = "goodbye" if said_goodbye else "cut" if speech.cut else None
        else:
            try:
                message = (await sage.user.speak(self._view(), feeling, self._log)).message or None
            except (ModelError, AnswerError):  # the measurement is complete; only the parting words are lost
                self._log.count("lost farewells")
        if message is not None:
            self._said.append(message)
        thoughts = {"content": feeling.content, "fit": feeling.fit, "activity": feeling.activity, "feeling": feeling.feeling}
        return UserTurn(message, {"emotion": after}, {"emotion": after - before}, thoughts, dict(feeling.evidence), stop)

    def outcome(self) -> Outcome:
        """Final emotion in [0, 100]; a reward per judged turn, (e_t - e_{t-1})/10 (RLVER turn reward); the emotions."""
        rewards = tuple(map(float, turn_rewards(self._emotions)))
        return Outcome(self._emotions[-1], rewards, tuple({"emotion": e} for e in self._emotions))

    def _view(self) -> View:
        lifted = sum(after > before for before, after in pairwise(self._emotions))
        return View(
            self._scenario,
            tuple(self._said),
            tuple(self._heard),
            self._emotions[-1],
            lifted,
            len(self._heard) - 1,
            self._seed,
            self._environment.preset,
            self._environment.variant,
            self._environment.options.leaves_at,
        )
