"""`heartloop eval` and `heartloop plan`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from heartloop.cli import options as given


def evaluate(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(help="Name of an environment (heartloop environments lists them).", show_default=False)
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="Model under test, repeatable: service/model, local/smollm2, local/PATH.gguf, heartloop/BASELINE, "
            "python:module:function, checkpoint:DIR.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="User simulator: service/model, or embedded. Plays every role without an option of its own."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Judge, if the environment has that role: service/model, or embedded.")
    ] = None,
    role: given.Role = None,
    option: given.OptionValues = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Scenario set, file or folder. Default: the environment's first set.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", help="Id of a scenario to play, without the others; repeatable.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only scenarios with this tag; repeatable.")] = None,
    exclude_tag: given.ExcludeTag = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of scenarios, stratified.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Dialogues per model and scenario.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    shard: Annotated[str | None, typer.Option(help="Evaluate part i of n of the scenarios: i/n.")] = None,
    request: given.Request = None,
    policy_prompt: Annotated[
        Path | None, typer.Option(help="File with a system prompt for the models under test, in place of the environment's.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON file with the keys of settings.json, such as a finished run's; options win over it."),
    ] = None,
    max_connections: given.MaxConnections = 32,
    timeout: given.Timeout = 120.0,
    retries: given.Retries = 6,
    max_cost: given.MaxCost = None,
    max_tokens: given.MaxTokens = None,
    prices: given.Prices = None,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Print the estimate and stop; it plays two dialogues if none is finished.")
    ] = False,
    yes: given.Yes = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Play failed dialogues again.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/ENVIRONMENT-HASH.")] = None,
    cache: given.Cache = None,
    report: given.Report = True,
) -> None:
    """Evaluate models against a user simulator. Rerun the same command to resume."""
    from heartloop.cli.running import Pilot, exit_code_of, next_lines, play_run, read_options
    from heartloop.core.errors import UseError
    from heartloop.core.text import amount
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.plan import plan_evaluation
    from heartloop.evaluation.settings import arguments_of, changed_since, read_config

    settings = {} if config is None else read_config(config)
    name = environment or settings.get("environment")
    models = model or settings.get("models")
    if name is None or not models:
        lacking = "the name of an environment" if name is None else "--model"
        raise UseError(f"{lacking} is missing; pass it, or name it in a file with --config")
    options = read_options(context, load_environment(name), option)
    chosen: dict[str, Any] = {
        "user": user, "judge": judge, "roles": role or (), "scenarios": scenarios, "scenario_ids": scenario or (),
        "tags": tag or (), "exclude_tags": exclude_tag or (), "limit": limit, "repeats": repeats, "seed": seed, "shard": shard,
        "prices": prices, "policy_prompt": _read_prompt(policy_prompt),
    }  # fmt: skip
    plan = plan_evaluation(
        name, models, **_over_file(context, chosen, arguments_of(settings), options), requests=request or (),
        max_connections=max_connections, timeout=timeout, retries=retries, max_cost=max_cost, max_tokens=max_tokens, cache=cache,
    )  # fmt: skip
    for sentence in changed_since(settings, plan.settings):
        typer.echo(f"{config}: {sentence}", err=True)
    limit = plan.settings.limit
    if limit is not None and limit > plan.available:
        there = f"{amount(plan.available, 'scenario')} of {plan.settings.scenario_set}"
        typer.echo(f"--limit {limit} is above the number of scenarios; all {there} are played.", err=True)
    run = out or plan.path
    ask = Pilot(plan.meter, yes=yes, only=pilot) if pilot or plan.paid else None
    ended, played = play_run(run, plan, max_connections=max_connections, retry_failed=retry_failed, pilot=ask)
    typer.echo(f"\n{next_lines(run, played, report=report)}")
    raise typer.Exit(exit_code_of(ended))


def _read_prompt(path: Path | None) -> str | None:
    """The text of `--policy-prompt`, without the white space around it."""
    from heartloop.core.errors import InputError

    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; expected a text file with a system prompt") from error
    if not text:
        raise InputError(f"{path} is empty; expected a text file with a system prompt")
    return text


_CHOOSING = {"scenario_ids", "tags", "exclude_tags", "limit"}
_PARAMETERS = {"roles": "role", "scenario_ids": "scenario", "tags": "tag", "exclude_tags": "exclude_tag"}


def _over_file(
    context: typer.Context, chosen: Mapping[str, Any], of_file: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a plan: those of the command line, over those of a file, over the defaults of the command.

    The options of the environment are merged by name. A `--user` replaces every role of the file, `--judge` and `--role` the
    roles that they name. One way of choosing scenarios replaces the file's.

    Args:
        chosen: values of the command line, defaults included, by the argument's name.
        of_file: arguments from `settings.arguments_of`.
        options: of the environment, from the command line.
    """
    merged = {**chosen, **{name: value for name, value in of_file.items() if name != "models"}}
    named = {name for name, value in chosen.items() if value is not None and _is_given(context, _PARAMETERS.get(name, name))}
    if named & _CHOOSING:
        named |= _CHOOSING
    merged |= {name: chosen[name] for name in named}
    merged["options"] = {**of_file.get("options", {}), **options}
    by_role = {} if "user" in named else dict(text.split("=", 1) for text in of_file.get("roles", ()))
    if chosen["judge"] is not None:
        by_role.pop("judge", None)
    own = [text.partition("=")[0] for text in chosen["roles"]]
    merged["roles"] = [*chosen["roles"], *(f"{role}={model}" for role, model in by_role.items() if role not in own)]
    return merged


def _is_given(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def plan(
    environment: given.Environment,
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
    from heartloop.evaluation.store import read_run, runs_in
    from heartloop.evaluation.study import plan_study, study_data, study_text
    from heartloop.models.budget import load_prices

    spec = load_environment(environment)
    read = [read_run(path) for folder in runs or () for path in runs_in(folder)]
    data = study_data(spec, read, prices=load_prices(prices))
    typer.echo(study_text(plan_study(data, difference, power=power), spec.scale))
