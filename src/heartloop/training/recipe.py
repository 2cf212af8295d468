"""A recipe: everything that decides a training run, in one YAML file, checked before anything starts.

Covers checks between the sections, the shipped recipes, variants, and overrides (`--set key=value`). Does not cover the sections'
own settings (`recipe_sections`), verl's settings (`verl_config`), nor the run (`launch`).

A comment in the file names the source of each number; what neither paper nor released code states is marked "ours".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from heartloop.core.chat import LOCAL_PREFIX
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import nearest
from heartloop.environments.sources import yaml_value
from heartloop.models.local import is_local
from heartloop.training.form_start import FormStartSettings
from heartloop.training.recipe_sections import (
    LAPTOP,
    Algorithm,
    Batch,
    Dialogue,
    EnvironmentSettings,
    Machine,
    Optimiser,
    Policy,
    ScenarioSets,
    Section,
    Watching,
)

__all__ = ["Recipe", "read_recipe", "recipe_names"]


class Recipe(Section):
    """One training run."""

    name: str
    """Name of the recipe, and part of the default run directory."""
    about: str
    """One sentence."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Random seed of the order of scenarios, the policy's sampling and the embedded user; `--seed` sets it, too."""
    environment: EnvironmentSettings
    scenarios: ScenarioSets
    dialogue: Dialogue = Dialogue()
    policy: Policy
    algorithm: Algorithm
    optimiser: Optimiser
    batch: Batch
    watching: Watching = Watching()
    machine: Machine = Machine()
    variants: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Named bundles of settings by dotted name: ablations, other models."""
    verl: Mapping[str, Any] = Field(default_factory=dict)
    """verl's own settings by dotted name; they override all others."""

    @field_validator("verl")
    @classmethod
    def _v1(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("trainer.use_v1", True) is not True:
            raise ValueError("trainer.use_v1 is false; verl's old trainer silently drops the rewards by turn, leave it on")
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        credit = "to_go" if self.algorithm.name == "ppo" else "group"
        if self.dialogue.credit != credit:
            raise ValueError(f"dialogue.credit is {self.dialogue.credit!r}; {self.algorithm.name} needs {credit!r}")
        longest = self.dialogue.reply_tokens
        if longest > self.policy.max_response:
            raise ValueError(f"policy.max_response is {self.policy.max_response}, less than dialogue.reply_tokens ({longest})")
        corpus = dict(self.policy.warm_start.get("corpus") or {})
        if self.policy.model == LAPTOP and ("answers" in corpus) != (self.environment.training.answer_form is not None):
            raise ValueError(
                f"policy.warm_start.corpus is {corpus}; a laptop policy learns from answers, as in {{answers: 4}}, where the "
                "environment has a form of answers, elsewhere from dialogues"
            )
        if self.policy.warm_start and self.policy.model != LAPTOP:
            if not is_local(self.policy.model) or self.environment.training.answer_form is None:
                raise ValueError(
                    f"policy.warm_start is for the policy {LAPTOP!r}, or for {LOCAL_PREFIX}... where the environment has a form "
                    f"of answers; leave it out for {self.policy.model!r} in {self.environment.name}"
                )
            try:
                FormStartSettings.model_validate(self.policy.warm_start)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(("policy.warm_start", *map(str, first["loc"])))
                raise ValueError(f"{where} is {first['input']!r}: {first['msg']}") from None
        if self.batch.tokens_per_device < self.policy.max_prompt + self.policy.max_response:
            longest = self.policy.max_prompt + self.policy.max_response
            raise ValueError(f"batch.tokens_per_device is {self.batch.tokens_per_device}; one sample can have {longest}")
        if self.algorithm.name != "ppo" and self.batch.rollouts < 2:
            raise ValueError(f"batch.rollouts is {self.batch.rollouts}; {self.algorithm.name} compares at least 2 of a scenario")
        return self

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of what decides the result: all but `about`, `watching`, `machine`, `variants`."""
        return hashlib.sha256(json.dumps(self.decisive(), sort_keys=True).encode()).hexdigest()[:10]

    def decisive(self) -> dict[str, Any]:
        """The settings that may not change when a run is resumed."""
        return self.model_dump(mode="json", exclude={"about", "watching", "machine", "variants"})


def recipe_names() -> list[str]:
    """Names of the shipped recipes."""
    folder = resources.files("heartloop.training") / "recipes"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def read_recipe(name: str, *, variants: Sequence[str] = (), settings: Sequence[str] = (), seed: int | None = None) -> Recipe:
    """A shipped recipe by name, or a recipe file.

    Args:
        variants: names in the recipe's `variants`, applied in order.
        settings: `key=value` texts, the value in YAML; applied after the variants.
        seed: overrides the recipe's.

    Raises:
        UseError: an unknown recipe, variant or setting, or an option that does not fit; names the nearest.
        InputError: a file that is not a recipe, or a value that does not fit.
    """
    path = Path(name)
    if name in recipe_names():
        text = (resources.files("heartloop.training") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    elif path.suffix in (".yaml", ".yml"):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {path}: {error}; expected a recipe in YAML") from error
    else:
        raise UseError(
            f"unknown recipe {name!r}{nearest(name, recipe_names(), cutoff=0.6)}; "
            f"expected {', '.join(recipe_names())}, or a YAML file"
        )
    try:
        given = yaml_value(text)
    except ValueError as error:
        raise InputError(f"{name} is no YAML: {error}") from error
    if not isinstance(given, dict):
        raise InputError(f"{name} holds {type(given).__name__}; expected a recipe, a mapping of sections")
    recipe = _validated(given, name)
    changes: dict[str, Any] = {}
    for variant in variants:
        if variant not in recipe.variants:
            known = ", ".join(recipe.variants) or "none"
            raise UseError(
                f"{recipe.name} has no variant {variant!r}{nearest(variant, recipe.variants, cutoff=0.6)}; it has {known}"
            )
        changes.update(recipe.variants[variant])
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UseError(f"--set is {setting!r}; expected key=value, for example batch.steps=20")
        try:
            changes[key.strip()] = yaml_value(value)
        except ValueError as error:
            raise UseError(f"--set {key}: {value!r} is no YAML value") from error
    if seed is not None:
        changes["seed"] = seed
    for key, value in changes.items():
        _put(given, key, value)
    return _validated(given, name) if changes else recipe


def _put(given: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted name; what follows `verl.` is one name, dots included.

    Raises:
        UseError: an unknown setting.
    """
    parts = key.split(".", 1) if key.startswith("verl.") else key.split(".")
    names = list(_names(Recipe))
    if not any(key == name or key.startswith(f"{name}.") for name in names) and parts[0] != "verl":
        raise UseError(f"no setting {key!r}{nearest(key, names, cutoff=0.6)}; docs/recipe-settings.md lists them")
    at = given
    for part in parts[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise UseError(f"no setting {key!r}: {part} is a value, not a section")
    at[parts[-1]] = value


def _names(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Dotted names of all settings."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _names(kind, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def _validated(given: Mapping[str, Any], name: str) -> Recipe:
    try:
        return Recipe.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            hint = nearest(where, [*_names(Recipe), *Recipe.model_fields], cutoff=0.6)
            raise InputError(f"{name}: no setting {where!r}{hint}; remove or rename it") from error
        if first["type"] == "missing":
            raise InputError(f"{name}: {where} is missing; write it into the recipe, or --set {where}=...") from error
        message = first["msg"].removeprefix("Value error, ")
        shown = "" if isinstance(first["input"], Mapping) or first["type"] == "value_error" else f" is {first['input']!r}"
        raise InputError(f"{name}: {where or 'the recipe'}{shown}: {message.replace('Input should', 'it should')}") from error
