"""`heartloop scenarios`: list, show, check, count, sample and save scenarios, and write new ones by hand or with models."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from heartloop.cli import options as given
from heartloop.cli.write import write_app
from heartloop.core.errors import UseError
from heartloop.core.system import install_command, reported
from heartloop.core.text import amount

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from heartloop.environments.requests import Request
    from heartloop.environments.spec import EnvironmentSpec, Scenarios

scenarios_app = typer.Typer(
    help="List, show, check, count, sample and save scenarios, and write new ones by hand or with models.",
    cls=given.GroupedCommands,
    invoke_without_command=True,
    rich_markup_mode=None,
)
scenarios_app.add_typer(write_app)

_SET = "set, file or folder."
Environment = Annotated[str | None, Option(help="Environment of the file, if its first record does not identify it.")]


@scenarios_app.callback()
def _scenarios(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        scenarios_list()
        typer.echo("Next: heartloop scenarios list SET; heartloop scenarios -h names the other commands.", err=True)


@scenarios_app.command("new")
def scenarios_new(
    environment: Annotated[str, Argument(help="Environment.")],
    short: Annotated[
        bool, Option("--short", help="Only what models in the roles read: no written lines for the embedded ones.")
    ] = False,
    out: Annotated[Path | None, Option(help="File to write; it must not exist. Default: my-ENVIRONMENT.yaml.")] = None,
) -> None:
    """Write a commented scenario to edit: a complete example, as YAML."""
    from heartloop.environments.records import is_yaml
    from heartloop.environments.registry import load_environment, template_of

    spec = load_environment(environment)
    path = out or Path(f"my-{spec.name}.yaml")
    if not is_yaml(path):
        raise UseError(f"--out is {path}; expected a name that ends with .yaml, by which the file is read")
    text = template_of(spec, str(path), short=short)
    if path.exists():
        raise UseError(f"{path} exists; choose another --out, or remove it")
    with reported(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    typer.echo(f"{path} written. Edit it, then: heartloop scenarios check {path}")


@scenarios_app.command("list")
def scenarios_list(
    scenarios: Annotated[
        str | None, Argument(help=f"Environment, or scenario {_SET} Without it, list the sets of every environment.")
    ] = None,
    exclude_tag: given.ExcludeTag = None,
    environment: Environment = None,
) -> None:
    """List the scenarios of an environment or a set, or the shipped sets."""
    from heartloop.environments.registry import specs

    if scenarios is None:
        for spec in specs():
            for name in spec.scenarios.sets:
                typer.echo(f"{name:12} {spec.name}")
        return
    spec, (first, *others) = _sets_of(scenarios, environment)
    for scenario in spec.scenarios.load(first, exclude_tags=exclude_tag or []):
        typer.echo(spec.scenarios.line(scenario))
    for name in others:
        typer.echo(f"Another set: heartloop scenarios list {name}", err=True)


@scenarios_app.command("show")
def scenarios_show(
    context: typer.Context,
    names: Annotated[
        list[str] | None, Argument(help="Scenario id, after its environment or alone.", metavar="[ENVIRONMENT] ID")
    ] = None,
    scenarios: Annotated[str | None, Option(help=f"Scenario {_SET} Default: every shipped set.")] = None,
    prompt: Annotated[bool, Option("--prompt", help="Print the first request to each role instead.")] = False,
    role: Annotated[str | None, Option(help="Only requests to this role: policy, user, judge, ...")] = None,
    option: given.OptionValues = None,
    run: Annotated[Path | None, given.RunOption(help="Print the requests of a dialogue of this run, replayed.")] = None,
    dialogue: Annotated[
        str | None, Option(help="Dialogue of --run: model|scenario|repeat, or a part that only one has. Default: ID.")
    ] = None,
    turn: Annotated[int, Option(min=1, help="Turn of the dialogue, from 1.")] = 1,
) -> None:
    """Print a scenario with its prepared lines, or with --prompt or --run what models are sent."""
    from heartloop.cli.running import read_options
    from heartloop.environments.registry import environment_names, find_scenario
    from heartloop.environments.requests import first_requests

    names = names or []
    if len(names) > 2 or not (names or run):
        raise UseError(f"{len(names)} arguments: {' '.join(names)}; expected a scenario id, or an environment and an id")
    if run is not None:
        spec, requests = _stored(run, dialogue or " ".join(names[-1:]), turn, scenarios)
    else:
        if len(names) == 1 and names[0] in environment_names():
            raise UseError(f"{names[0]} is an environment; expected a scenario id after it (heartloop scenarios list {names[0]})")
        spec, record = find_scenario(names[-1], scenarios, environment=names[0] if len(names) == 2 else None)
        if not prompt:
            typer.echo(spec.scenarios.text(record))
            return
        requests = asyncio.run(first_requests(spec, record, read_options(context, spec, option)))
    if role not in (None, "policy", *spec.role_names):
        raise UseError(f"--role is {role}; {spec.name} has policy, {', '.join(spec.role_names)}")
    shown = [request.text for request in requests if role in (None, request.role)]
    typer.echo("\n\n".join(shown) or f"No request to the {role or 'models'}: embedded, or not asked in this turn.")


def _stored(run: Path, key: str, turn: int, scenarios: str | None) -> tuple[EnvironmentSpec, list[Request]]:
    """The requests of one turn of a stored dialogue; says on standard error how they may differ from those that were sent."""
    from heartloop.evaluation.replaying import RunReplay
    from heartloop.evaluation.store import stored_dialogues

    replay = RunReplay(run, scenarios)
    places = {"|".join(map(str, one.key)): (number, place) for number, (place, one) in enumerate(stored_dialogues(run))}
    named = [name for name in places if key == name] or [name for name in places if key in name]
    if len(named) != 1:
        such = min(places, default="model|scenario|repeat")
        raise UseError(f"--dialogue {key!r} fits {amount(len(named), 'dialogue')} of {run}; expected one such as {such!r}")
    number, place = places[named[0]]
    played = place.read()
    if turn > len(played.turns) + (played.failure is not None):
        raise UseError(f"--turn is {turn}; {named[0]} has {amount(len(played.turns), 'turn')}")
    replayed = replay.requests(number, played)
    if replayed.changed:
        typer.echo(f"Changed since the run, and shown as of this version: {', '.join(replayed.changed)}.", err=True)
    if replayed.same < turn - 1:
        typer.echo(f"The replay differs from the run in turn {replayed.same + 1}, so what follows was not sent so.", err=True)
    return replay.spec, [request for request in replayed.requests if request.turn == turn - 1]


@scenarios_app.command("check")
def scenarios_check(
    scenarios: Annotated[str, Argument(help=f"Environment, for all its sets, or scenario {_SET}")],
    environment: Environment = None,
) -> None:
    """Check a set: schema, rules of the environment, near-duplicates, users with the same name and occupation.

    Names all errors. Exits with 2 if a record violates the schema, and with 1 if one breaks a rule.
    """
    from heartloop.authoring.checks import comparable

    spec, names = _sets_of(scenarios, environment)
    worst = max(_check(spec, name) for name in names)
    if not comparable():
        typer.echo(f"Near-duplicates were not compared: scikit-learn is not installed ({install_command('authoring')})", err=True)
    raise typer.Exit(worst)


def _check(spec: EnvironmentSpec, scenarios: str) -> int:
    from heartloop.authoring.checks import problems_of_set
    from heartloop.environments.records import RecordErrors

    kind = spec.scenarios
    lines: dict[str, int] = {}
    unreadable: list[str] = []
    try:
        loaded = kind.load(scenarios)
    except RecordErrors as errors:
        loaded = [record for _, record in errors.valid]
        lines = {record.id: line for line, record in errors.valid}
        unreadable = [str(problem) for problem in errors.problems]
    own = [scenario for scenario in loaded if kind.written(scenario)]
    problems = problems_of_set(kind, own) if own else []
    for problem in [*unreadable, *(_with_line(problem, lines or _lines_of(scenarios)) for problem in problems)]:
        typer.echo(problem)
    if unreadable or problems:
        typer.echo(f"{amount(len(unreadable) + len(problems), 'problem')} in {scenarios}", err=True)
        return 2 if unreadable else 1
    strata = ", ".join(f"{stratum} {n}" for stratum, n in Counter(scenario.stratum for scenario in loaded).items())
    only = "" if own else "; imported scenarios are checked for their form only"
    typer.echo(f"{scenarios}: {amount(len(loaded), 'scenario')} ({strata}): no problem found{only}")
    return 0


@scenarios_app.command("stats")
def scenarios_stats(
    scenarios: Annotated[str, Argument(help=f"Environment, for all its sets, or scenario {_SET}")],
    environment: Environment = None,
) -> None:
    """Count a set by group, with means and deviations of its numbers next to the published ones, and counts of its features."""
    from heartloop.authoring.spread import lines_of, spread_of

    spec, names = _sets_of(scenarios, environment)
    kind = spec.scenarios
    for name in names:
        loaded = kind.load(name)
        typer.echo(f"{name}: {amount(len(loaded), 'scenario')}; mean ± sample standard deviation")
        typer.echo("\n".join(lines_of(spread_of(kind, loaded), kind.printed())))


@scenarios_app.command("save")
def scenarios_save(
    scenarios: Annotated[str, Argument(help=f"Scenario {_SET}")],
    out: Annotated[Path, Option(help="JSON-lines file to write; it must not exist yet.")],
    exclude_tag: given.ExcludeTag = None,
) -> None:
    """Write a set as JSON lines, one scenario per line. No model call."""
    from heartloop.environments.registry import owner_of

    kind = owner_of(scenarios).scenarios
    _save(kind, kind.load(scenarios, exclude_tags=exclude_tag or []), out, scenarios)


def _save(kind: Scenarios, loaded: Sequence[Any], out: Path, source: str) -> None:
    from pydantic import BaseModel

    from heartloop.environments.records import write_records

    if not all(isinstance(scenario, BaseModel) for scenario in loaded):
        raise UseError(f"{source} cannot be saved as JSON lines; pass its folder to --scenarios")
    write_records(out, loaded, exclude_unset=not all(map(kind.written, loaded)))
    typer.echo(f"{amount(len(loaded), 'scenario')} written to {out}")


@scenarios_app.command("sample")
def scenarios_sample(
    scenarios: Annotated[str, Argument(help=f"Environment, for its first set, or scenario {_SET}")],
    limit: Annotated[int, Option(min=1, help="Number of scenarios.")],
    out: Annotated[Path, Option(help="JSON-lines file to write; it must not exist yet.")],
    by: Annotated[
        str | None,
        Option(
            help="Labels over which the sample is spread evenly, each by itself, with commas; A+B for the combinations of two "
            "labels. Default: the label of eval --limit (axis, scene, intention, ...)."
        ),
    ] = None,
    quota: Annotated[
        list[str] | None,
        Option(help="label=value:number,value:number: exact numbers of scenarios; other values are free. Repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(help="label=value: only scenarios with this value; several of one label: any of them. Repeatable."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the choice between samples that are equally even.")] = 0,
    environment: Environment = None,
) -> None:
    """Write a sample of a set that is balanced over several labels. No model call."""
    from heartloop.environments import sampling

    spec, (name, *_) = _sets_of(scenarios, environment)
    loaded = spec.load(name)
    every = [sampling.labels_of(spec, scenario) for scenario in loaded]
    wanted: dict[str, list[str]] = {}
    for label, value in (_given(one, "--where", "label=value") for one in where or []):
        wanted.setdefault(label, []).append(value)
    pool = sampling.where(every, wanted)
    labels = [every[place] for place in pool]
    numbers = dict(_given(one, "--quota", "label=value:number,value:number") for one in quota or [])
    quotas = {label: {v: int(n) for v, n in (one.split(":") for one in of.split(","))} for label, of in numbers.items()}
    names = by.split(",") if by else [] if quotas else [spec.scale.group]
    chosen = sampling.balanced(labels, limit, names, quotas=quotas, seed=seed)
    for label in dict.fromkeys([*names, *quotas]):
        strata = [sampling.stratum_of(one, label) for one in labels]
        taken, there = Counter(strata[place] for place in chosen), Counter(strata)
        for stratum in sorted(there):
            typer.echo(f"{label} {stratum}: {taken[stratum]} of {there[stratum]}")
    _save(spec.scenarios, [loaded[pool[place]] for place in chosen], out, name)


def _given(text: str, flag: str, form: str) -> tuple[str, str]:
    """A label and what is given for it."""
    label, _, value = text.partition("=")
    if not (label and value) or (":" in form and not re.fullmatch(r"[^:,]+:\d+(,[^:,]+:\d+)*", value)):
        raise UseError(f"{flag} is {text!r}; expected {form}")
    return label, value


def _sets_of(scenarios: str, environment: str | None) -> tuple[EnvironmentSpec, list[str]]:
    """The sets of an environment, or a set, file or folder, with its environment."""
    from heartloop.environments.registry import environment_names, load_environment, owner_of

    if scenarios not in environment_names():
        return load_environment(environment) if environment is not None else owner_of(scenarios), [scenarios]
    spec = load_environment(scenarios)
    if not spec.scenarios.sets:
        raise UseError(f"{scenarios} ships no scenarios; pass the folder or file that holds some (docs/{scenarios}.md)")
    return spec, list(spec.scenarios.sets)


def _lines_of(scenarios: str) -> dict[str, int]:
    """Lines of a file's records by id; empty for a shipped set or a folder."""
    from heartloop.environments.records import Source, read_text, sources

    path = Path(scenarios)
    if not path.is_file():
        return {}
    records = [source for source in sources(path, read_text(path)) if isinstance(source, Source)]
    return {str(json.loads(source.text).get("id")): source.line for source in records}


def _with_line(problem: str, lines: dict[str, int]) -> str:
    name = problem.partition(": ")[0].partition(" and ")[0]
    return f"line {lines[name]}, {problem}" if name in lines else problem
