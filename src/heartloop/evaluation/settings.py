"""The settings of a run, resolved before the first call, and their hash.

Covers the dialogues of a run. Does not cover concurrency, timeouts and budget: they change no transcript and are not in the hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

import heartloop
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.episode import own_prompt
from heartloop.environments.registry import stratified
from heartloop.environments.spec import Ready
from heartloop.environments.spec import Scenario as AnyScenario

__all__ = ["EvaluationSettings", "Job", "Shard", "dialogue_seed", "prompts_of", "settings_of", "stratified"]


Scenario = TypeVar("Scenario", bound=AnyScenario)


class Shard(BaseModel):
    """Part `index` of `count`, counted from 1."""

    model_config = ConfigDict(frozen=True)
    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `i/n`.

        Raises:
            UseError: not two whole numbers with 1 <= i <= n.
        """
        index, slash, count = text.partition("/")
        if not slash or not index.isdecimal() or not count.isdecimal() or not 1 <= int(index) <= int(count):
            raise UseError(f"--shard is {text!r}; expected i/n with 1 <= i <= n, for example 2/8")
        return cls(index=int(index), count=int(count))

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """`i/n` as the two fields; other values are unchanged."""
        return cls.parse(value).model_dump() if isinstance(value, str) else value

    def of(self, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """This part of a list: every `count`-th element, which keeps the list stratified."""
        return list(scenarios[self.index - 1 :: self.count])


class Job(BaseModel):
    """One dialogue to play."""

    model_config = ConfigDict(frozen=True)
    model: str
    scenario: str
    repeat: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Key of its transcript: model, scenario, repeat."""
        return (self.model, self.scenario, self.repeat)


_NOT_DECISIVE = {"heartloop_version", "prices", "scenario_ids", "tags"}  # they change no transcript, or `scenarios` shows them


class EvaluationSettings(BaseModel):
    """The settings of a run. `scenarios` maps the id of every scenario to its fingerprint, in playing order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    models: tuple[str, ...] = Field(min_length=1)
    roles: Mapping[str, str]
    """By role, without the policy: a model's name, or `embedded`."""
    options: Mapping[str, Any]
    """Every option of the environment, by name."""
    scenario_set: str
    scenarios: Mapping[str, str]
    scenario_ids: tuple[str, ...] = ()
    """Those that were asked for by id, for the command that repeats the run; not in the hash, as `scenarios` is."""
    tags: tuple[str, ...] = ()
    """Scenarios were to have one of these; not in the hash."""
    exclude_tags: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None
    repeats: int = Field(default=1, ge=1)
    seed: int = 0
    sampling: Mapping[str, Sampling] = Field(default_factory=dict)
    """Sampling settings by role, `policy` included."""
    prompts: Mapping[str, str] = Field(default_factory=dict)
    policy_prompt: str | None = Field(default=None, min_length=1)
    """System prompt of the policy in place of the environment's; written only where it is set."""
    weights: Mapping[str, str] = Field(default_factory=dict)
    """Hashes of checkpoints, local models and Python functions, by model name."""
    prices: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """Prices per million tokens by model, for the cost in the report; not in the hash."""
    heartloop_version: str = Field(default_factory=lambda: heartloop.__version__)

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of all settings that decide dialogues."""
        body = self.model_dump(mode="json", exclude=_NOT_DECISIVE)
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:10]

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a policy prompt as in runs before there was that setting, so that their hashes stay."""
        return {name: value for name, value in handler(self).items() if name != "policy_prompt" or value is not None}

    @property
    def jobs(self) -> list[Job]:
        """Every dialogue of the run, scenario by scenario, so that models stay comparable if the run stops early."""
        return [
            Job(model=model, scenario=scenario, repeat=repeat, seed=dialogue_seed(self.seed, scenario, repeat))
            for repeat in range(self.repeats)
            for scenario in self.scenarios
            for model in self.models
        ]

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Names of the settings that differ from a saved run, except version and prices; options and roles one by one.

        `rescored` and `rejudged` differ if only the saved run has them.
        """
        mine = self.model_dump(mode="json", exclude=_NOT_DECISIVE)
        if "policy_prompt" in other:
            mine.setdefault("policy_prompt", None)
        derived = [name for name in ("rescored", "rejudged") if name in other and name not in mine]
        names: list[str] = []
        for name in mine:
            if mine[name] != other.get(name):
                names += _parts(name, mine[name], other.get(name)) if name in ("options", "roles") else [name]
        return sorted([*names, *derived])


def _parts(name: str, mine: Mapping[str, Any], other: object) -> list[str]:
    """Names of the entries that differ between two mappings."""
    if not isinstance(other, Mapping):
        return [name]
    return [f"{name}.{key}" for key in {**mine, **other} if mine.get(key) != other.get(key)]


def dialogue_seed(seed: int, scenario: str, repeat: int) -> int:
    """A seed in [0, 2^31) for one dialogue; the same for every model, so that they are compared on equal terms."""
    return int(hashlib.sha256(f"{seed}|{scenario}|{repeat}".encode()).hexdigest()[:8], 16) >> 1


def settings_of(
    environment: Ready, models: Sequence[str], *, roles: Mapping[str, str], scenario_set: str, **more: Any
) -> EvaluationSettings:
    """The settings of a run of an environment with models.

    Args:
        roles: a model's name or `embedded`, by role.
        more: further fields of `EvaluationSettings`.
    """
    prompts = prompts_of(environment)
    return EvaluationSettings(
        environment=environment.name,
        models=tuple(models),
        roles=dict(roles),
        options=environment.options.model_dump(mode="json"),
        scenario_set=scenario_set,
        scenarios={scenario.id: scenario.fingerprint for scenario in environment.scenarios.values()},
        prompts=prompts if (text := more.get("policy_prompt")) is None else own_prompt(prompts, text),
        **more,
    )


def prompts_of(environment: Ready) -> dict[str, str]:
    """Hashes of an environment's prompts, by name.

    Raises:
        UseError: no scenario, for example because the shard is empty.
    """
    if not environment.scenario_ids:
        raise UseError("no scenario to evaluate; exclude fewer tags, or use fewer shards")
    return dict(environment.describe(environment.scenario_ids[0])["prompts"])
