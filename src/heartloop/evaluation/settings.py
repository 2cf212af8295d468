"""The settings of a run, without what changes no transcript, such as concurrency; their hash, and files that name them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_serializer, model_validator
from pydantic_core import from_json

import heartloop
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import readable
from heartloop.core.text import amount
from heartloop.environments.episode import own_prompt
from heartloop.environments.records import Problem, Source, is_yaml, plain, sources
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Ready
from heartloop.environments.spec import Scenario as AnyScenario
from heartloop.models.budget import Price

_ScenarioT = TypeVar("_ScenarioT", bound=AnyScenario)
_NOT_DECISIVE = {"heartloop_version", "prices", "scenario_ids", "tags"}  # they change no transcript, or `scenarios` shows them


class Shard(BaseModel):
    """Part `index` of `count`, counted from 1."""

    model_config = ConfigDict(frozen=True)
    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        index, slash, count = text.partition("/")
        if not slash or not index.isdecimal() or not count.isdecimal() or not 1 <= int(index) <= int(count):
            raise UseError(f"--shard is {text!r}; expected i/n with 1 <= i <= n, for example 2/8")
        return cls(index=int(index), count=int(count))

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return cls.parse(value).model_dump() if isinstance(value, str) else value

    def of(self, scenarios: Sequence[_ScenarioT]) -> list[_ScenarioT]:
        """This part of a list: every `count`-th element, which keeps the list stratified."""
        return list(scenarios[self.index - 1 :: self.count])


class Job(NamedTuple):
    model: str
    scenario: str
    repeat: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.model, self.scenario, self.repeat)


class EvaluationSettings(BaseModel):
    """The settings of a run. `scenarios` maps the id of every scenario to its fingerprint, in playing order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    models: tuple[str, ...] = Field(min_length=1)
    roles: Mapping[str, str]
    """By role, without the policy: a model's name, or `embedded`."""
    options: Mapping[str, Any]
    scenario_set: str
    scenarios: Mapping[str, str]
    scenario_ids: tuple[str, ...] = ()
    """Requested ids, for the command that repeats the run; not in the hash, as `scenarios` is."""
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None
    repeats: int = Field(default=1, ge=1)
    seed: int = 0
    sampling: Mapping[str, Sampling] = Field(default_factory=dict)
    prompts: Mapping[str, str] = Field(default_factory=dict)
    policy_prompt: str | None = Field(default=None, min_length=1)
    """System prompt of the policy in place of the environment's; written only if it is set."""
    weights: Mapping[str, str] = Field(default_factory=dict)
    prices: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    heartloop_version: str = Field(default_factory=lambda: heartloop.__version__)

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of all settings that decide dialogues."""
        body = self.model_dump(mode="json", exclude=_NOT_DECISIVE)
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:10]

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
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
        """Names of the settings that differ from a saved run, without `_NOT_DECISIVE` ones; options, roles, and weights of the
        same models, one by one. An option that one side lacks, made before the environment had it, counts as its default."""
        mine = self.model_dump(mode="json", exclude=_NOT_DECISIVE)
        if "policy_prompt" in other:
            mine.setdefault("policy_prompt", None)
        names = [name for name in ("rescored", "rejudged") if name in other and name not in mine]
        for name, value in mine.items():
            saved = other.get(name)
            by_key = name in ("options", "roles") or (name == "weights" and saved and value.keys() == saved.keys())
            if value != saved and by_key and isinstance(saved, Mapping):
                if name == "options" and value.keys() != saved.keys():
                    known = load_environment(self.environment).read_options({}).model_dump(mode="json")
                    value, saved = {**known, **value}, {**known, **saved}
                names += [f"{name}.{key}" for key in {**value, **saved} if value.get(key) != saved.get(key)]
            elif value != saved:
                names.append(name)
        return sorted(names)


def dialogue_seed(seed: int, scenario: str, repeat: int) -> int:
    """A seed in [0, 2^31) for one dialogue; the same for every model, so that they are compared on equal terms."""
    return int(hashlib.sha256(f"{seed}|{scenario}|{repeat}".encode()).hexdigest()[:8], 16) >> 1


def settings_of(
    environment: Ready, models: Sequence[str], *, roles: Mapping[str, str], scenario_set: str, **more: Any
) -> EvaluationSettings:
    """The settings of a run of an environment with models; `more` are further fields of `EvaluationSettings`."""
    if not environment.scenario_ids:
        raise UseError("no scenario to evaluate; exclude fewer tags, or use fewer shards")
    prompts = dict(environment.describe(environment.scenario_ids[0])["prompts"])
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


class Config(NamedTuple):
    """What a file of `--config` holds."""

    path: Path
    source: Source
    values: dict[str, Any]

    def place(self, *keys: str | int) -> str:
        return f"{self.path}, line {self.source.line_of(keys)}" if self.source.lines else str(self.path)


def read_config(path: Path) -> Config:
    """A mapping in YAML (`.yaml`, `.yml`) or JSON."""
    form = "a mapping of the names of options, or the settings.json of a run"
    with readable(path, f"YAML or JSON, {form}"):
        source = Source(1, path.read_text(encoding="utf-8-sig"))
    if is_yaml(path):  # one record, with the lines of its keys
        records = list(sources(path, source.text))
        for record in records:
            if isinstance(record, Problem):
                raise InputError(f"{path}, {record}; correct that line")
        if len(records) != 1 or not isinstance(records[0], Source):
            raise InputError(f"{path} holds {amount(len(records), 'record')}; expected one, {form}")
        source = records[0]
    try:
        read = from_json(source.text, allow_inf_nan=False)  # rejects lone surrogates too
    except ValueError as error:
        raise InputError(f"cannot read {path}: {error}; expected JSON, or YAML in a file named .yaml") from error
    if not isinstance(read, dict):
        raise InputError(f"{path} holds {type(read).__name__}; expected {form}")
    return Config(path, source, read)


def is_of_run(config: Config) -> bool:
    """Whether a file holds the settings of a finished run, which names the version that played it."""
    return "heartloop_version" in config.values


def settings_in(config: Config) -> dict[str, Any]:
    """The settings of a finished run, validated, by name."""
    for name in ("rescored", "rejudged", "recipe"):
        if name in config.values:
            raise InputError(
                f"{config.path} is of a run that `heartloop eval` did not play ({name}); expected that of a played run"
            )
    try:
        settings = EvaluationSettings.model_validate(config.values)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{config.place(*first['loc'])}, {'.'.join(map(str, first['loc']))} {plain(first)}") from error
    return {name: value for name, value in settings if value is not None}


_ASKED = EvaluationSettings.model_fields.keys() - {"environment", "scenarios", "prompts", "weights", "heartloop_version"}


def arguments_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `plan_evaluation` that follow from settings, without `environment`."""
    asked = _ASKED - {"tags", "exclude_tags", "limit"} if settings.get("scenario_ids") else _ASKED  # ids replace other choices
    arguments = {name: value for name, value in settings.items() if name in asked}
    if "prices" in arguments:
        arguments["prices"] = {model: Price(**price) for model, price in arguments["prices"].items()}
    return arguments


def source_of(model: str) -> str:
    what = {"python": "function", "http": "file"}.get(model.partition(":")[0], "weights of")
    return f"{what} {model}"


def changed_since(settings: Mapping[str, Any], planned: EvaluationSettings) -> list[str]:
    """Differences in prompts, weights and scenarios between a finished run and the plan, each as a sentence."""
    changes: list[str] = []
    before, now = settings.get("prompts", {}), planned.prompts
    for key in sorted(key for key in before if key in now and before[key] != now[key]):
        changes.append(f"The prompt {key} is {now[key]} now, and was {before[key]} in that run.")
    before, now = settings.get("weights", {}), planned.weights
    for key in sorted(key for key in before if key in now and before[key] != now[key]):
        changes.append(f"The {source_of(key)} changed since that run.")
    before, now = settings.get("scenarios", {}), planned.scenarios
    if missing := [name for name in before if name not in now]:
        changes.append(f"{amount(len(missing), 'scenario')} of that run will not be played, such as {missing[0]}.")
    if other := [name for name in before if name in now and before[name] != now[name]]:
        changes.append(f"{amount(len(other), 'scenario')} changed since that run, such as {other[0]}.")
    return changes
