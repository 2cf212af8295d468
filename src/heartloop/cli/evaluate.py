"""`heartloop eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from heartloop.cli import options as given

__all__ = ["evaluate_app"]

evaluate_app = typer.Typer(rich_markup_mode=None)


@evaluate_app.command("eval")
def evaluate_command(
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
    role: Annotated[list[str] | None, typer.Option("--role", help="Model of another role: name=MODEL; repeatable.")] = None,
    option: given.OptionValues = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Scenario set, file or folder. Default: the environment's first set.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", help="Id of a scenario to play, without the others; repeatable.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only scenarios with this tag; repeatable.")] = None,
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Exclude scenarios with this tag; repeatable.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of scenarios, stratified.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Dialogues per model and scenario.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    shard: Annotated[str | None, typer.Option(help="Evaluate part i of n of the scenarios: i/n.")] = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option("--sampling", help="role.setting=value, e.g. policy.temperature=0.7 or user.max_tokens=800; repeatable."),
    ] = None,
    request: Annotated[
        list[str] | None,
        typer.Option(
            "--request",
            help="role.field=JSON: another field of the role's requests, e.g. policy.chat_template_kwargs.enable_thinking=false; "
            "repeatable.",
        ),
    ] = None,
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
) -> None:
    """Evaluate models against a user simulator. Rerun the same command to resume."""
    from heartloop.cli.running import Pilot, exit_code_of, given_options, play_run, read_options, read_prompt, write_report
    from heartloop.core.errors import UseError
    from heartloop.core.text import amount
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.config import arguments_of, changed_since, read_config
    from heartloop.evaluation.planning import plan_evaluation

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
        "prices": prices, "policy_prompt": read_prompt(policy_prompt),
    }  # fmt: skip
    plan = plan_evaluation(
        name, models, **given_options(context, chosen, arguments_of(settings), environment=name, options=options),
        sampling=sampling or (), requests=request or (), max_connections=max_connections, timeout=timeout, retries=retries,
        max_cost=max_cost, max_tokens=max_tokens, cache=cache,
    )  # fmt: skip
    for sentence in changed_since(settings, plan.settings):
        typer.echo(f"{config}: {sentence}", err=True)
    limit = plan.settings.limit
    run = out or plan.path
    if limit is not None and limit > plan.available:
        there = f"{amount(plan.available, 'scenario')} of {plan.settings.scenario_set}"
        typer.echo(f"--limit {limit} is above the number of scenarios; all {there} are played.", err=True)
    ask = Pilot(plan.meter, yes=yes, only=pilot) if pilot or plan.paid else None
    with plan.caching():
        ended, played = play_run(
            run, plan.settings, plan.play, plan.meter, max_connections=max_connections, retry_failed=retry_failed, pilot=ask,
            pilot_models=plan.pilot_models, opened=plan.opened, check=plan.check, cache=plan.cache,
        )  # fmt: skip
        page = write_report([played], run / "report")
    typer.echo(f"\nRun: {run}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended))
