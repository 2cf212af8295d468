"""`heartloop environments` and `heartloop check`."""

from __future__ import annotations

import json
from itertools import product
from typing import Annotated

import typer

from heartloop.core.errors import EnvironmentBroken

environments_app = typer.Typer(
    help="List the installed environments, or show one with its options.", invoke_without_command=True, rich_markup_mode=None
)


@environments_app.callback()
def _environments(context: typer.Context) -> None:
    from heartloop.environments.registry import broken, specs

    if context.invoked_subcommand is None:
        for spec in specs():
            typer.echo(f"{spec.name:10} {spec.title}: {spec.about}")
        for reason in broken().values():
            typer.echo(f"Not available: {reason}", err=True)


@environments_app.command("show")
def environments_show(environment: Annotated[str, typer.Argument(help="Name of an environment.")]) -> None:
    """Print an environment's score, roles, scenario sets, and options with type, bounds, default and published value."""
    from heartloop.environments.registry import load_environment

    spec = load_environment(environment)
    typer.echo(f"{spec.title} ({spec.name}): {spec.about}\nSource: {spec.source}\nScore: {spec.scale.of}")
    typer.echo("Roles: " + "; ".join(f"{role.name} {role.about}" for role in spec.roles))
    typer.echo(f"Scenario sets: {', '.join(spec.scenarios.sets) or 'none; pass --scenarios PATH'}")
    if spec.baselines:
        typer.echo("Baselines: " + ", ".join(f"heartloop/{name}" for name in spec.baselines))
    typer.echo("Options (-E name=value):")
    for option in spec.options.declared():
        default = option.default if isinstance(option.default, str) else json.dumps(option.default)
        published = f"; published: {option.paper}" if option.paper else ""
        changes = "changes only the score" if option.affects == "score" else "changes the dialogue"
        typer.echo(f"  {option.name}={default}\n      {option.help}\n      Expected: {option.kind}; {changes}{published}.")


def check(
    environment: Annotated[str, typer.Argument(help="Name of an environment.")],
    scenarios: Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: every shipped set.")] = None,
) -> None:
    """Run the conformance test of an environment with its embedded user simulator."""
    from heartloop.environments.check import check_environment
    from heartloop.environments.registry import load_environment
    from heartloop.models.baselines import Baseline

    spec = load_environment(environment)
    names = [spec.set_of(scenarios)] if scenarios or not spec.scenarios.sets else list(spec.scenarios.sets)
    try:
        for name in names:
            for preset, variant in product(spec.options.choices("preset"), spec.options.choices("variant")):
                chosen = spec.load(name, variant=variant)
                ready = spec.make(chosen, spec.players(), {"preset": preset, "variant": variant})
                check_environment(ready, policy=Baseline("reflector"))
                typer.echo(f"PASS: {spec.name}, {name}, {preset}, {variant}")
    except EnvironmentBroken as broken:
        typer.echo(f"heartloop: {broken}", err=True)
        raise typer.Exit(1) from broken
