"""`heartloop train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from heartloop.training.recipe import Recipe

__all__ = ["train_app"]

train_app = typer.Typer(rich_markup_mode=None)


@train_app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="Shipped recipe or YAML file; `list` prints the shipped recipes.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, its calls and tokens, and what this machine lacks; do not train.")
    ] = False,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", help="Variant of the recipe, e.g. no_process; repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a setting, e.g. batch.steps=20; repeatable (docs/recipe-settings.md)."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: that of the recipe.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/RECIPE-HASH.")] = None,
    noise: Annotated[
        Path | None, typer.Option(help="validity.json of suite `noise` for this user; the plan then states the reward's noise.")
    ] = None,
) -> None:
    """Train a policy against a user simulator with verl. Rerun the same command to resume."""
    from heartloop.core.errors import InputError, UseError
    from heartloop.models.local import is_local
    from heartloop.models.names import load_env
    from heartloop.training.plan import Missing, command_text, missing, plan_text
    from heartloop.training.recipe import LAPTOP, read_recipe, recipe_names
    from heartloop.training.verl_config import RunPaths, environment_of, overrides, split_of
    from heartloop.validity.noise import noise_of

    if recipe == "list":
        for name in recipe_names():
            typer.echo(f"{name:22} {read_recipe(name).about}")
        return
    load_env()
    chosen = read_recipe(recipe, variants=variant or (), settings=setting or (), seed=seed)
    run = out or Path("runs") / f"{chosen.name}-{chosen.hash}"
    if not dry_run:
        raise typer.Exit(_train(chosen, run))
    absent = missing(chosen)
    try:
        split = split_of(chosen)
    except (UseError, InputError) as error:
        split = None
        absent.insert(0, Missing("scenarios cannot be read", f"{error}; see docs/training.md, or --set scenarios.train=..."))
    typer.echo(plan_text(chosen, split, None if noise is None else noise_of(noise, chosen.dialogue.user)))
    paths = RunPaths(run.resolve())
    made = chosen.policy.model == LAPTOP or is_local(chosen.policy.model)
    model = str(paths.policies / "..." / "model") if made else chosen.policy.model
    arguments = overrides(chosen, paths, model=model, train_rows=len(split.train) if split else chosen.batch.scenarios)
    settings = " ".join(f"{name}={value}" for name, value in environment_of(chosen).items())
    typer.echo(f"\nverl's command:\n\n  {settings} \\\n  {command_text('python', arguments)}\n")
    if not absent:
        typer.echo(f"Nothing is missing on this machine. Run: {run}")
        return
    typer.echo("Missing on this machine:")
    for item in absent:
        typer.echo(f"- {item.what}: {item.remedy}{'' if item.stops else ' (training can start without it)'}")
    raise typer.Exit(2 if any(item.stops and not item.planned for item in absent) else 0)


def _train(recipe: Recipe, run: Path) -> int:
    """Trains, prints the result, and returns the exit code."""
    from heartloop.core.chat import is_embedded
    from heartloop.evaluation.scores import ALLOWED_UNSCORED
    from heartloop.training import launch
    from heartloop.training.plan import CAUTION, evaluation_command

    if is_embedded(recipe.dialogue.user):
        typer.echo(f"Caution: {CAUTION}.", err=True)
    ended = launch.train(recipe, run, progress=typer.echo)
    failures = ended.failures
    if failures.failed:
        share = f"{failures.failed} of {failures.dialogues} dialogues failed ({failures.share:.1%})"
        typer.echo(f"{share}; they were excluded from training.", err=True)
    if ended.code:
        typer.echo(
            f"heartloop: verl stopped with exit status {ended.code} after step {ended.step}: {ended.why}\n"
            f"Log: {ended.log}. Rerun the same command to resume from the last checkpoint.",
            err=True,
        )
        return 1
    checkpoint = launch.policy_at(run, ended.step)
    typer.echo(f"\nRun: {run}\nPolicy: {checkpoint}")
    typer.echo(f"Evaluate it as it was trained: {evaluation_command(recipe, str(checkpoint))}")
    typer.echo(f"See its curves: heartloop report {run}")
    return 1 if failures.share > ALLOWED_UNSCORED else 0
