"""The SAGE environment: rules of the dialogue (SAGE sections 2.1 to 2.2, App. E).

Covers state update, stop conditions, presets and score. The user simulator is `LLMUser` or `EmbeddedUser`. For training as in
RLVER, the start emotion, the emotion at which the user leaves, and the form of the policy prompt are options.

Presets. `corrected` (default, ours): every policy reply is judged, including the last; a change outside ±10 is re-asked; the user
ends the dialogue by deciding to. `released`: as the authors' code computes it: the tenth reply of a dialogue that reaches the
turn limit is not judged (half of the published dialogues); a change outside ±10 is clamped and counted; any "goodbye" or "bye" in
the user's message ends the dialogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import StopReason
from heartloop.core.errors import AnswerError, InputError, ModelError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.sage.options import VARIANTS, SageOptions
from heartloop.environments.sage.released import AnyScenario
from heartloop.environments.sage.scenario import Scenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT, Band, band, step
from heartloop.environments.spec import Player
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
    """Whether a message of the user ends the dialogue under preset `released`.

    >>> says_goodbye("I see. Good-bye then."), says_goodbye("That was bygone.")
    (True, False)
    """
    return bool(_GOODBYE.search(message))


class View(NamedTuple):
    """The dialogue as the user simulator sees it after a reply. `said` and `heard` alternate, starting with `said`."""

    scenario: AnyScenario
    said: tuple[str, ...]
    """The user's messages, including the first."""
    heard: tuple[str, ...]
    """The policy's replies, including the latest; an empty string is silence."""
    emotion: float
    """In [0, 100]: before the reply in `feel`, after it in `speak`."""
    lifted: int
    """Number of replies that raised the emotion."""
    turn: int
    seed: int
    preset: str
    variant: str
    leaves_at: float | None = None
    """As in `SageOptions`."""

    @property
    def manner(self) -> Band:
        """The band that sets the user's manner; F only if the user leaves."""
        own = band(self.emotion)
        leaves = own == "F" if self.leaves_at is None else self.emotion <= self.leaves_at
        return "F" if leaves else "C" if own == "F" else own

    @property
    def written(self) -> Scenario:
        """The scenario, which must have written lines.

        Raises:
            InputError: an imported scenario, or one in the short form, which have none.
        """
        if not isinstance(self.scenario, Scenario):
            raise InputError(f"scenario {self.scenario.id!r} has no written lines; expected a scenario of this project's form")
        return self.scenario


class Feeling(NamedTuple):
    """The user simulator's appraisal of a reply. `change` in emotion points; the four texts are the input of `speak`."""

    change: float
    content: str
    fit: str
    activity: str
    feeling: str
    evidence: Mapping[str, Any] = {}


class Speech(NamedTuple):
    """The user's next message, and whether it ends the dialogue."""

    message: str
    """Empty if a stored dialogue has no further message."""
    leaves: bool = False
    cut: bool = False
    """Whether a stored dialogue ends here, with no further reply."""


class SageUser(Player, Protocol):
    """The user simulator: appraises a reply, then answers it."""

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        """`models`, `sampling` and `prompts` of its roles, in this variant."""
        ...

    async def feel(self, view: View, log: CallLog) -> Feeling:
        """Appraises the latest reply. The change may be outside ±10."""
        ...

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        """Answers the latest reply, with the emotion after it."""
        ...


class Sage(BaseEnvironment[AnyScenario, SageUser, SageOptions]):
    """SAGE over a list of scenarios, with one user simulator."""

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
        players = self.user.describe(self.variant)
        return self.described(scenario_id, players, facts=facts, prompts={self.policy.name: self.policy.hash})


class SageEpisode(LoggedEpisode[Sage, AnyScenario]):
    """One dialogue with one scenario."""

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
            except (ModelError, AnswerError):  # the score is complete; only the last message is lost
                self._log.count("lost farewells")
        if message is not None:
            self._said.append(message)
        thoughts = {"content": feeling.content, "fit": feeling.fit, "activity": feeling.activity, "feeling": feeling.feeling}
        return UserTurn(message, {"emotion": after}, {"emotion": after - before}, thoughts, dict(feeling.evidence), stop)

    def outcome(self) -> Outcome:
        """Final emotion in [0, 100]; one reward per judged turn, (e_t - e_{t-1})/10 (RLVER turn reward); the emotions."""
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
