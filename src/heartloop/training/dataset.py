"""The people of a recipe as rows that verl deals out: which are trained on, which are held out, and their files.

Covers choosing people and writing both tables. A row names a scenario and holds no prompt, which the agent loop takes from the
episode. Does not cover scenarios (each environment's own room).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import InputError, UseError
from heartloop.environments.catalogue import Somebody, entry_of, home_of, stratified
from heartloop.environments.sage import ReleasedScenario
from heartloop.training.dialogue_settings import AGENT, DialogueSettings, group_of
from heartloop.training.recipe import Recipe
from heartloop.training.recipe_sections import COMPOSED
from heartloop.training.verl_config import RunPaths

__all__ = ["Cast", "cast_of", "dialogue_settings", "parted", "rows", "write_parquet"]


class Cast(NamedTuple):
    """The people of a run."""

    train: Sequence[Any]
    held_out: Sequence[Any]

    def strata(self) -> dict[str, int]:
        """How many are held out, by scene or intention."""
        return dict(Counter(map(group_of, self.held_out)))


def cast_of(recipe: Recipe) -> Cast:
    """Who is trained on and who is held out.

    Raises:
        UseError: a set that is not there or is another environment's, or too few people for a step.
        InputError: somebody is in both, or cannot be played.
    """
    people = recipe.people
    train, held_out = _load(people.train, recipe), _load(people.held_out, recipe)
    if people.held_out_share is not None:
        train, held_out = parted(train, people.held_out_share)
    train, held_out = stratified(train, people.train_limit), stratified(held_out, people.held_out_limit)
    both = {person.id for person in train} & {person.id for person in held_out}
    if both:
        raise InputError(f"{len(both)} people are both trained on and held out, such as {min(both)}; expected none")
    if len(train) < recipe.batch.scenarios:
        raise UseError(
            f"{len(train)} people are trained on, fewer than the {recipe.batch.scenarios} of a step; lower batch.scenarios"
        )
    silent = [person.id for person in (*train, *held_out) if isinstance(person, ReleasedScenario) and not person.first_message]
    if silent:
        raise InputError(
            f"{len(silent)} released people have no first message, such as {silent[0]}; write record.first_talk for them"
        )
    return Cast(train, held_out)


def parted(people: Sequence[Somebody], share: float) -> tuple[list[Somebody], list[Somebody]]:
    """Those of one set who are trained on, and the share who is held out, evenly over intentions, scenes or emotions."""
    held_out = stratified(people, max(1, round(share * len(people))))
    kept = {person.id for person in held_out}
    return [person for person in people if person.id not in kept], held_out


def dialogue_settings(recipe: Recipe, paths: RunPaths) -> DialogueSettings:
    """What the agent loop is told."""
    sources = (
        str(paths.composed) if recipe.people.train == COMPOSED else _where(recipe.people.train),
        _where(recipe.people.held_out),
    )
    kept = {"transcripts": str(paths.transcripts), "transcripts_every": recipe.watching.transcripts_every}
    more = kept if recipe.watching.transcripts_every else {}
    given = recipe.dialogue.model_dump(mode="json", exclude={"scenarios", "transcripts", "transcripts_every", "seed"})
    return DialogueSettings.model_validate({**given, "scenarios": sources, "seed": recipe.seed, **more})


def rows(people: Sequence[Any], recipe: Recipe, *, split: str) -> list[dict[str, Any]]:
    """Rows in verl's form. `data_source` is the environment and the scene or intention: verl keeps held-out means by it."""
    environment = recipe.dialogue.environment
    return [
        {
            "data_source": f"{environment}_{group_of(person)}",
            "prompt": [{"role": "user", "content": person.id}],  # verl wants one; the dialogue brings its own
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "environment": environment,
                "scenario": person.id,
                "fingerprint": person.fingerprint,
                "split": split,
                "index": index,
                "seed": recipe.seed,
            },
            "agent_name": AGENT,
        }
        for index, person in enumerate(people)
    ]


def write_parquet(found: Sequence[dict[str, Any]], path: Path) -> None:
    """The rows as a file, whole or not at all."""
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(found)), part)
    part.replace(path)


def _load(source: str, recipe: Recipe) -> Sequence[Any]:
    environment, tags = recipe.dialogue.environment, list(recipe.people.exclude_tags)
    if source == COMPOSED:
        if environment != "eibench":
            raise UseError(
                f"people.train is {COMPOSED!r}, EIBench's training set; {environment} needs a set of its own or a file"
            )
        return [person for person in _composed() if not set(person.tags) & set(tags)]
    home = home_of(source)
    if home.name != environment:
        raise UseError(f"{source} holds people of {home.name}; the recipe plays {environment}")
    return list(entry_of(environment).load(source, exclude_tags=tags))


def _composed() -> Sequence[Any]:
    from heartloop.environments.eibench.scenario_sets import training

    return training()


def _where(source: str) -> str:
    """A set by its name, a file by its whole path: verl's processes have another working directory."""
    return source if not Path(source).is_file() else str(Path(source).resolve())
