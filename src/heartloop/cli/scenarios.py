"""The `heartloop scenarios` commands: list, show, check and save scenarios, and have new ones written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli.write import write_app

__all__ = ["scenarios_app"]

scenarios_app = typer.Typer(
    help="List, show and check scenarios, or have new ones written.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
scenarios_app.add_typer(write_app)


@scenarios_app.command("list")
def scenarios_list(
    scenarios: Annotated[
        str,
        typer.Argument(
            help="support, chat, test or train (eibench), cases (empa), samples (perm), instances (daily), a file, a checkout."
        ),
    ] = "support",
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Leave out scenarios with this tag.")] = None,
) -> None:
    """One line a scenario: id, intention or scene, person, theme, tags."""
    from heartloop.environments.catalogue import home_of

    entry = home_of(scenarios)
    for scenario in entry.load(scenarios, exclude_tags=exclude_tag or []):
        typer.echo(entry.line(scenario))


@scenarios_app.command("show")
def scenarios_show(
    scenario: Annotated[str, typer.Argument(help="An id, e.g. support-listen-01.")],
    scenarios: Annotated[
        str | None,
        typer.Option("--from", help="support, chat, test, train, cases, samples, a file, a checkout; by default any set."),
    ] = None,
) -> None:
    """One scenario, as a simulator reads it, with its written lines."""
    from heartloop.environments.catalogue import find_person

    entry, found = find_person(scenario, scenarios)
    typer.echo(entry.sheet(found))


@scenarios_app.command("check")
def scenarios_check(
    scenarios: Annotated[str, typer.Argument(help="support, chat, test, train, cases, samples, a file, a checkout.")],
) -> None:
    """Schema, give-aways, near-duplicates, namesakes: what a set must pass."""
    from collections import Counter

    from heartloop.authoring.checks import problems_of_set
    from heartloop.core.wording import amount
    from heartloop.environments.catalogue import home_of
    from heartloop.environments.eibench import ReleasedScenario as ReleasedRecord
    from heartloop.environments.eqbench import Scenario as CheckedOut
    from heartloop.environments.perm import DrawnSample
    from heartloop.environments.sage import ReleasedScenario

    people = home_of(scenarios).load(scenarios)
    own = [s for s in people if not isinstance(s, (ReleasedScenario, ReleasedRecord, CheckedOut, DrawnSample))]
    problems = problems_of_set(own) if own else []
    for problem in problems:
        typer.echo(problem)
    if problems:
        typer.echo(f"{amount(len(problems), 'problem')} in {amount(len(people), 'scenario')}", err=True)
        raise typer.Exit(1)
    counted = amount(len(people), "scenario")
    groups = ", ".join(f"{group} {n}" for group, n in Counter(s.stratum for s in people).items())
    only = "" if own else "; of what others wrote only the form is checked"
    typer.echo(f"{counted} ({groups}): no problem found{only}")


@scenarios_app.command("compose")
def scenarios_compose(
    out: Annotated[Path, typer.Option(help="The JSON-lines file to write; it must not be there yet.")],
    environment: Annotated[str, typer.Argument(help="Which training set: eibench.")] = "eibench",
) -> None:
    """Write EIBench's training set: 2,009 scenarios from hand-written cores, no combination of the test set. No model call."""
    from heartloop.core.errors import UseError
    from heartloop.environments.eibench.scenario_sets import training

    if environment != "eibench":
        raise UseError(f"no training set for {environment!r}; expected eibench")
    if out.exists():
        raise UseError(f"{out} is there already; choose another --out, or remove it first")
    scenarios = training()
    try:
        out.write_text("".join(scenario.model_dump_json() + "\n" for scenario in scenarios), encoding="utf-8")
    except OSError as error:
        raise UseError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    typer.echo(f"{len(scenarios)} scenarios: {out}")
