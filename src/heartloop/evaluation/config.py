"""A file that names the settings of a run: `heartloop eval --config run.yaml`.

Covers reading YAML or JSON with the keys of `settings.json`, the arguments of `planning.plan_evaluation` that follow from them,
and what differs today from a finished run whose `settings.json` was given. Does not cover which option of a command wins over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import from_json

from heartloop.core.errors import InputError
from heartloop.core.text import amount, nearest
from heartloop.environments.records import Problem, Source, is_yaml, plain, sources
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.models.budget import Price

__all__ = ["arguments_of", "changed_since", "read_config"]

_ARGUMENTS = {
    "models": "models", "options": "options", "scenario_set": "scenarios", "scenario_ids": "scenario_ids", "tags": "tags",
    "exclude_tags": "exclude_tags", "limit": "limit", "repeats": "repeats", "seed": "seed", "sampling": "samplings",
    "policy_prompt": "policy_prompt",
}  # fmt: skip
"""Arguments of a plan by the setting that they are taken from as they are."""

_FIELDS: Any = {
    name: (Annotated[(field.annotation, Field(), *field.metadata)] | None, None)
    for name, field in EvaluationSettings.model_fields.items()
}
_Settings: type[BaseModel] = create_model("Settings", __config__=ConfigDict(frozen=True, extra="forbid"), **_FIELDS)
"""`EvaluationSettings`, any part of it."""


def read_config(path: Path) -> dict[str, Any]:
    """The settings that a file names, validated, by name: YAML (`.yaml`, `.yml`) or JSON.

    Raises:
        InputError: it cannot be read, is no mapping, has an unknown key, or a value is wrong; names the key, in YAML its line.
        UseError: `shard` is a text and no part.
    """
    source = _source(path)
    try:
        read = from_json(source.text, allow_inf_nan=False)  # rejects lone surrogates too
    except ValueError as error:
        raise InputError(f"cannot read {path}: {error}; expected JSON, or YAML in a file named .yaml") from error
    if not isinstance(read, dict):
        raise InputError(f"{path} holds {type(read).__name__}; expected a mapping with the keys of settings.json")
    known = EvaluationSettings.model_fields
    for name in read:
        if name in ("rescored", "rejudged", "recipe"):
            raise InputError(
                f"{path} is of a run that was not played by `heartloop eval` ({name}); expected that of a played run"
            )
        if name not in known:
            where = f"{path}, line {source.line_of((name,))}" if source.lines else path
            raise InputError(f"{where}: unknown key {name!r}{nearest(name, known)}, and all are {', '.join(known)}")
    try:
        settings = _Settings.model_validate({name: value for name, value in read.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        line = f"line {source.line_of(first['loc'])}, " if source.lines else ""
        raise InputError(f"{path}, {line}{'.'.join(map(str, first['loc']))} {plain(first)}") from error
    return {name: value for name, value in settings if value is not None}


def _source(path: Path) -> Source:
    """The file as one record: YAML with the lines of its keys, or the text of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; expected YAML or JSON with the keys of settings.json") from error
    if not is_yaml(path):
        return Source(1, text)
    records = list(sources(path, text))
    for record in records:
        if isinstance(record, Problem):
            raise InputError(f"{path}, {record}; correct that line")
    if len(records) != 1 or not isinstance(records[0], Source):
        raise InputError(f"{path} holds {amount(len(records), 'record')}; expected one, a mapping with the keys of settings.json")
    return records[0]


def arguments_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `plan_evaluation` that follow from settings, without `environment` and those that are left out.

    >>> arguments_of({"environment": "sage", "roles": {"user": "embedded"}, "limit": 4})
    {'limit': 4, 'roles': ['user=embedded']}
    """
    found = {argument: settings[name] for name, argument in _ARGUMENTS.items() if name in settings}
    if found.get("scenario_ids"):  # the file of a run that was asked for these keeps its other choices empty
        found = {name: value for name, value in found.items() if name not in ("tags", "exclude_tags", "limit")}
    if "roles" in settings:
        found["roles"] = [f"{role}={model}" for role, model in settings["roles"].items()]
    if "shard" in settings:
        found["shard"] = f"{settings['shard'].index}/{settings['shard'].count}"
    if "prices" in settings:
        found["prices"] = {model: Price(**price) for model, price in settings["prices"].items()}
    return found


def changed_since(settings: Mapping[str, Any], planned: EvaluationSettings) -> list[str]:
    """What a finished run records and the plan does not repeat, each as a sentence: prompts, weights, scenarios."""
    told: list[str] = []
    for name, what in (("prompts", "prompt"), ("weights", "weights")):
        before, now = settings.get(name, {}), getattr(planned, name)
        for key in sorted(key for key in before if key in now and before[key] != now[key]):
            told.append(f"The {what} {key} is {now[key]} now, and was {before[key]} in that run.")
    before, now = settings.get("scenarios", {}), planned.scenarios
    if before and (missing := [name for name in before if name not in now]):
        told.append(f"{amount(len(missing), 'scenario')} of that run will not be played, such as {missing[0]}.")
    if before and (other := [name for name in before if name in now and before[name] != now[name]]):
        told.append(f"{amount(len(other), 'scenario')} changed since that run, such as {other[0]}.")
    return told
