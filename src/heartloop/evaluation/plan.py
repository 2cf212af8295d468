"""The plan of an evaluation: what `heartloop eval` and `heartloop.evaluate` ask for, checked before the first call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from heartloop.core.chat import EMBEDDED, LOCAL_PREFIX, ChatModel, is_embedded
from heartloop.core.dialogue import Sampling, writable
from heartloop.core.errors import UseError
from heartloop.core.text import nearest, nearest_name
from heartloop.environments.records import by_tags
from heartloop.environments.registry import load_environment, scenarios_by_id, stratified
from heartloop.environments.spec import EnvironmentSpec, Ready
from heartloop.evaluation.runner import OpenModels, RunPlan, player
from heartloop.evaluation.settings import Shard, settings_of
from heartloop.models.budget import is_baseline
from heartloop.models.check import AskedRole, EndpointCheck
from heartloop.models.client import TIMEOUT
from heartloop.models.functions import function_model, function_name
from heartloop.models.names import load_env, settings_taken_by, with_service

Function = Callable[..., Any]
"""A policy: takes messages with `role` and `content`, returns a text, or an awaitable of one."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan(RunPlan):
    environment: Ready
    paid: tuple[str, ...]
    available: int  # scenarios before the limit and the shard

    @property
    def path(self) -> Path:
        return Path("runs") / f"{self.settings.environment}-{self.settings.hash}"


def plan_evaluation(
    environment: str,
    models: Sequence[str | Function],
    *,
    user: str | None = None,
    judge: str | None = None,
    roles: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    scenario_set: str | None = None,
    scenario_ids: Sequence[str] = (),
    tags: Sequence[str] = (),
    exclude_tags: Sequence[str] = (),
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    shard: Shard | str | None = None,
    sampling: Mapping[str, Sampling] | None = None,
    requests: Sequence[str] = (),
    policy_prompt: str | None = None,
    opened: Mapping[str, ChatModel] | None = None,
    max_connections: int = 32,
    timeout: float = TIMEOUT,
    **calling: Any,
) -> EvaluationPlan:
    """Checks and resolves an evaluation without a model call; most arguments are explained at `heartloop.evaluate`.

    `requests` (`role.field=value`) win over `sampling`; calls of models that are `opened` already are neither counted nor cached.
    """
    spec = load_environment(environment)
    chosen_options = spec.read_options(options or {})
    assigned = assign_roles(spec, user=user, judge=judge, roles=roles or {})
    under_test = _under_test(models)
    load_env()
    by_role = {"policy": under_test, **{role: [name] for role, name in assigned.items()}}
    samplings = _samplings(spec, requests, sampling or {}, by_role)
    if policy_prompt is not None and not policy_prompt.strip():
        raise UseError("the policy prompt is empty; expected the text of a system prompt")
    if scenario_ids:
        if tags or exclude_tags or limit is not None:
            raise UseError("--scenario cannot be combined with --tag, --exclude-tag or --limit; remove them")
        scenario_set, loaded = scenarios_by_id(spec, scenario_ids, scenario_set)
        if unplayable := [one.id for one in loaded if not spec.scenarios.playable(one, chosen_options.variant)]:
            raise UseError(f"scenario {unplayable[0]} cannot be played with variant={chosen_options.variant}; choose another")
    else:
        scenario_set = spec.set_of(scenario_set)
        loaded = spec.load(scenario_set, variant=chosen_options.variant, exclude_tags=exclude_tags)
        loaded = by_tags(loaded, scenario_set, tags=tags)
    part = Shard.parse(shard) if isinstance(shard, str) else shard
    chosen = stratified(loaded, limit) if part is None else part.of(stratified(loaded, limit))
    names = list(dict.fromkeys([*under_test, *model_names(assigned)]))
    own = dict(opened or {})
    functions = {name: function_model(name, one, timeout) for name, one in zip(under_test, models, strict=True) if callable(one)}
    by_name = OpenModels(
        names, given=own | functions, baselines=spec.baselines, timeout=timeout,
        max_connections=min(max_connections, len(chosen) * repeats * len(under_test)), **calling,
    )  # fmt: skip
    players = {role: None if name == EMBEDDED else by_name.counted(name, role) for role, name in assigned.items()}
    built = spec.make(chosen, spec.players(players, samplings), chosen_options)
    with_source = ("checkpoint:", "python:", "http:", LOCAL_PREFIX)
    settings = settings_of(
        built, under_test, roles=assigned, scenario_set=scenario_set, limit=limit, seed=seed, repeats=repeats, shard=part,
        scenario_ids=tuple(dict.fromkeys(scenario_ids)), tags=tuple(sorted(tags)), exclude_tags=tuple(sorted(exclude_tags)),
        sampling=samplings, prices=by_name.meter.prices, policy_prompt=policy_prompt,
        weights={name: getattr(by_name.opened[name], "source", "") for name in names if name.startswith(with_source)},
    )  # fmt: skip
    asked = [AskedRole(by_name.opened[name], samplings.get("policy"), under_test=True) for name in under_test]
    asked += [AskedRole(by_name.opened[name], samplings.get(role)) for role, name in assigned.items() if name != EMBEDDED]
    policies = {name: own[name] if name in own else by_name.counted(name, "policy") for name in under_test}
    paid = tuple(name for name in names if by_name.meter.is_paid(name))
    return EvaluationPlan(
        settings=settings, models=by_name, check=EndpointCheck(asked, by_name.meter), paid=paid,
        pilot_models=[name for name in under_test if name in paid], environment=built, available=len(loaded),
        play=player(
            built, policies, samplings.get("policy"), policy_prompt=policy_prompt, think=chosen_options.asks_to_think
        ),
    )  # fmt: skip


