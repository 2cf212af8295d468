"""Base classes of environments, episodes and players."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Call, Message, Sampling
from heartloop.core.errors import AnswerError, InputError, ModelError
from heartloop.core.prompts import Prompt
from heartloop.environments.episode import CallLog, Episode, Outcome, RoleFailed
from heartloop.environments.options import Options


class Player(Protocol):
    """Plays an environment's roles; each environment extends this protocol."""

    @property
    def name(self) -> str: ...

    def describe(self) -> Mapping[str, Any]:
        """`models`, `sampling` and `prompts` of the roles it plays."""

    def admit(self, scenario: Any) -> None:
        """Raises `InputError` for a scenario that it cannot play; by default it plays all."""
        return


class Scenario(Protocol):
    """What an environment's scenarios have; `stratum` is the group by which `--limit` is stratified."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def stratum(self) -> str: ...

    @property
    def tags(self) -> Sequence[str]: ...

    @property
    def fingerprint(self) -> str: ...


AnyScenario = TypeVar("AnyScenario", bound=Scenario)
User = TypeVar("User", bound=Player)
EnvironmentT = TypeVar("EnvironmentT")
OptionsT = TypeVar("OptionsT", bound=Options)
Answer = TypeVar("Answer")


class EmbeddedPlayer(Player):
    """Base of players without a language model; `prompts` are hashes of what its answers depend on, such as learned weights."""

    name = EMBEDDED

    def __init__(self, roles: Sequence[str] = ("user",), prompts: Mapping[str, str] | None = None) -> None:
        self._described = {"models": dict.fromkeys(roles, self.name), "prompts": dict(prompts or {})}

    def describe(self) -> Mapping[str, Any]:
        return self._described


class RoleModel(Player):
    """A model that plays one role; the seed of `sampling`, or else the dialogue's, is advanced from call to call."""

    prompts: ClassVar[Mapping[str, Prompt]] = {}

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "user") -> None:
        self._model = model
        self._role = role
        self._sampling = sampling or Sampling()
        self._system_prompts = SystemPrompts()

    @property
    def name(self) -> str:
        return self._model.name

    def describe(self) -> Mapping[str, Any]:
        return {
            "models": {self._role: self._model.name},
            "sampling": {self._role: self._sampling},
            "prompts": {name: prompt.hash for name, prompt in self.prompts.items()},
        }


class SystemPrompts:
    """A cache by name and scenario id; hashing a whole scenario in every turn would be slow."""

    _CAPACITY = 4096  # about 6 KB each

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str], tuple[object, Message]] = {}

    def of(self, scenario: Scenario, name: str, text: Callable[[], str]) -> Message:
        entry = self._cache.get((name, scenario.id))
        if entry is None or entry[0] is not scenario:
            if len(self._cache) >= self._CAPACITY:
                self._cache.clear()
            entry = self._cache[name, scenario.id] = (scenario, Message(role="system", content=text()))
        return entry[1]


class BaseEnvironment(ABC, Generic[AnyScenario, User, OptionsT]):
    name: str
    options_type: type[OptionsT]

    def __init__(self, scenarios: Sequence[AnyScenario], user: User, **options: Any) -> None:
        self.scenarios: dict[str, AnyScenario] = {}
        for scenario in scenarios:
            if scenario.id in self.scenarios:
                raise InputError(f"scenario {scenario.id!r} was given twice; ids must differ")
            user.admit(scenario)
            self.scenarios[scenario.id] = scenario
        self.user = user
        self.options = self.options_type.read(options, environment=self.name)
        self._fingerprints: dict[str, str] = {}

    @property
    def scenario_ids(self) -> Sequence[str]:
        return tuple(self.scenarios)

    def scenario(self, scenario_id: str) -> AnyScenario:
        if scenario_id not in self.scenarios:
            raise InputError(f"no scenario {scenario_id!r} in this environment; expected one of its {len(self.scenarios)} ids")
        return self.scenarios[scenario_id]

    @abstractmethod
    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode: ...

    @abstractmethod
    def describe(self, scenario_id: str) -> Mapping[str, Any]: ...

    def described(
        self, scenario_id: str, players: Mapping[str, Any], *, facts: Mapping[str, str], prompts: Mapping[str, str]
    ) -> dict[str, Any]:
        """The `Transcript` fields that an environment sets: `players` as `Player.describe`, hashes of the policy's `prompts`."""
        if scenario_id not in self._fingerprints:
            self._fingerprints[scenario_id] = self.scenarios[scenario_id].fingerprint
        return {
            "fingerprint": self._fingerprints[scenario_id],
            "preset": self.options.preset,
            "variant": self.options.variant,
            "user": self.user.name,
            "facts": dict(facts),
            "models": players.get("models", {}),
            "sampling": players.get("sampling", {}),
            "prompts": {**prompts, **players.get("prompts", {})},
        }


class LoggedEpisode(Generic[EnvironmentT, AnyScenario]):
    """Base of episodes. One that is judged once, at its end, sets `_score`; others have an `outcome` of their own."""

    _score: float | None = None

    def __init__(self, environment: EnvironmentT, scenario: AnyScenario, seed: int) -> None:
        self._environment = environment
        self._scenario = scenario
        self._seed = seed
        self._log = CallLog()

    def outcome(self) -> Outcome:
        """The score, which is also the only reward; the states are empty."""
        return Outcome(None, (), ({},)) if self._score is None else Outcome(self._score, (self._score,), ({}, {}))

    @property
    def calls(self) -> Sequence[Call]:
        return tuple(self._log.calls)

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self._log.counts)


async def answered(role: str, answer: Awaitable[Answer]) -> Answer:
    try:
        return await answer
    except (ModelError, AnswerError) as error:
        raise RoleFailed(role, error) from error
