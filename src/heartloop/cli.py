"""The command line: one short function a command; imports inside the function, so that `--help` is quick.

Exit codes: 0 done, 1 more than 5 % of the dialogues unscored, stopped by the budget, or the gate of `compare` tripped, 2 wrong
use or input. Commands on finished runs stand in `cli_runs`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli_export import export_app
from heartloop.cli_import import import_app
from heartloop.cli_rejudge import rejudge_app
from heartloop.cli_runs import runs_app

if TYPE_CHECKING:
    from heartloop.chat import ChatModel

__all__ = ["main"]

DEMO_SCENARIOS = 24
DEMO_SEED = 0

app = typer.Typer(
    name="heartloop",
    help="How well does a dialogue model take care of a person over a whole conversation?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
scenarios_app = typer.Typer(
    help="Look at the shipped scenarios, or check a file of your own.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(scenarios_app, name="scenarios")
app.add_typer(runs_app)
app.add_typer(rejudge_app)
app.add_typer(import_app, name="import")
app.add_typer(export_app, name="export")


def main() -> None:
    """Entry point: runs the command and turns our errors into one sentence and exit code 2."""
    from heartloop.errors import InputError, UseError

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
    """Scripted supporters meet 24 shipped people; prints the leaderboard and writes a report. No key, no network."""
    import shutil

    from heartloop.environments.sage import EmbeddedUser, Sage, load_scenarios
    from heartloop.errors import UseError
    from heartloop.evaluation import player
    from heartloop.evaluation.settings import stratified
    from heartloop.models import Meter, resolve
    from heartloop.running import play_run, settings_of
    from heartloop.supporters import GENERAL

    run, marker = out / "run", out / ".demo"
    if (run / "settings.json").exists():  # an earlier demo: the settings may have moved on since
        if not marker.exists():
            raise UseError(f"{run} holds a run that no demo made; choose another --out")
        shutil.rmtree(run)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    names = [f"heartloop/{name}" for name in GENERAL]
    scenarios = stratified(load_scenarios("support"), DEMO_SCENARIOS)
    environment = Sage(scenarios, EmbeddedUser())
    settings = settings_of(environment, names, user="embedded", scenario_set="support", limit=DEMO_SCENARIOS, seed=DEMO_SEED)
    policies = {name: resolve(name) for name in names}
    _, page = play_run(run, settings, player(environment, policies), Meter(), page=out, max_connections=8)
    typer.echo(
        "\nThe person was played by rules, not by a language model: this shows the instrument, it ranks no real model.\n"
        f"Report: {page}"
    )


@app.command("eval")
def evaluate_command(
    environment: Annotated[str, typer.Argument(help="What to play: sage.")],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            help="Model under test; repeat for several. service/model, heartloop/listener, python:module:function.",
        ),
    ],
    simulator: Annotated[str | None, typer.Option(help="Model that plays the person.")] = None,
    user: Annotated[str | None, typer.Option(help="embedded: the person is played by rules, without a model.")] = None,
    scenarios: Annotated[str, typer.Option(help="support, chat, or a JSON-lines file.")] = "support",
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Leave out scenarios with this tag; repeat for several.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many scenarios, evenly over the intentions.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Dialogues per model and scenario.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides all that is left to chance.")] = 0,
    shard: Annotated[str | None, typer.Option(help="i/n: only the i-th of n parts of the scenarios.")] = None,
    preset: Annotated[str, typer.Option(help="corrected, or released (as the authors' code computes it).")] = "corrected",
    variant: Annotated[str, typer.Option(help="vanilla, or challenging (a more reserved person).")] = "vanilla",
    max_turns: Annotated[int, typer.Option(min=1, help="Policy replies in a dialogue at most.")] = 10,
    sampling: Annotated[
        list[str] | None,
        typer.Option("--sampling", help="role.setting=value, e.g. policy.temperature=0.7, simulator.max_tokens=800."),
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Dialogues in flight at once.")] = 32,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for one answer.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, help="Further attempts at an answer after the first.")] = 6,
    max_cost: Annotated[float | None, typer.Option(help="Stop before spending more, in the price file's currency.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop before using more tokens, all roles together.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="TOML file with input and output price per million tokens by model.")
    ] = None,
    pilot: Annotated[bool, typer.Option("--pilot", help="Play two dialogues, print the estimate, stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go on after the estimate without asking.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Play failed dialogues again.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/ and a name with the settings' hash.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every answer; a stored one is not paid for again. Else $HEARTLOOP_STORE.")
    ] = None,
) -> None:
    """Models talk with simulated people; how those felt is the score. The same command again resumes."""
    from contextlib import nullcontext

    from heartloop.environments.sage import EmbeddedUser, LLMUser, Sage, load_people
    from heartloop.errors import UseError
    from heartloop.evaluation import player
    from heartloop.evaluation.settings import Shard, read_samplings, stratified
    from heartloop.models import Meter, counted, is_paid, load_env, load_prices, resolve
    from heartloop.replay import store_at
    from heartloop.running import Pilot, exit_code_of, play_run, settings_of

    if environment != "sage":
        raise UseError(f"unknown environment {environment!r}; expected sage")
    if user not in (None, "embedded") or (user is None) == (simulator is None):
        raise UseError("say who plays the person: either --user embedded, or --simulator service/model")
    if len(set(model)) != len(model):
        raise UseError(f"--model names a model twice: {', '.join(model)}; repeats are asked for with --repeats")
    load_env()
    samplings = read_samplings(sampling or [], roles=("policy", "simulator"))
    chosen = stratified(load_people(scenarios, exclude_tags=exclude_tag or []), limit)
    part = Shard.parse(shard) if shard is not None else None
    if part is not None:
        chosen = part.of(chosen)
    table = load_prices(prices) if prices is not None else {}
    names = [*model, simulator] if simulator is not None else list(model)
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=table, models=names)
    found = {
        name: resolve(name, timeout=timeout, retries=retries, max_connections=max_connections) for name in dict.fromkeys(names)
    }
    kept = store_at(store)
    policies: dict[str, ChatModel] = {name: counted(found[name], meter, "policy", kept) for name in model}
    if simulator is None:
        person: EmbeddedUser | LLMUser = EmbeddedUser()
    else:
        person = LLMUser(counted(found[simulator], meter, "simulator", kept), sampling=samplings.get("simulator"))
    sage = Sage(chosen, person, preset=preset, variant=variant, max_turns=max_turns)
    settings = settings_of(
        sage, model, user=user or "llm", scenario_set=scenarios, limit=limit, seed=seed, repeats=repeats, shard=part,
        exclude_tags=tuple(sorted(exclude_tag or ())), sampling=samplings,
        prices={name: price._asdict() for name, price in table.items()},
    )  # fmt: skip
    run = out or Path("runs") / f"sage-{settings.hash}"
    paid = [name for name in names if is_paid(name)]
    bounded = yes or max_tokens is not None or max_cost is not None
    ask = Pilot(yes=bounded, only=pilot, meter=meter, priced=bool(table)) if pilot or paid else None
    with kept or nullcontext():
        ended, page = play_run(
            run, settings, player(sage, policies, samplings.get("policy")), meter, max_connections=max_connections,
            retry_failed=retry_failed, pilot=ask, hear_first=[name for name in model if name in paid], opened=found,
            store=kept, page=run / "report",
        )  # fmt: skip
    typer.echo(f"\nRun: {run}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path | None, typer.Option(help="Where the site goes; by default report/ in the first run.")] = None,
) -> None:
    """Write the report of one or several finished runs."""
    from functools import partial

    from heartloop.analysis import write_site

    typer.echo(f"Report: {write_site(runs, out or runs[0] / 'report', tell=partial(typer.echo, err=True))}")


@app.command()
def check(environment: Annotated[str, typer.Argument(help="Which environment: sage.")] = "sage") -> None:
    """Conformance test of an environment with its embedded user: same seed, same result, and more."""
    from heartloop.environments.check import check_environment
    from heartloop.environments.sage import PRESETS, SETS, VARIANTS, EmbeddedUser, Sage, load_scenarios
    from heartloop.errors import EnvironmentBroken, UseError
    from heartloop.supporters import Supporter

    if environment != "sage":
        raise UseError(f"unknown environment {environment!r}; expected sage")
    try:
        for name in SETS:
            for preset in PRESETS:
                for variant in VARIANTS:
                    sage = Sage(load_scenarios(name), EmbeddedUser(), preset=preset, variant=variant)
                    check_environment(sage, policy=Supporter("listener"))
                    typer.echo(f"sage, {name}, {preset}, {variant}: keeps its promises")
    except EnvironmentBroken as broken:
        typer.echo(f"heartloop: {broken}", err=True)
        raise typer.Exit(1) from broken


@scenarios_app.command("list")
def scenarios_list(
    scenarios: Annotated[str, typer.Argument(help="support, chat, or a file.")] = "support",
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Leave out scenarios with this tag.")] = None,
) -> None:
    """One line a scenario: id, intention, person, theme, tags."""
    from heartloop.environments.sage import load_people

    for s in load_people(scenarios, exclude_tags=exclude_tag or []):
        typer.echo(f"{s.id:24} {s.intention:11} {s.person}: {s.theme} [{' '.join(s.tags)}]")


@scenarios_app.command("show")
def scenarios_show(
    scenario: Annotated[str, typer.Argument(help="An id, e.g. support-listen-01.")],
    scenarios: Annotated[
        str | None, typer.Option("--from", help="support, chat, or a file; by default taken from the id.")
    ] = None,
) -> None:
    """One scenario, as a simulator reads it, with its written lines."""
    from heartloop.environments.sage import Scenario, load_people
    from heartloop.environments.sage.llm_user import render_background, render_persona
    from heartloop.errors import UseError

    found = {s.id: s for s in load_people(scenarios or scenario.partition("-")[0])}
    if scenario not in found:
        raise UseError(f"no scenario {scenario!r}; `heartloop scenarios list` shows them")
    s = found[scenario]
    typer.echo(f"{s.title} ({s.id}; {s.theme}; {' '.join(s.tags)})\n\nSecretly {s.intention_text}.\n")
    typer.echo(f"{render_persona(s)}\n\n{render_background(s)}\n\nFirst message: {s.first_message}\n")
    for beat in s.beats if isinstance(s, Scenario) else ():
        typer.echo(f"  {beat.kind:8} {beat.text}")


@scenarios_app.command("check")
def scenarios_check(scenarios: Annotated[str, typer.Argument(help="support, chat, or a file.")]) -> None:
    """Schema, give-away first messages, near-duplicates, namesakes: what a set must pass."""
    from heartloop.authoring.checks import problems_of_set
    from heartloop.environments.sage import Scenario, load_people

    people = load_people(scenarios)
    own = [s for s in people if isinstance(s, Scenario)]
    problems = problems_of_set(own) if own else []
    for problem in problems:
        typer.echo(problem)
    if problems:
        typer.echo(f"{len(problems)} problems", err=True)
        raise typer.Exit(1)
    typer.echo("no problem found" + ("" if own else "; of released people only the form is checked"))


if __name__ == "__main__":
    main()
