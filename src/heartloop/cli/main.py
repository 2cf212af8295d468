"""The command line: one short function a command; imports inside the function, so that `--help` is quick.

Exit codes: 0 done, 1 more than 5 % of the dialogues unscored, stopped by the budget, or the gate of `compare` tripped, 2 wrong
use or input. Commands on finished runs stand in `cli_runs`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli.export import export_app
from heartloop.cli.imports import import_app
from heartloop.cli.options import Cache, MaxConnections, MaxCost, MaxTokens, Prices, Retries, Timeout, Yes
from heartloop.cli.rejudge import rejudge_app
from heartloop.cli.runs import runs_app
from heartloop.cli.scenarios import scenarios_app
from heartloop.cli.train import train_app
from heartloop.cli.validate import validate_app

if TYPE_CHECKING:
    from heartloop.core.chat import ChatModel

__all__ = ["main"]

DEMO_SCENARIOS = 24
DEMO_SCENES = 12
DEMO_CASES = 3
DEMO_SAMPLES = 32
DEMO_SEED = 0

app = typer.Typer(
    name="heartloop",
    help="How well does a dialogue model take care of a person over a whole conversation?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(scenarios_app, name="scenarios")
app.add_typer(runs_app)
app.add_typer(rejudge_app)
app.add_typer(train_app)
app.add_typer(import_app, name="import")
app.add_typer(export_app)
app.add_typer(validate_app)


def main() -> None:
    """Entry point: runs the command and turns our errors into one sentence and exit code 2."""
    from heartloop.core.errors import InputError, UseError

    interrupted = "heartloop: interrupted; finished dialogues are kept, the same command goes on from there"
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how typer reports Ctrl-C
            typer.echo(interrupted, err=True)
    except (UseError, InputError) as error:
        typer.echo(f"heartloop: {error}", err=True)
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        typer.echo(interrupted, err=True)
        code = 130
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # the command line's own usage error; its class differs between versions of typer
        code = 2
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        import heartloop

        typer.echo(heartloop.__version__)
        raise typer.Exit


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("demo")) -> None:
    """Scripted supporters meet shipped people of all four environments; leaderboards here, and a report. No key, no network."""
    import shutil

    from heartloop.cli.running import play_run, settings_of, write_report
    from heartloop.core.errors import UseError
    from heartloop.environments.catalogue import entry_of
    from heartloop.evaluation.runner import player
    from heartloop.evaluation.settings import stratified
    from heartloop.models.baselines import GENERAL, IN_SCENES
    from heartloop.models.names import Meter, resolve

    marker = out / ".demo"
    parts = {
        "sage": (out / "run", GENERAL, DEMO_SCENARIOS),
        "eibench": (out / "eibench", IN_SCENES, DEMO_SCENES),
        "empa": (out / "empa", GENERAL, DEMO_CASES),
        "perm": (out / "perm", GENERAL, DEMO_SAMPLES),
    }
    for run, *_ in parts.values():  # an earlier demo: the settings may have moved on since
        if (run / "settings.json").exists():
            if not marker.exists():
                raise UseError(f"{run} holds a run that no demo made; choose another --out")
            shutil.rmtree(run)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    played = []
    for name, (run, supporters, limit) in parts.items():
        entry = entry_of(name)
        models = [f"heartloop/{supporter}" for supporter in supporters]
        environment = entry.build(stratified(entry.load(entry.sets[0]), limit), entry.person(None))
        settings = settings_of(environment, models, user="embedded", scenario_set=entry.sets[0], limit=limit, seed=DEMO_SEED)
        policies = {model: resolve(model) for model in models}
        played.append(play_run(run, settings, player(environment, policies), Meter(), max_connections=8)[1])
    page = write_report(played, out)
    typer.echo(
        "\nThe person was played by rules, not by a language model: this shows the instrument, it ranks no real model.\n"
        f"Report: {page}"
    )


@app.command("eval")
def evaluate_command(
    environment: Annotated[str, typer.Argument(help="What to play: sage, eibench, empa, perm, daily or eqbench.")],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            help="Model under test, once each: service/model, heartloop/listener, python:module:function, checkpoint:DIR.",
        ),
    ],
    simulator: Annotated[str | None, typer.Option(help="Model that plays the person.")] = None,
    user: Annotated[str | None, typer.Option(help="embedded: the person is played by rules, without a model.")] = None,
    scenarios: Annotated[
        str | None,
        typer.Option(
            help="sage: support or chat. eibench: test or train. empa: cases. perm: samples. daily: instances. "
            "The first by default. Or a file. eqbench: a checkout of it."
        ),
    ] = None,
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Leave out scenarios with this tag; repeat for several.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many scenarios, evenly over intentions, scenes or axes.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Dialogues per model and scenario.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides all that is left to chance.")] = 0,
    shard: Annotated[str | None, typer.Option(help="i/n: only the i-th of n parts of the scenarios.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="sage: corrected; eibench: paper; empa: released, or paper; perm: released, or unit; daily: paper; "
            "eqbench: released."
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="sage: vanilla, challenging (more reserved). eibench: think, direct (no think block). "
            "eqbench: official, repaired (reading of prompt headers)."
        ),
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(min=1, help="Policy replies at most; sage 10, eibench 8, empa 45, perm and daily 1, eqbench as written."),
    ] = None,
    relation_weight: Annotated[
        float | None, typer.Option(help="eibench: weight of the relation in the outcome, 0 to 1; 0.5 by default.")
    ] = None,
    window: Annotated[int | None, typer.Option(min=1, help="empa: policy replies between two judgements; 1 by default.")] = None,
    bystander_weight: Annotated[
        float | None, typer.Option(help="perm: weight of the bystander in the reward, from 0; 0.5 by default.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="perm: leave out of the reward resonation, expression, reception, bystander or length; repeatable."),
    ] = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option("--sampling", help="role.setting=value, e.g. policy.temperature=0.7, simulator.max_tokens=800."),
    ] = None,
    max_connections: MaxConnections = 32,
    timeout: Timeout = 120.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
    pilot: Annotated[bool, typer.Option("--pilot", help="Play two dialogues, print the estimate, stop.")] = False,
    yes: Yes = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Play failed dialogues again.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/ and a name with the settings' hash.")] = None,
    cache: Cache = None,
) -> None:
    """Models talk with simulated people; how those felt is the score. The same command again resumes."""
    from contextlib import nullcontext

    from heartloop.cli.running import Pilot, exit_code_of, open_models, play_run, settings_of, write_report
    from heartloop.core.dialogue import Sampling
    from heartloop.core.errors import UseError
    from heartloop.environments.catalogue import entry_of
    from heartloop.evaluation.runner import player
    from heartloop.evaluation.settings import Shard, read_samplings, stratified
    from heartloop.models.cache import cache_at
    from heartloop.models.names import Meter, counted, is_paid, load_env, load_prices

    entry = entry_of(environment)
    if user not in (None, "embedded") or (user is None) == (simulator is None):
        raise UseError("say who plays the person: either --user embedded, or --simulator service/model")
    if len(set(model)) != len(model):
        raise UseError(f"--model names a model twice: {', '.join(model)}; repeats are asked for with --repeats")
    load_env()
    samplings = read_samplings(sampling or [], roles=("policy", "simulator"))
    if entry.policy_sampling != Sampling():
        samplings["policy"] = samplings.get("policy", Sampling()).over(entry.policy_sampling)
    people = entry.set_of(scenarios)
    chosen = stratified(entry.people(people, variant, exclude_tags=exclude_tag or []), limit)
    part = Shard.parse(shard) if shard is not None else None
    if part is not None:
        chosen = part.of(chosen)
    names = [*model, simulator] if simulator is not None else list(model)
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=names)
    found = open_models(names, timeout=timeout, retries=retries, max_connections=max_connections)
    kept = cache_at(cache)
    policies: dict[str, ChatModel] = {name: counted(found[name], meter, "policy", kept) for name in model}
    judge = counted(found[simulator], meter, "simulator", kept) if simulator is not None else None
    built = entry.build(
        chosen, entry.person(judge, samplings.get("simulator")), preset=preset, variant=variant, max_turns=max_turns,
        relation_weight=relation_weight, window=window, bystander_weight=bystander_weight, without=without,
    )  # fmt: skip
    settings = settings_of(
        built, model, user=user or "llm", scenario_set=people, limit=limit, seed=seed, repeats=repeats, shard=part,
        exclude_tags=tuple(sorted(exclude_tag or ())), sampling=samplings,
        prices=meter.prices,
        weights={name: getattr(found[name], "source", "") for name in model if name.startswith("checkpoint:")},
    )  # fmt: skip
    run = out or Path("runs") / f"{entry.name}-{settings.hash}"
    paid = [name for name in names if is_paid(name)]
    ask = Pilot(meter, yes=yes, only=pilot) if pilot or paid else None
    with kept or nullcontext():
        ended, played = play_run(
            run, settings, player(built, policies, samplings.get("policy")), meter, max_connections=max_connections,
            retry_failed=retry_failed, pilot=ask, hear_first=[name for name in model if name in paid], opened=found,
            cache=kept,
        )  # fmt: skip
        page = write_report([played], run / "report")
    typer.echo(f"\nRun: {run}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, of evaluations or of training, finished or not.")],
    out: Annotated[Path | None, typer.Option(help="Where the site goes; by default report/ in the first run.")] = None,
) -> None:
    """Write the report of one or several runs: leaderboards of evaluations, curves of training."""
    from functools import partial

    from rich.console import Console

    from heartloop.report.site import write_site
    from heartloop.report.training_text import training_tables

    for table in training_tables(runs):
        Console().print(table)
    typer.echo(f"Report: {write_site(runs, out or runs[0] / 'report', tell=partial(typer.echo, err=True))}")


@app.command()
def check(
    environment: Annotated[str, typer.Argument(help="Which environment: sage, eibench, empa, perm, daily or eqbench.")] = "sage",
    scenarios: Annotated[
        str | None, typer.Option(help="One set, file or checkout; by default every set that is shipped.")
    ] = None,
) -> None:
    """Conformance test of an environment with its embedded user: same seed, same result, and more."""
    from heartloop.core.errors import EnvironmentBroken
    from heartloop.environments.catalogue import entry_of
    from heartloop.environments.check import check_environment
    from heartloop.models.baselines import Baseline

    entry = entry_of(environment)
    try:
        for name in [entry.set_of(scenarios)] if scenarios or not entry.sets else entry.sets:
            for preset in entry.presets:
                for variant in entry.variants:
                    people = entry.people(name, variant)
                    built = entry.build(people, entry.person(None), preset=preset, variant=variant)
                    check_environment(built, policy=Baseline("listener"))
                    typer.echo(f"{entry.name}, {name}, {preset}, {variant}: keeps its promises")
    except EnvironmentBroken as broken:
        typer.echo(f"heartloop: {broken}", err=True)
        raise typer.Exit(1) from broken


if __name__ == "__main__":
    main()
