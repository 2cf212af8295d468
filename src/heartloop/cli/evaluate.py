"""Commands that play dialogues, and the plan of a study: `heartloop demo`, `talk`, `eval` and `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from heartloop.cli import options as given
from heartloop.cli.config import from_command_line, options_of_file
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import readable
from heartloop.core.text import amount


def demo(
    out: Annotated[Path, Option(parser=given.on_this_machine, help="Folder of the runs and the report.")] = Path("demo"),
) -> None:
    """Evaluate the baselines with the embedded user simulator and write a report. Needs no key and no network.

    With the extra local a small language model plays four further dialogues, within a minute.
    """
    from heartloop.cli.demo import run_demo

    run_demo(out)


def talk(
    context: typer.Context,
    environment: Annotated[
        str | None, Argument(metavar="[ENV]", help="Environment, or the id of a scenario. Default: the demo's first.")
    ] = None,
    scenario: Annotated[str | None, Argument(help="Scenario id. Default: one chosen by --seed.")] = None,
    user: Annotated[str, Option(help="User simulator: service/model, or embedded. Plays every role.")] = "embedded",
    role: given.Role = None,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, Option(help="Scenario set, file or folder. Default: the environment's sets.")] = None,
    seed: Annotated[int, Option(help="Random seed: chooses the scenario and the person's lines.")] = 0,
    request: given.Request = None,
    max_tokens: given.MaxTokens = None,
    out: Annotated[Path | None, given.OutOption(help="Run directory. Default: runs/talk-SCENARIO.")] = None,
    cache: given.Cache = None,
) -> None:
    """Talk with a simulated person yourself: you reply, the person answers and is moved. Needs no key.

    Without a terminal every line of stdin is a reply.
    """
    from heartloop.cli.conversation import run_talk
    from heartloop.cli.running import read_options
    from heartloop.evaluation.plan import read_roles

    code = run_talk(
        environment, scenario, scenarios, seed, lambda spec: read_options(context, spec, option), out=out, user=user,
        roles=read_roles(role or ()), requests=request or (), max_tokens=max_tokens, cache=cache,
    )  # fmt: skip
    raise typer.Exit(code)


def evaluate(
    context: typer.Context,
    environment: Annotated[
        str | None, Argument(help="Name of an environment (heartloop environments lists them).", show_default=False)
    ] = None,
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            "-m",
            help="Model under test, repeatable: service/model, local/smollm2, local/PATH.gguf, heartloop/BASELINE, "
            "python:module:function, http:bot.yaml, checkpoint:DIR.",
        ),
    ] = None,
    user: Annotated[
        str | None, Option(help="User simulator: service/model, or embedded. Plays every role without an option of its own.")
    ] = None,
    judge: Annotated[str | None, Option(help="Judge, if the environment has that role: service/model, or embedded.")] = None,
    role: given.Role = None,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, Option(help="Scenario set, file or folder. Default: the environment's first set.")] = None,
    scenario: Annotated[list[str] | None, Option(help="Id of a scenario to play, without the others; repeatable.")] = None,
    tag: Annotated[list[str] | None, Option(help="Only scenarios with this tag; repeatable.")] = None,
    exclude_tag: given.ExcludeTag = None,
    limit: Annotated[int | None, Option(min=1, help="Maximum number of scenarios, stratified.")] = None,
    repeats: Annotated[int | None, Option(min=1, help="Dialogues per model and scenario. Default: 1.")] = None,
    seed: Annotated[int | None, Option(help="Random seed. Default: 0.")] = None,
    shard: Annotated[str | None, Option(help="Evaluate part i of n of the scenarios: i/n.")] = None,
    request: given.Request = None,
    policy_prompt: Annotated[
        Path | None, Option(help="File with a system prompt for the models under test, in place of the environment's.")
    ] = None,
    config: Annotated[
        Path | None,
        Option(
            callback=options_of_file,
            is_eager=True,
            help="YAML or JSON file with these options by name (max_turns under option), or a finished run's settings.json.",
        ),
    ] = None,
    out: Annotated[Path | None, given.OutOption(help="Run directory. Default: runs/ENVIRONMENT-HASH.")] = None,
    report: given.Report = True,
    *,
    calls: given.Calls,
) -> None:
    """Evaluate models against a user simulator. Rerun the same command to resume."""
    from heartloop.cli.running import Pilot, next_lines, play_run, read_options
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.plan import plan_evaluation, read_roles
    from heartloop.evaluation.settings import arguments_of, changed_since, read_config, settings_in

    settings = {} if config is None else settings_in(read_config(config))
    name = environment or settings.get("environment")
    of_file = arguments_of(settings)
    if model:
        of_file["models"] = model
    if name is None or not of_file.get("models"):
        lacking = "the name of an environment" if name is None else "--model"
        raise UseError(f"{lacking} is missing; pass it, or name it in a file with --config")
    defaults, spec = context.default_map or {}, load_environment(name)
    options = read_options(context, spec, defaults.get("option")) | read_options(context, spec, option)
    selection = {"scenario": scenario, "tag": tag, "exclude_tag": exclude_tag, "limit": limit}
    if typed := {key: value for key, value in selection.items() if from_command_line(context, key)}:
        selection = dict.fromkeys(selection) | typed  # one way of choosing scenarios replaces the file's
    chosen: dict[str, Any] = {
        "user": user, "scenario_set": scenarios, "scenario_ids": selection["scenario"] or None,
        "tags": selection["tag"] or None, "exclude_tags": selection["exclude_tag"] or None, "limit": selection["limit"],
        "repeats": repeats, "seed": seed, "shard": shard,
        "policy_prompt": _read_prompt(policy_prompt), "prices": calls.prices,
    }  # fmt: skip
    if typed:
        of_file = {key: value for key, value in of_file.items() if key not in ("scenario_ids", "tags", "exclude_tags", "limit")}
    roles = {**of_file.get("roles", {}), **read_roles(defaults.get("role", ()))}
    if from_command_line(context, "user"):
        roles = {}
    if from_command_line(context, "judge"):
        roles.pop("judge", None)
    if role and from_command_line(context, "role"):
        roles |= read_roles(role)
    merged = of_file | {key: value for key, value in chosen.items() if value is not None}
    merged |= {"options": {**of_file.get("options", {}), **options}, "roles": roles}
    plan = plan_evaluation(name, judge=judge, requests=request or (), **{**calls.models, **merged})
    for sentence in changed_since(settings, plan.settings):
        typer.echo(f"{config}: {sentence}", err=True)
    if (limit := plan.settings.limit) is not None and limit > plan.available:
        there = f"{amount(plan.available, 'scenario')} of {plan.settings.scenario_set}"
        typer.echo(f"--limit {limit} is above the number of scenarios; all {there} are played.", err=True)
    run = out or plan.path
    played = play_run(run, plan, calls, pilot=Pilot(plan.models.meter, calls) if calls.pilot or plan.paid else None)
    typer.echo(f"\n{next_lines(run, played.run, report=report)}")
    raise typer.Exit(played.code(pilot=calls.pilot))


def _read_prompt(path: Path | None) -> str | None:
    if path is None:
        return None
    with readable(path, "a text file with a system prompt"):
        text = path.read_text(encoding="utf-8").strip()
    if not text:
        raise InputError(f"{path} is empty; expected a text file with a system prompt")
    return text


def plan(
    environment: given.Environment,
    runs: Annotated[
        list[Path] | None,
        given.RunArgument(
            help="Runs of two models to measure from, also under other user simulators or judges. Default: a pilot."
        ),
    ] = None,
    min_difference: Annotated[float, Option(help="Smallest difference that matters, and is to be detected, in points.")] = 5.0,
    power: Annotated[float, Option(min=0.5, max=0.999, help="Probability of detecting it.")] = 0.8,
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
    typer.echo(study_text(plan_study(data, min_difference, power=power), spec.scale))