def _under_test(models: Sequence[str | Function]) -> list[str]:
    names = [model if isinstance(model, str) else function_name(model) for model in models]
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        other = "" if all(isinstance(model, str) for model in models) else "give each function a name of its own, or "
        raise UseError(f"models under test name {', '.join(twice)} twice; {other}use repeats for several dialogues per scenario")
    if judges := [name for name in names if name.startswith("student:") or is_embedded(name)]:
        raise UseError(f"--model is {judges[0]}, which judges replies and writes none; pass it as --user or --judge")
    return names


def _samplings(
    spec: EnvironmentSpec, requests: Sequence[str], base: Mapping[str, Sampling], models: Mapping[str, Sequence[str]]
) -> dict[str, Sampling]:
    """Sampling by role, that of the policy over the environment's."""
    if "policy" in base:  # the environment's defaults are set below, also if a baseline does not take them
        base = {**base, "policy": base["policy"].without(spec.policy_sampling)}
    chosen = read_requests(requests, models=models, base=base)
    if spec.policy_sampling != Sampling():
        chosen["policy"] = chosen.get("policy", Sampling()).over(spec.policy_sampling)
    return chosen


def read_roles(texts: Sequence[str]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for text in texts:
        name, _, model = text.partition("=")
        if not name or not model:
            raise UseError(f"--role is {text!r}; expected name=MODEL")
        if name in roles:
            raise UseError(f"role {name} is given twice; expected one model")
        roles[name] = model
    return roles


def assign_roles(
    spec: EnvironmentSpec, *, user: str | None = None, judge: str | None = None, roles: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The name of a model, or `embedded`, for every role of the environment: `user` plays those without one of their own."""
    given = dict(roles or {})
    for name, model in given.items():
        if name not in spec.role_names:
            near = nearest(name, spec.role_names)
            raise UseError(f"--role is '{name}={model}'; expected name=MODEL with {' or '.join(spec.role_names)}{near}")
    if judge is not None:
        if "judge" not in spec.role_names:
            raise UseError(
                f"--judge does not apply to {spec.name}, where the user simulator judges: use --user, or "
                "`heartloop rejudge --judge`"
            )
        if "judge" in given:
            raise UseError("role judge is given twice; expected one model")
        given["judge"] = judge
    assigned: dict[str, str] = {}
    for name in spec.role_names:
        played_by = given.get(name, user)
        if played_by is None:
            missing = " and ".join(role for role in spec.role_names if role not in given)
            raise UseError(f"no model for role {missing} of {spec.name}; pass --user MODEL, or --user embedded, which needs none")
        if not any(mark in played_by for mark in "/:") and not is_embedded(played_by):
            option = "--user" if name not in given else "--judge" if name == "judge" and judge is not None else f"--role {name}"
            raise UseError(
                f"{option} is {played_by!r}; expected {EMBEDDED}, or service/model such as "
                f"{with_service(played_by) or 'openai/gpt-6-luna'}{nearest(played_by, [EMBEDDED])}"
            )
        if is_baseline(played_by):
            raise UseError(f"role {name} is {played_by}, a baseline that only replies; expected service/model, or {EMBEDDED}")
        assigned[name] = played_by
    return assigned


def model_names(roles: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(name for name in roles.values() if name != EMBEDDED))


_SETTINGS = tuple(name for name in Sampling.model_fields if name != "request")
_LOOKS_ALIKE = 0.86
"""Similarity of a field's name to a setting's from which it is taken for a misspelling: `topk` (0.89), not `top_a` (0.80)."""
_NO_JSON = {"True": "true", "False": "false", "None": "null"}
_NO_JSON |= dict.fromkeys(("NaN", "Infinity", "-Infinity"), "a finite number")


def read_requests(
    texts: Sequence[str], *, models: Mapping[str, Sequence[str]], base: Mapping[str, Sampling] | None = None
) -> dict[str, Sampling]:
    """Sampling settings and other fields of the requests, by role, from `--request role.field=value`.

    A field that `Sampling` has is checked with its bounds. Any other field is a dotted path with a value in JSON, or a text:
    `policy.chat_template_kwargs.enable_thinking=false` sends `{"chat_template_kwargs": {"enable_thinking": false}}`.
    `base` is for fields that no text sets. Some of the models of a role may take no settings, as baselines, but not all.
    """
    given: dict[str, dict[str, Any]] = {}
    placed: dict[tuple[str, ...], str] = {}
    for text in texts:
        name, equals, value = writable(text).partition("=")
        role, *path = name.split(".")
        _check_role(text, role, models)
        if not equals or not path or not all(path):
            raise UseError(f"--request is {text!r}; expected role.field=value, e.g. {role}.temperature=0.7 or {role}.min_p=0.05")
        for earlier, before in placed.items():
            if all(a == b for a, b in zip(earlier, (role, *path), strict=False)):
                raise UseError(f"--request is {before!r} and {text!r}, which set the same field; expected one of them")
        placed[role, *path] = text
        setting = "max_tokens" if path[0] == "max_completion_tokens" else nearest_name(path[0], _SETTINGS, cutoff=_LOOKS_ALIKE)
        if setting is not None and path != [setting]:
            raise UseError(f"--request is {text!r}; expected {role}.{setting}=value")
        _check_taken(text, role, models[role], path[0])
        at = given.setdefault(role, {})
        if setting is not None:
            at[setting] = _json(value, text) if setting == "stop" and value[:1] in ("[", '"') else value
            continue
        for part in ("request", *path[:-1]):
            at = at.setdefault(part, {})
        at[path[-1]] = _json(value, text)
    read = {role: sampling_from(role, values) for role, values in given.items()}
    for role, sampling in (base or {}).items():
        chosen = sampling.chosen()
        further = chosen.pop("request", {})
        for field, value in {**chosen, **further}.items():
            text = f"{role}.{_field_text(field, value)}"
            _check_role(text, role, models)
            _check_taken(text, role, models[role], field)
        read[role] = read.get(role, Sampling()).over(sampling)
    return read


def _check_role(text: str, role: str, models: Mapping[str, Sequence[str]]) -> None:
    if role not in models:
        near = nearest(role, models) if len(models) > 1 else ""
        raise UseError(f"--request is {text!r}; expected role.field=value with role {' or '.join(models)}{near}")


def _check_taken(text: str, role: str, names: Sequence[str], field: str) -> None:
    """Raises unless the models that sample take the field, or, if none samples, one of them does."""
    wanted = {field} if field in _SETTINGS else {"request", f"request.{field}"}
    samplers = [name for name in names if "temperature" in settings_taken_by(name)]
    without = [name for name in samplers or names if settings_taken_by(name).isdisjoint(wanted)]
    if without and (samplers or len(without) == len(names)):
        takes = ", ".join(sorted(settings_taken_by(without[0])))
        which = f"only {takes}" if takes else "no sampling settings"
        raise UseError(f"--request is {text!r}, but {role} is {without[0]}, which takes {which}; omit it, or pass another model")


def _json(value: str, text: str) -> Any:
    """A value as JSON, or else as a text. Refuses what looks like JSON and is not, since a template takes any text for true."""
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError as error:
        if value in _NO_JSON:
            raise UseError(f'--request is {text!r}; expected JSON: {_NO_JSON[value]}, or the text "{value}" in quotes') from error
        if value.startswith(("{", "[", '"')):
            raise UseError(f"--request is {text!r}, whose value is not valid JSON ({error}); expected JSON, or a text") from error
        return value


def sampling_from(role: str, values: Mapping[str, Any]) -> Sampling:
    for name in values:
        if name not in Sampling.model_fields:
            known = Sampling.model_fields
            raise UseError(f"--request {role}.{name}: expected {', '.join(known)}{nearest(name, known)}")
    try:
        return Sampling.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        setting, message = first["loc"][0], first["msg"].removeprefix("Value error, ")
        value = "" if setting == "request" else f".{setting}={first['input']}"
        raise UseError(f"--request {role}{value}: {message}") from error


def option_flags(options: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    """`-E` for each option that is not as in `base`, for example `-E start=none` or `-E 'roles=["bystander"]'`."""
    words: list[str] = []
    for name, value in options.items():
        if name not in base or base[name] != value:
            text = "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            words += ["-E", f"{name}={text}"]
    return words


def request_flags(sampling: object, *, only: str = "") -> Iterator[str]:
    """`--request` for the sampling settings of every role, as a settings file has them, or of one role."""
    for role, values in sorted(sampling.items()) if isinstance(sampling, Mapping) else ():
        for name, value in values.items() if isinstance(values, Mapping) and role == (only or role) else ():
            fields = value.items() if name == "request" and isinstance(value, Mapping) else [(name, value)]
            for field, content in fields if value is not None else ():
                yield from ("--request", f"{role}.{_field_text(field, content)}")


def _field_text(field: str, value: object) -> str:
    plain = field in _SETTINGS and not isinstance(value, (list, tuple))
    return f"{field}={value if plain else json.dumps(value, ensure_ascii=False)}"
