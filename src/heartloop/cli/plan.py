"""`heartloop plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli import options as given

__all__ = ["plan_app"]

plan_app = typer.Typer(rich_markup_mode=None)


@plan_app.command()
def plan(
    environment: Annotated[str, typer.Argument(help="Name of an environment (heartloop environments lists them).")],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs of two models to measure from, also under other user simulators or judges. Default: a pilot."),
    ] = None,
    difference: Annotated[float, typer.Option(help="Difference of two models to detect, in points of the score.")] = 5.0,
    power: Annotated[float, typer.Option(min=0.5, max=0.999, help="Probability of detecting it.")] = 0.8,
    prices: given.Prices = None,
) -> None:
    """Plan how many scenarios, repeats and judges a difference of two models needs, in calls, tokens and cost. No model call."""
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.run_directory import runs_in
    from heartloop.evaluation.runs import read_run
    from heartloop.evaluation.study import plan_study, study_data
    from heartloop.evaluation.study_text import study_text
    from heartloop.models.budget import load_prices

    spec = load_environment(environment)
    read = [read_run(path) for folder in runs or () for path in runs_in(folder)]
    data = study_data(spec, read, prices=load_prices(prices))
    typer.echo(study_text(plan_study(data, difference, power=power), spec.scale))
