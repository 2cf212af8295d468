"""`heartloop environments` and `heartloop check`."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from heartloop.cli.options import GroupedCommands, Prices, Timeout, Yes
from heartloop.core.errors import EnvironmentBroken, UseError
from heartloop.core.system import write_whole
from heartloop.core.text import amount, money, printable

if TYPE_CHECKING:
    from heartloop.models.probe import Probe


def by_default(command: str) -> type[GroupedCommands]:
    """A group in which `GROUP NAME` is `GROUP COMMAND NAME`."""

    class WithDefault(GroupedCommands):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            named = not args or args[0] in {*self.commands, *ctx.help_option_names}
            return super().parse_args(ctx, args if named else [command, *args])

    return WithDefault


environments_app = typer.Typer(
    help="List the installed environments, show one with its options (heartloop environments NAME), or start a new one.",
    cls=by_default("show"), invoke_without_command=True, rich_markup_mode=None,
)  # fmt: skip


@environments_app.callback()
def _environments(context: typer.Context) -> None:
    from heartloop.environments.registry import broken, specs

    if context.invoked_subcommand is None:
        for spec in specs():
            typer.echo(f"{spec.name:10} {spec.title}: {spec.about}")
        for reason in broken().values():
            typer.echo(f"Not available: {reason}", err=True)


@environments_app.command("show")
def environments_show(environment: Annotated[str, Argument(help="Name of an environment.")]) -> None:
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


@environments_app.command("new")
def environments_new(
    name: Annotated[str, Argument(help="Name of the package and of its environment.")],
    out: Annotated[Path | None, Option(help="Folder to write; it must not exist. Default: NAME.")] = None,
) -> None:
    """Write a package with a complete example environment, to edit (docs/your-own-environment.md)."""
    from heartloop.environments.template import write_package

    folder = out or Path(name)
    write_package(name, folder)
    typer.echo(f"{folder} written. Next: pip install -e {shlex.quote(str(folder.absolute()))}; heartloop check {name}")


check_app = typer.Typer(
    help="Test an environment (heartloop check NAME), or a model's provider.",
    cls=by_default("environment"), no_args_is_help=True, rich_markup_mode=None,
)  # fmt: skip


@check_app.command("model")
def check_model(
    model: Annotated[str, Argument(help="Model of a service: service/model.")],
    json_file: Annotated[Path | None, Option("--json", help="JSON file to write, for a report; without key and answers.")] = None,
    yes: Yes = False,
    timeout: Timeout = 300.0,
    prices: Prices = None,
) -> None:
    """Test what a model's provider does with requests, by at most 12 small calls, and compare it with docs/providers.md."""
    import heartloop
    from heartloop.models import probe
    from heartloop.models.budget import load_prices
    from heartloop.models.client import EndpointChat
    from heartloop.models.names import load_env, resolve

    load_env()
    endpoint, price = resolve(model, timeout=timeout), load_prices(prices).get(model)
    if type(endpoint) is not EndpointChat:  # a bot of one's own is one too, but takes none of its requests
        raise UseError(f"{model} is not a model of a service; expected service/model")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise UseError(f"--json is {json_file}, whose folder does not exist; expected a file in an existing folder")
    tokens = (probe.PROMPT_TOKENS, probe.MOST_CALLS * probe.ANSWER_TOKENS)
    cost = f"; cost at most {money(price.at_most(*tokens))} at your prices" if price else ""
    numbers = f"at most {probe.MOST_CALLS} calls, about {tokens[0]:,} tokens of prompts, at most {tokens[1]:,} of answers{cost}"
    typer.echo(f"{model} at {endpoint.address}: {numbers}.", err=True)
    if not yes and not sys.stdin.isatty():
        raise UseError("not a terminal: pass --yes to make the calls")
    if not yes and not typer.confirm("Continue?", err=True):
        raise typer.Exit(1)
    found = probe.Probe(endpoint)
    asyncio.run(found.run())
    _print_findings(found)
    if json_file is not None:
        record = {"heartloop": heartloop.__version__, **found.record()}
        write_whole(json_file, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _print_findings(probe: Probe) -> None:
    from rich.console import Console
    from rich.text import Text

    from heartloop.evaluation.leaderboard import terminal_table, with_notes

    checked = probe.record()["table"] or "without this service"
    note = f"{amount(probe.calls, 'call')}, {probe.usage.total:,} tokens. The table of docs/providers.md: {checked}."
    table = terminal_table()
    for heading in ("", "found", "table", ""):
        table.add_column(heading)
    for what, found, detail, known, differs in probe.findings:
        cells = (what, f"{found}: {detail}" if detail else found, known or "not in the table", "differs" if differs else "")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console().print(with_notes(f"{probe.model.name} at {probe.model.address}", table, [note]))


@check_app.command("environment")
def check_environment(
    environment: Annotated[str, Argument(help="Name of an environment.")],
    scenarios: Annotated[str | None, Option(help="Scenario set, file or folder. Default: all shipped sets of full form.")] = None,
) -> None:
    """Run the conformance test of an environment with its embedded user simulator."""
    from heartloop.environments.check import check_environment as check
    from heartloop.environments.registry import load_environment
    from heartloop.models.baselines import Baseline

    spec = load_environment(environment)
    played = [name for name in spec.scenarios.sets if name not in spec.scenarios.short_sets]
    names = [spec.set_of(scenarios)] if scenarios or not played else played
    try:
        for name in names:
            for preset, variant in product(spec.options.choices("preset"), spec.options.choices("variant")):
                chosen = spec.load(name, variant=variant)
                ready = spec.make(chosen, spec.players(), {"preset": preset, "variant": variant})
                check(ready, policy=Baseline("reflector"))
                typer.echo(f"PASS: {spec.name}, {name}, {preset}, {variant}")
    except EnvironmentBroken as broken:
        typer.echo(f"heartloop: {broken}", err=True)
        raise typer.Exit(1) from broken
