"""`heartloop eval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli import options as given

if TYPE_CHECKING:
    from heartloop.core.chat import ChatModel

__all__ = ["evaluate_app"]

evaluate_app = typer.Typer(rich_markup_mode=None)


@evaluate_app.command("eval")
def evaluate_command(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="Name of an environment (heartloop environments lists them).")],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            help="Model under test, repeatable: service/model, local/smollm2, local/PATH.gguf, heartloop/BASELINE, "
            "python:module:function, checkpoint:DIR.",
        ),
    ],
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
    max_connections: given.MaxConnections = 32,
    timeout: given.Timeout = 120.0,
    retries: given.Retries = 6,
    max_cost: given.MaxCost = None,
    max_tokens: given.MaxTokens = None,
    prices: given.Prices = None,
    pilot: Annotated[bool, typer.Option("--pilot", help="Play two dialogues, print the estimate and stop.")] = False,
    yes: given.Yes = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Play failed dialogues again.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/ENVIRONMENT-HASH.")] = None,
    cache: given.Cache = None,
) -> None:
    """Evaluate models against a user simulator. Rerun the same command to resume."""
    from contextlib import nullcontext

    from heartloop.appraisal.names import EMBEDDED, is_embedded
    from heartloop.cli.running import Pilot, exit_code_of, open_models, play_run, read_options, write_report
    from heartloop.core.chat import LOCAL_PREFIX
    from heartloop.core.dialogue import Sampling
    from heartloop.core.errors import UseError
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.roles import assign_roles, model_names
    from heartloop.evaluation.runner import player
    from heartloop.evaluation.sampling import read_samplings
    from heartloop.evaluation.settings import Shard, settings_of, stratified
    from heartloop.models.cache import cache_at
    from heartloop.models.names import Meter, counted, is_paid, load_env, load_prices

    spec = load_environment(environment)
    options = spec.read_options(read_options(context, spec, option))
    roles = assign_roles(spec, user=user, judge=judge, roles=role or ())
    if len(set(model)) != len(model):
        raise UseError(f"--model names a model twice: {', '.join(model)}; for several dialogues per scenario use --repeats")
    load_env()
    if judges := [name for name in model if name.startswith("student:") or is_embedded(name)]:
        raise UseError(f"--model is {judges[0]}, which judges replies and writes none; pass it as --user or --judge")
    playing_roles = {name: [player_name] for name, player_name in roles.items()}
    samplings = read_samplings(sampling or [], request or [], models={"policy": model, **playing_roles})
    if spec.policy_sampling != Sampling():
        samplings["policy"] = samplings.get("policy", Sampling()).over(spec.policy_sampling)
    scenario_set = spec.set_of(scenarios)
    chosen = stratified(spec.load(scenario_set, variant=options.variant, exclude_tags=exclude_tag or []), limit)
    part = Shard.parse(shard) if shard is not None else None
    if part is not None:
        chosen = part.of(chosen)
    names = [*model, *model_names(roles)]
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=names)
    needed = min(max_connections, len(chosen) * repeats * len(model))
    models = open_models(names, baselines=spec.baselines, timeout=timeout, retries=retries, max_connections=needed)
    answers = cache_at(cache)
    policies: dict[str, ChatModel] = {name: counted(models[name], meter, "policy", answers) for name in model}
    playing = {
        name: None if player_name == EMBEDDED else counted(models[player_name], meter, name, answers)
        for name, player_name in roles.items()
    }
    built = spec.make(chosen, spec.players(playing, samplings), options)
    files = {
        name: getattr(opened, "source", "") for name, opened in models.items() if name.startswith(("checkpoint:", LOCAL_PREFIX))
    }
    settings = settings_of(
        built, model, roles=roles, scenario_set=scenario_set, limit=limit, seed=seed, repeats=repeats, shard=part,
        exclude_tags=tuple(sorted(exclude_tag or ())), sampling=samplings, prices=meter.prices,
        weights=files,
    )  # fmt: skip
    run = out or Path("runs") / f"{spec.name}-{settings.hash}"
    paid = [name for name in names if is_paid(name)]
    ask = Pilot(meter, yes=yes, only=pilot) if pilot or paid else None
    play_job = player(built, policies, samplings.get("policy"), think=options.asks_to_think)
    with answers or nullcontext():
        ended, played = play_run(
            run, settings, play_job, meter, max_connections=max_connections,
            retry_failed=retry_failed, pilot=ask, pilot_models=[name for name in model if name in paid], opened=models,
            cache=answers,
        )  # fmt: skip
        page = write_report([played], run / "report")
    typer.echo(f"\nRun: {run}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended))
