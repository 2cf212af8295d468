"""The scenarios of a recipe as the rows that verl deals out: training and held-out scenarios, and their files.

Covers choosing scenarios and writing both tables. A row names a scenario and holds no prompt, which the agent loop takes from the
episode. Does not cover scenarios (each environment's own folder).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import ScriptedChat, is_embedded
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import replacing
from heartloop.environments.registry import owner_of, stratified
from heartloop.environments.spec import AnyScenario
from heartloop.training.dialogue_settings import AGENT, DialogueSettings
from heartloop.training.recipe import Recipe
from heartloop.training.verl_config import RunPaths

__all__ = ["Split", "dialogue_settings", "parted", "rows", "split_of", "write_parquet"]


class Split(NamedTuple):
    """The scenarios of a run."""

    train: Sequence[Any]
    held_out: Sequence[Any]

    def held_out_groups(self, group: Callable[[Any], str]) -> dict[str, int]:
        """How many are held out, by group."""
        return dict(Counter(map(group, self.held_out)))


def split_of(recipe: Recipe) -> Split:
    """The training and the held-out scenarios.

    Raises:
        UseError: an unknown set or another environment's, or fewer training scenarios than a step needs.
        InputError: a scenario is in both, or the user simulator cannot play it.
    """
    sets = recipe.scenarios
    train, held_out = _load(sets.train, recipe), _load(sets.held_out, recipe)
    if sets.held_out_share is not None:
        train, held_out = parted(train, sets.held_out_share)
    train, held_out = stratified(train, sets.train_limit), stratified(held_out, sets.held_out_limit)
    both = {scenario.id for scenario in train} & {scenario.id for scenario in held_out}
    if both:
        raise InputError(f"{len(both)} scenarios are both trained on and held out, such as {min(both)}; expected none")
    if len(train) < recipe.batch.scenarios:
        raise UseError(
            f"{len(train)} training scenarios are fewer than the {recipe.batch.scenarios} of a step; lower batch.scenarios"
        )
    spec = recipe.environment.spec
    model = None if is_embedded(recipe.dialogue.user) else ScriptedChat([])  # never called
    player = spec.players(dict.fromkeys(spec.role_names, model))
    for scenario in (*train, *held_out):
        player.admit(scenario)
    return Split(train, held_out)


def parted(scenarios: Sequence[AnyScenario], share: float) -> tuple[list[AnyScenario], list[AnyScenario]]:
    """The training scenarios of one set, and the held-out share, stratified."""
    held_out = stratified(scenarios, max(1, round(share * len(scenarios))))
    held_out_ids = {scenario.id for scenario in held_out}
    return [scenario for scenario in scenarios if scenario.id not in held_out_ids], held_out


def dialogue_settings(recipe: Recipe, paths: RunPaths) -> DialogueSettings:
    """The settings of the agent loop."""
    logging = {"transcripts": str(paths.transcripts), "transcripts_every": recipe.watching.transcripts_every}
    return DialogueSettings.model_validate(
        {
            **recipe.dialogue.model_dump(mode="json"),
            "environment": recipe.environment.model_dump(mode="json"),
            "scenarios": (_where(recipe.scenarios.train), _where(recipe.scenarios.held_out)),
            "seed": recipe.seed,
            **(logging if recipe.watching.transcripts_every else {}),
        }
    )


def rows(scenarios: Sequence[Any], recipe: Recipe, *, split: str) -> list[dict[str, Any]]:
    """Rows in verl's form. `data_source` is the environment and the group: verl logs held-out means by it."""
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


def write_parquet(table: Sequence[dict[str, Any]], path: Path) -> None:
    """The rows as a file, whole or not at all."""
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(table)), part)


def _load(source: str, recipe: Recipe) -> Sequence[Any]:
    spec, owner = recipe.environment.spec, owner_of(source)
    if owner.name != spec.name:
        raise UseError(f"{source} holds scenarios of {owner.name}; the recipe's environment is {spec.name}")
    return spec.load(source, variant=recipe.environment.chosen.variant, exclude_tags=list(recipe.scenarios.exclude_tags))


def _where(source: str) -> str:
    """A set by its name, a file by its whole path: verl's processes have another working directory."""
    return source if not Path(source).is_file() else str(Path(source).resolve())
