"""A recipe as verl 0.9.1 reads it: rows of scenarios, settings, environment variables. verl itself is not imported."""

from __future__ import annotations

import json
import math
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from heartloop.core.chat import EMBEDDED, ScriptedChat
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import replacing
from heartloop.environments.records import yaml_value
from heartloop.environments.registry import owner_of, parted, stratified
from heartloop.environments.writing import dealt
from heartloop.models.client import RETRIES, TIMEOUT
from heartloop.training.recipe import Recipe

AGENT = "heartloop"
"""Name of the agent loop, in the column `agent_name` of the data."""
TRAINER = "heartloop"
"""Name for `trainer.v1.trainer_mode`."""
PLUGIN = "heartloop.training.plugin"
"""The module that verl loads in every process."""
CHECKPOINT_METRICS = "metrics.jsonl"
"""In a checkpoint's folder: the numbers of its step, which verl logs only after it."""
PACKED = "heartloop_packed"
"""Name of `cpu.packed_attention` for `attn_implementation`."""
_LOOP = "heartloop.training.agent_loop.DialogueLoop"
_json = partial(json.dumps, ensure_ascii=False, default=str)


class RunPaths:
    def __init__(self, run: Path) -> None:
        self.run = run
        self.settings = run / "settings.json"
        self.train = run / "data" / "train.parquet"
        self.held_out = run / "data" / "held_out.parquet"
        self.agent_loops = run / "agent_loops.yaml"
        self.policies = run.parent / "policies"
        """Policies made before training, by the hash of what they are made from; outside the run, so that runs share them."""
        self.checkpoints = run / "checkpoints"
        self.transcripts = run / "transcripts"
        self.metrics = run / "metrics.jsonl"
        self.spending = run / "spending.jsonl"
        self.attempts = run / "attempts"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"global_step_{step}"


class Split(NamedTuple):
    train: Sequence[Any]
    held_out: Sequence[Any]


def split_of(recipe: Recipe) -> Split:
    sets = recipe.scenarios
    train, held_out = _load(sets.train, recipe), _load(sets.held_out, recipe)
    if sets.held_out_share is not None:
        train, held_out = parted(train, sets.held_out_share)
    train, held_out = stratified(train, sets.train_limit), stratified(held_out, sets.held_out_limit)
    if both := {scenario.id for scenario in train} & {scenario.id for scenario in held_out}:
        raise InputError(f"{len(both)} scenarios are both trained on and held out, such as {min(both)}; expected none")
    if len(train) < recipe.batch.scenarios:
        raise UseError(
            f"{len(train)} training scenarios are fewer than the {recipe.batch.scenarios} of a step; lower batch.scenarios"
        )
    groups, alpha = sorted({recipe.environment.training.group(scenario) for scenario in train}), recipe.algorithm.alpha
    if isinstance(alpha, Mapping) and set(alpha) != set(groups):
        raise UseError(f"algorithm.alpha is for {', '.join(alpha)}; expected a number, or one for each of {', '.join(groups)}")
    spec = recipe.environment.spec
    model = None if recipe.dialogue.user == EMBEDDED else ScriptedChat([])  # never called
    player = spec.players(dict.fromkeys(spec.role_names, model))
    for scenario in (*train, *held_out):
        player.admit(scenario)
    return Split(train, held_out)


def _load(source: str, recipe: Recipe) -> Sequence[Any]:
    spec, owner = recipe.environment.spec, owner_of(source)
    if owner.name != spec.name:
        raise UseError(f"{source} holds scenarios of {owner.name}; the recipe's environment is {spec.name}")
    return spec.load(source, variant=recipe.environment.chosen.variant, exclude_tags=list(recipe.scenarios.exclude_tags))


def stratified_order(scenarios: Sequence[Any], recipe: Recipe) -> list[Any]:
    """Training scenarios of all steps one after another, the groups in turn, each group shuffled again when it is used up.

    A step has equal shares of the groups where its size is a multiple of their number. EIBench's released training stratifies by
    scene; how it draws within a scene is ours.
    """
    draw = random.Random(recipe.seed)
    groups: dict[str, list[Any]] = {}
    for scenario in scenarios:
        groups.setdefault(recipe.environment.training.group(scenario), []).append(scenario)

    in_turn = chain.from_iterable(zip(*(dealt(draw, group) for group in groups.values()), strict=False))
    return list(islice(in_turn, recipe.batch.steps * recipe.batch.scenarios))


