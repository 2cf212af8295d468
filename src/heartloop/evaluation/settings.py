"""Everything that decides a run, resolved before the first call, and its hash.

Covers which dialogues a run consists of. Does not cover how fast or how dear it may be (connections,
timeouts, budget): those change no transcript and are not part of the hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import heartloop
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.catalogue import Person as AnyPerson
from heartloop.environments.catalogue import stratified
from heartloop.environments.episode import Environment

__all__ = ["EvaluationSettings", "Job", "Shard", "dialogue_seed", "prompts_of", "read_samplings", "stratified"]


Person = TypeVar("Person", bound=AnyPerson)


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

    def of(self, scenarios: Sequence[Person]) -> list[Person]:
        """This part of a list: every `count`-th, so that a stratified list stays so."""
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
        """The key its transcript will have."""
        return (self.model, self.scenario, self.repeat)


_NOT_DECISIVE = {"heartloop_version", "prices"}  # they change no transcript


class EvaluationSettings(BaseModel):
    """A resolved run. `scenarios` maps every scenario of the run to its fingerprint, in playing order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    models: tuple[str, ...] = Field(min_length=1)
    user: str
    """`llm` or `embedded`."""
    simulator: str
    """The simulator's model name, or `embedded`."""
    preset: str
    variant: str
    scenario_set: str
    scenarios: Mapping[str, str]
    exclude_tags: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None
    repeats: int = Field(default=1, ge=1)
    seed: int = 0
    sampling: Mapping[str, Sampling] = Field(default_factory=dict)
    """By role: policy, simulator."""
    max_turns: int = Field(ge=1)
    relation_weight: float | None = None
    """The outcome's lambda, in [0, 1]; `None` where the score has none."""
    window: int | None = Field(default=None, ge=2)
    """EMPA: policy replies between two judgements; `None` is after each."""
    bystander_weight: float | None = None
    """PERM: weight of the bystander in the reward, at least 0; `None` where nobody stands by."""
    without: tuple[str, ...] = ()
    """PERM: parts left out of the reward."""
    prompts: Mapping[str, str] = Field(default_factory=dict)
    weights: Mapping[str, str] = Field(default_factory=dict)
    """Hashes of the checkpoints under test, by model name: one that was trained on is another model."""
    prices: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """The user's prices per million tokens, for the report's cost; no part of the hash."""
    heartloop_version: str = Field(default_factory=lambda: heartloop.__version__)

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of everything above except version, prices and what this run has none of."""
        sparse = ("relation_weight", "weights", "window", "bystander_weight", "without")
        absent = {name for name in sparse if getattr(self, name) in (None, {}, ())}
        body = self.model_dump(mode="json", exclude=_NOT_DECISIVE | absent)
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def jobs(self) -> list[Job]:
        """Every dialogue of the run: scenario by scenario, so that models stay comparable when a run is cut short."""
        return [
            Job(model=model, scenario=scenario, repeat=repeat, seed=dialogue_seed(self.seed, scenario, repeat))
            for repeat in range(self.repeats)
            for scenario in self.scenarios
            for model in self.models
        ]

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Names of the settings in which a saved run differs, version and prices left aside.

        A run that was rescored or rejudged differs in that from any run that is played.
        """
        mine = self.model_dump(mode="json", exclude=_NOT_DECISIVE)
        made = [name for name in ("rescored", "rejudged") if name in other and name not in mine]
        other = {"weights": {}, "without": [], **other}  # runs from before there were checkpoints, or parts, name none
        return sorted([*(name for name in mine if mine[name] != other.get(name)), *made])


def dialogue_seed(seed: int, scenario: str, repeat: int) -> int:
    """A seed in [0, 2^31) for one dialogue: the same for every model, so that all meet the same person."""
    return int(hashlib.sha256(f"{seed}|{scenario}|{repeat}".encode()).hexdigest()[:8], 16) >> 1


def read_samplings(texts: Sequence[str], *, roles: Sequence[str]) -> dict[str, Sampling]:
    """`role.setting=value` texts as sampling settings by role.

    Raises:
        UseError: another form, role or setting, or a value out of range.
    """
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        role, dot, setting = name.partition(".")
        if not (equals and dot) or role not in roles or setting not in Sampling.model_fields:
            raise UseError(
                f"--sampling is {text!r}; expected role.setting=value with role {' or '.join(roles)} "
                f"and setting {', '.join(Sampling.model_fields)}"
            )
        found.setdefault(role, {})[setting] = value
    try:
        return {role: Sampling.model_validate(values) for role, values in found.items()}
    except ValidationError as error:
        first = error.errors()[0]
        raise UseError(f"--sampling {first['loc'][0]}={first['input']}: {first['msg']}") from error


def prompts_of(environment: Environment) -> dict[str, str]:
    """Prompt hashes of an environment, by name.

    Raises:
        UseError: the environment has no scenario, for example because a shard of a short list is empty.
    """
    if not environment.scenario_ids:
        raise UseError("no scenario is left to play; exclude fewer tags, raise --limit, or use fewer shards")
    return dict(environment.describe(environment.scenario_ids[0])["prompts"])
