"""The plan of an evaluation: what `heartloop eval` and `heartloop.evaluate` ask for, checked and resolved before the first call.

Covers roles, options, sampling, scenarios, models, budget, cache and settings. Does not cover playing it (`playing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import EMBEDDED, LOCAL_PREFIX, ChatModel, is_embedded
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.records import with_tags
from heartloop.environments.registry import load_environment, scenarios_by_id
from heartloop.environments.spec import Ready
from heartloop.evaluation.playing import open_models
from heartloop.evaluation.roles import assign_roles, model_names
from heartloop.evaluation.runner import Play, player
from heartloop.evaluation.sampling import read_samplings
from heartloop.evaluation.settings import EvaluationSettings, Shard, settings_of, stratified
from heartloop.models.budget import Meter, Price, is_paid, load_prices
from heartloop.models.cache import AnswerCache, cache_at
from heartloop.models.check import AskedRole, EndpointCheck
from heartloop.models.functions import function_model, function_name
from heartloop.models.names import counted, load_env

__all__ = ["EvaluationPlan", "Function", "plan_evaluation"]

Function = Callable[[list[dict[str, str]]], Any]
"""A policy: takes messages with `role` and `content`, returns a text, or an awaitable of one."""


class EvaluationPlan(NamedTuple):
    """An evaluation that is ready to be played with `playing.play_run`."""

    settings: EvaluationSettings
    environment: Ready
    play: Play
    meter: Meter
    opened: Mapping[str, ChatModel]
    cache: AnswerCache | None
    check: EndpointCheck
    paid: tuple[str, ...]
    """Models whose calls cost money."""
    available: int
    """Scenarios to choose from, before the limit and the shard."""

    @property
    def path(self) -> Path:
        """Default path of the run: the environment and the settings' hash."""
        return Path("runs") / f"{self.settings.environment}-{self.settings.hash}"

    @property
    def pilot_models(self) -> list[str]:
        """Paid models under test."""
        return [name for name in self.settings.models if name in self.paid]

    def caching(self) -> AbstractContextManager[object]:
        """The cache as a context, or an empty one."""
        return self.cache if self.cache is not None else nullcontext()


