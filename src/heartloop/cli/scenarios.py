"""`heartloop scenarios`: list, show, check and save scenarios, and write new ones with models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli.write import write_app

if TYPE_CHECKING:
    from heartloop.environments.spec import EnvironmentSpec

__all__ = ["scenarios_app"]

scenarios_app = typer.Typer(
    help="List, show, check and save scenarios, or write new ones with models.", no_args_is_help=True, rich_markup_mode=None
)
scenarios_app.add_typer(write_app)

_SET = "Scenario set, file or folder."
Environment = Annotated[
    str | None, typer.Option("--environment", help="Environment of the file, if its first record does not identify it.")
]


@scenarios_app.command("list")
def scenarios_list(
    scenarios: Annotated[str | None, typer.Argument(help=f"{_SET} Without it, list the sets of every environment.")] = None,
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Exclude scenarios with this tag; repeatable.")] = None,
    environment: Environment = None,
) -> None:
    """List the scenarios of a set, or the shipped sets."""
    from heartloop.environments.registry import specs

    if scenarios is None:
        for spec in specs():
            for name in spec.scenarios.sets:
                typer.echo(f"{name:12} {spec.name}")
        return
    spec = _spec_of(scenarios, environment)
    for scenario in spec.scenarios.load(scenarios, exclude_tags=exclude_tag or []):
        typer.echo(spec.scenarios.line(scenario))


@scenarios_app.command("show")
def scenarios_show(
    scenario: Annotated[str, typer.Argument(help="Scenario id.")],
    scenarios: Annotated[str | None, typer.Option("--from", help=f"{_SET} Default: every shipped set.")] = None,
) -> None:
    """Print a scenario as the user simulator reads it, with its prepared lines."""
    from heartloop.environments.registry import find_scenario

    spec, record = find_scenario(scenario, scenarios)
    typer.echo(spec.scenarios.text(record))


@scenarios_app.command("check")
def scenarios_check(scenarios: Annotated[str, typer.Argument(help=_SET)], environment: Environment = None) -> None:
    """Check a set: schema, rules of the environment, near-duplicates, users with the same name and occupation."""
    from collections import Counter

    from heartloop.authoring.checks import problems_of_set
    from heartloop.core.wording import amount

    kind = _spec_of(scenarios, environment).scenarios
    loaded = kind.load(scenarios)
    own = [scenario for scenario in loaded if kind.written(scenario)]
    problems = problems_of_set(kind, own) if own else []
    for problem in problems:
        typer.echo(problem)
    if problems:
        typer.echo(f"{amount(len(problems), 'problem')} in {amount(len(loaded), 'scenario')}", err=True)
        raise typer.Exit(1)
    strata = ", ".join(f"{stratum} {n}" for stratum, n in Counter(scenario.stratum for scenario in loaded).items())
    only = "" if own else "; imported scenarios are checked for their form only"
    typer.echo(f"{amount(len(loaded), 'scenario')} ({strata}): no problem found{only}")


@scenarios_app.command("save")
def scenarios_save(
    scenarios: Annotated[str, typer.Argument(help=_SET)],
    out: Annotated[Path, typer.Option(help="JSON-lines file to write; it must not exist yet.")],
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Exclude scenarios with this tag; repeatable.")] = None,
) -> None:
    """Write a set as JSON lines, one scenario per line. No model call."""
    from pydantic import BaseModel

    from heartloop.core.errors import UseError
    from heartloop.core.wording import amount
    from heartloop.environments.records import write_records
    from heartloop.environments.registry import owner_of

    kind = owner_of(scenarios).scenarios
    loaded = kind.load(scenarios, exclude_tags=exclude_tag or [])
    if not all(isinstance(scenario, BaseModel) for scenario in loaded):
        raise UseError(f"{scenarios} cannot be saved as JSON lines; pass its folder to --scenarios")
    write_records(out, loaded, exclude_unset=not all(map(kind.written, loaded)))
    typer.echo(f"{amount(len(loaded), 'scenario')} written to {out}")


def _spec_of(scenarios: str, environment: str | None) -> EnvironmentSpec:
    from heartloop.environments.registry import load_environment, owner_of

    return load_environment(environment) if environment is not None else owner_of(scenarios)