def rows(scenarios: Sequence[Any], recipe: Recipe, *, split: str) -> list[dict[str, Any]]:
    """Rows in verl's form, without prompts, which come from the episode. verl logs held-out means by `data_source`."""
    environment, group = recipe.environment.name, recipe.environment.training.group
    return [
        {
            "data_source": f"{environment}_{group(scenario)}",
            "prompt": [{"role": "user", "content": scenario.id}],  # verl wants one; the dialogue brings its own
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "environment": environment,
                "scenario": scenario.id,
                "fingerprint": scenario.fingerprint,
                "split": split,
                "index": index,
                "seed": recipe.seed,
            },
            "agent_name": AGENT,
        }
        for index, scenario in enumerate(scenarios)
    ]


class UserCalls(NamedTuple):
    """How the user simulator's model is called, and what its calls may take over all attempts of a run."""

    timeout: float = TIMEOUT
    retries: int = RETRIES
    max_cost: float | None = None
    max_tokens: int | None = None
    prices: Path | None = None


def write_data(recipe: Recipe, split: Split, paths: RunPaths, calls: UserCalls = UserCalls()) -> None:  # noqa: B008
    import pyarrow
    import pyarrow.parquet

    paths.train.parent.mkdir(parents=True, exist_ok=True)
    train = stratified_order(split.train, recipe) if recipe.batch.stratified else split.train
    for name, scenarios, file in (("train", train, paths.train), ("held_out", split.held_out, paths.held_out)):
        with replacing(file) as part:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows(scenarios, recipe, split=name)), part)
    settings = recipe.model_dump(mode="json")
    # a set by its name, a file by its whole path: verl's processes have another working directory
    for name in ("train", "held_out"):
        file = Path(settings["scenarios"][name])
        settings["scenarios"][name] = str(file.resolve()) if file.is_file() else str(file)
    entry = {
        "name": AGENT, "_target_": _LOOP, "recipe": json.dumps(settings), "transcripts": str(paths.transcripts),
        "spending": str(paths.spending), "timeout": calls.timeout, "retries": calls.retries,
    }  # fmt: skip
    paths.agent_loops.write_text(json.dumps([entry], indent=2) + "\n", encoding="utf-8")


def verl_settings(recipe: Recipe, paths: RunPaths, *, model: str, train_rows: int) -> dict[str, Any]:
    """verl's settings by dotted name; a name that begins with `+` is not in verl's configuration."""
    steps_per_epoch = max(1, train_rows // recipe.batch.scenarios)
    settings = _yaml(
        "verl.yaml", recipe, hash=recipe.hash, paths=paths, model=model, agent=AGENT, trainer=TRAINER, packed=PACKED,
        epochs=math.ceil(recipe.batch.steps / steps_per_epoch) + 1,
    )  # fmt: skip
    config = {
        f"{'+' if name.startswith('+') else ''}{section}.{name.lstrip('+')}": value
        for section, part in settings.items()
        for name, value in part.items()
    }
    return config | dict(recipe.verl)


def _yaml(name: str, recipe: Recipe, **values: Any) -> dict[str, Any]:
    """A template whose values become JSON, and which is then read as YAML."""
    settings: dict[str, Any] = yaml_value(rendered(name, recipe, finalize=_json, plugin=PLUGIN, **values))
    return settings


def rendered(name: str, recipe: Recipe, /, *, finalize: Callable[[Any], Any] | None = None, **values: Any) -> str:
    """A Jinja template of this package with the sections of a recipe and further values; `finalize` takes each that is shown."""
    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize)
    return jinja.from_string(text).render(dict(recipe), **values)


def overrides(recipe: Recipe, paths: RunPaths, *, model: str, train_rows: int) -> list[str]:
    settings = verl_settings(recipe, paths, model=model, train_rows=train_rows)
    return [f"{'+' if key.startswith('+') else ''}{key.lstrip('+')}={_hydra(value)}" for key, value in settings.items()]


def environment_of(recipe: Recipe) -> dict[str, str]:
    return _yaml("environment.yaml", recipe, platform=sys.platform, given=os.environ)


def _hydra(value: Any) -> str:
    """A value in the syntax of hydra's command line: JSON with bare keys.

    >>> _hydra(["file"]), _hydra(None), _hydra(1e-6), _hydra({"a": True})
    ('["file"]', 'null', '1e-06', '{a:true}')
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_hydra(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra, value)) + "]"
    return _json(value)