def plan_evaluation(
    environment: str,
    models: Sequence[str | Function],
    *,
    user: str | None = None,
    judge: str | None = None,
    roles: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    scenarios: str | None = None,
    scenario_ids: Sequence[str] = (),
    tags: Sequence[str] = (),
    exclude_tags: Sequence[str] = (),
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    shard: str | None = None,
    sampling: Sequence[str] = (),
    requests: Sequence[str] = (),
    samplings: Mapping[str, Sampling] | None = None,
    policy_prompt: str | None = None,
    max_connections: int = 32,
    timeout: float = 120.0,
    retries: int = 6,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    prices: Path | Mapping[str, Price] | None = None,
    cache: Path | None = None,
    opened: Mapping[str, ChatModel] | None = None,
) -> EvaluationPlan:
    """Checks and resolves an evaluation. No model is called.

    Args:
        models: names, or Python functions.
        roles: `name=MODEL` texts.
        options: of the environment, by name.
        scenario_ids: only these scenarios, of one set; without `tags`, `exclude_tags` and `limit`.
        tags: only scenarios with one of these.
        sampling: `role.setting=value` texts.
        requests: `role.field=JSON` texts.
        samplings: by role, where the texts say nothing.
        policy_prompt: system prompt of the policy in place of the environment's.
        prices: a file, or prices by model.
        shard: `i/n`.
        opened: models under test that are not opened by name; their calls are neither counted nor cached.

    Raises:
        UseError: a wrong name, option or setting, or a model given twice.
        InputError: scenarios or prices that cannot be read.
    """
    spec = load_environment(environment)
    chosen_options = spec.read_options(options or {})
    assigned = assign_roles(spec, user=user, judge=judge, roles=roles)
    functions = {function_name(model): model for model in models if not isinstance(model, str)}
    under_test = [model if isinstance(model, str) else function_name(model) for model in models]
    if len(set(under_test)) != len(under_test):
        twice = ", ".join(dict.fromkeys(name for name in under_test if under_test.count(name) > 1))
        other = "give each function a name of its own, or " if any(name in functions for name in under_test) else ""
        raise UseError(f"the models under test name {twice} twice; {other}use repeats for several dialogues per scenario")
    load_env()
    if judges := [name for name in under_test if name.startswith("student:") or is_embedded(name)]:
        raise UseError(f"--model is {judges[0]}, which judges replies and writes none; pass it as --user or --judge")
    playing_roles = {name: [player_name] for name, player_name in assigned.items()}
    base = dict(samplings or {})
    if "policy" in base:  # the environment's defaults are set below, also where a baseline does not take them
        base["policy"] = base["policy"].without(spec.policy_sampling)
    chosen_samplings = read_samplings(sampling, requests, models={"policy": under_test, **playing_roles}, base=base)
    if policy_prompt is not None and not policy_prompt.strip():
        raise UseError("the policy prompt is empty; expected the text of a system prompt")
    if spec.policy_sampling != Sampling():
        chosen_samplings["policy"] = chosen_samplings.get("policy", Sampling()).over(spec.policy_sampling)
    if scenario_ids:
        if tags or exclude_tags or limit is not None:
            raise UseError("--scenario names each scenario; expected no --tag, --exclude-tag or --limit beside it")
        scenario_set, chosen = scenarios_by_id(spec, scenario_ids, scenarios)
        if unplayable := [one.id for one in chosen if not spec.scenarios.playable(one, chosen_options.variant)]:
            raise UseError(f"scenario {unplayable[0]} cannot be played with variant={chosen_options.variant}; choose another")
        available = len(chosen)
    else:
        scenario_set = spec.set_of(scenarios)
        loaded = spec.load(scenario_set, variant=chosen_options.variant, exclude_tags=exclude_tags)
        loaded = with_tags(loaded, tags, scenario_set)
        available, chosen = len(loaded), stratified(loaded, limit)
    part = Shard.parse(shard) if shard is not None else None
    if part is not None:
        chosen = part.of(chosen)
    names = [*under_test, *model_names(assigned)]
    by_model = prices if isinstance(prices, Mapping) else load_prices(prices)
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=by_model, models=names)
    needed = min(max_connections, len(chosen) * repeats * len(under_test))
    own = dict(opened or {})
    models_by_name = own | {name: function_model(name, function, timeout) for name, function in functions.items()}
    named = [name for name in names if name not in models_by_name]
    answers = cache_at(cache)
    models_by_name |= open_models(
        named, baselines=spec.baselines, timeout=timeout, retries=retries, max_connections=needed, key_later=answers is not None
    )
    policies = {
        name: model if name in own else counted(model, meter, "policy", answers)
        for name, model in ((name, models_by_name[name]) for name in under_test)
    }
    playing = {
        name: None if player_name == EMBEDDED else counted(models_by_name[player_name], meter, name, answers)
        for name, player_name in assigned.items()
    }
    asked = [AskedRole(models_by_name[name], chosen_samplings.get("policy"), under_test=True) for name in under_test]
    asked += [
        AskedRole(models_by_name[player], chosen_samplings.get(name)) for name, player in assigned.items() if player != EMBEDDED
    ]
    built = spec.make(chosen, spec.players(playing, chosen_samplings), chosen_options)
    with_source = ("checkpoint:", "python:", LOCAL_PREFIX)
    sources = {name: getattr(models_by_name[name], "source", "") for name in names if name.startswith(with_source)}
    settings = settings_of(
        built, under_test, roles=assigned, scenario_set=scenario_set, limit=limit, seed=seed, repeats=repeats, shard=part,
        scenario_ids=tuple(dict.fromkeys(scenario_ids)), tags=tuple(sorted(tags)), exclude_tags=tuple(sorted(exclude_tags)),
        sampling=chosen_samplings, prices=meter.prices, policy_prompt=policy_prompt, weights=sources,
    )  # fmt: skip
    play = player(
        built, policies, chosen_samplings.get("policy"), policy_prompt=policy_prompt, think=chosen_options.asks_to_think
    )
    paid = tuple(name for name in names if is_paid(name))
    return EvaluationPlan(settings, built, play, meter, models_by_name, answers, EndpointCheck(asked, meter), paid, available)
