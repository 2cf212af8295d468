"""Sampling settings of the roles from command-line texts: `--sampling role.setting=value` and `--request role.field=JSON`.

`--sampling` takes the fields of `Sampling` but `request`, each with its bounds; `--request` any other field of the request's
body. Does not cover what a server refuses of them (`models.formats`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from heartloop.core.dialogue import Sampling, writable
from heartloop.core.errors import UseError
from heartloop.core.text import nearest
from heartloop.models.names import settings_taken_by

__all__ = ["read_samplings"]

_SETTINGS = tuple(name for name in Sampling.model_fields if name != "request")
_NO_JSON = {
    "True": "true", "False": "false", "None": "null", "NaN": "a finite number", "Infinity": "a finite number",
    "-Infinity": "a finite number",
}  # fmt: skip
"""Values that are easily taken for JSON, and what to write instead."""


def read_samplings(
    texts: Sequence[str],
    requests: Sequence[str] = (),
    *,
    models: Mapping[str, Sequence[str]],
    base: Mapping[str, Sampling] | None = None,
) -> dict[str, Sampling]:
    """Sampling settings by role.

    A field of a request is a dotted path: `policy.chat_template_kwargs.enable_thinking=false` sends
    `{"chat_template_kwargs": {"enable_thinking": false}}`. Its value is JSON, or else a text.

    Args:
        texts: `role.setting=value`; several texts of `stop` as a JSON list.
        requests: `role.field=value`.
        models: names of the models of each role. Models that take no settings, such as baselines, may stand beside others.
        base: settings by role for what the texts do not set, checked as texts are.

    Raises:
        UseError: a text of another form, an unknown role or setting, one given twice, one that no model or not every model of the
            role takes, or a value out of range.
    """
    given: dict[str, dict[str, Any]] = {}
    sampled: dict[tuple[str, str], str] = {}
    for text in texts:
        role, (setting, *rest), value = _parts("--sampling", text, models)
        if rest or setting not in _SETTINGS:
            raise UseError(
                f"--sampling is {text!r}; expected role.setting=value with setting {', '.join(_SETTINGS)}"
                f"{nearest(setting, _SETTINGS, cutoff=0.6)}, or --request {text} for another field of the request"
            )
        if (role, setting) in sampled:
            raise UseError(f"--sampling is {sampled[role, setting]!r} and {text!r}; expected one value")
        sampled[role, setting] = text
        _check_taken("--sampling", text, role, models[role], setting)
        given.setdefault(role, {})[setting] = _stops(value) if setting == "stop" else value
    placed: dict[tuple[str, ...], str] = {}
    for text in requests:
        role, path, value = _parts("--request", text, models)
        setting = "max_tokens" if path[0] == "max_completion_tokens" else path[0]
        if setting in _SETTINGS:
            also = f", and --sampling is {sampled[role, setting]!r}" if (role, setting) in sampled else ""
            raise UseError(f"--request is {text!r}{also}; expected --sampling {role}.{setting}=value alone")
        place = (role, *path)
        for earlier, before in placed.items():
            shorter = min(len(earlier), len(place))
            if earlier[:shorter] == place[:shorter]:
                raise UseError(f"--request is {before!r} and {text!r}, which set the same field; expected one of them")
        placed[place] = text
        _check_taken("--request", text, role, models[role], "request", f"request.{path[0]}")
        at = given.setdefault(role, {}).setdefault("request", {})
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = _json(value, text)
    read = {role: _sampling(role, values) for role, values in given.items()}
    for role, sampling in (base or {}).items():
        _check_base(role, sampling, models)
        read[role] = read.get(role, Sampling()).over(sampling)
    return read


def _check_base(role: str, sampling: Sampling, models: Mapping[str, Sequence[str]]) -> None:
    """Checks the role of settings, and that its models take them, as their texts are checked."""
    for setting, value in sampling.chosen().items():
        if setting == "request":
            for field, content in value.items():
                text = f"{role}.{field}={json.dumps(content, ensure_ascii=False)}"
                _parts("--request", text, models)
                _check_taken("--request", text, role, models[role], "request", f"request.{field}")
        else:
            text = f"{role}.{setting}={json.dumps(list(value)) if isinstance(value, tuple) else value}"
            _parts("--sampling", text, models)
            _check_taken("--sampling", text, role, models[role], setting)


def _parts(option: str, text: str, models: Mapping[str, Sequence[str]]) -> tuple[str, list[str], str]:
    """Role, path and value of a text."""
    name, equals, value = text.partition("=")
    role, *path = name.split(".")
    form = "role.setting=value" if option == "--sampling" else "role.field=JSON, with dots between nested fields,"
    if role not in models:
        near = nearest(role, models, cutoff=0.6) if len(models) > 1 else ""
        raise UseError(f"{option} is {text!r}; expected {form} with role {' or '.join(models)}{near}")
    if not equals or not path or not all(path):
        raise UseError(f"{option} is {text!r}; expected {form} such as {role}.{'top_k=20' if form[5] == 's' else 'min_p=0.05'}")
    return role, path, writable(value)


def _check_taken(option: str, text: str, role: str, names: Sequence[str], *settings: str) -> None:
    """Raises unless the models that sample take one of `settings`, or, if none samples, one of them does."""
    samplers = [name for name in names if "temperature" in settings_taken_by(name)]
    without = [name for name in samplers or names if settings_taken_by(name).isdisjoint(settings)]
    if without and (samplers or len(without) == len(names)):
        takes = ", ".join(sorted(settings_taken_by(without[0])))
        which = f"only {takes}" if takes else "no sampling settings"
        raise UseError(f"{option} is {text!r}, but {role} is {without[0]}, which takes {which}; omit it, or pass another model")


def _stops(value: str) -> Any:
    """One text, or a JSON list of texts."""
    if not value.startswith("["):
        return value
    try:
        return from_json(value)
    except ValueError as error:
        raise UseError(f"--sampling stop is {value!r}; expected a text, or a JSON list of texts") from error


def _json(value: str, text: str) -> Any:
    """A value as JSON, or else as a text. Refuses what looks like JSON and is none, since a template takes any text for true."""
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError as error:
        if value in _NO_JSON:
            raise UseError(f'--request is {text!r}; expected JSON: {_NO_JSON[value]}, or the text "{value}" in quotes') from error
        if value.startswith(("{", "[", '"')):
            raise UseError(f"--request is {text!r}, whose value is not valid JSON ({error}); expected JSON, or a text") from error
        return value


def _sampling(role: str, values: Mapping[str, Any]) -> Sampling:
    try:
        return Sampling.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        setting, message = first["loc"][0], first["msg"].removeprefix("Value error, ")
        if setting == "request":
            raise UseError(f"--request for {role}: {message}") from error
        raise UseError(f"--sampling {role}.{setting}={first['input']}: {message}") from error
