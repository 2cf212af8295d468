"""The `heartloop validate` commands; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from heartloop.chat import ChatModel

__all__ = ["validate_app"]

validate_app = typer.Typer(
    help="Change one thing in stored dialogues, judge them again, and see whether the measure notices.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@validate_app.callback()
def _group() -> None:
    """Keeps the environment's name a command, while there is one."""


@validate_app.command("empa")
def validate_empa(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of empa, played or imported; they stay as they are.")],
    judge: Annotated[str, typer.Option(help="Who judges every stored reply anew: service/model, or embedded (rules, free).")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many dialogues of each run, drawn by chance; a larger one later goes on.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="paper or released; by default as played.")] = None,
    scenarios: Annotated[str | None, typer.Option(help="cases, or a file; by default what the run was played with.")] = None,
    sampling: Annotated[
        list[str] | None, typer.Option("--sampling", help="judge.setting=value, e.g. judge.temperature=0.")
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Dialogues in flight at once.")] = 32,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for one answer.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, help="Further attempts at an answer after the first.")] = 6,
    max_cost: Annotated[float | None, typer.Option(help="Stop before spending more, in the price file's currency.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop before the judge uses more tokens.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="TOML file with input and output price per million tokens by model.")
    ] = None,
    pilot: Annotated[bool, typer.Option("--pilot", help="Judge two dialogues, print the estimate, stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go on after the estimate without asking.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Judge failed dialogues again.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the variants and what they show; by default beside the first run.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every answer; a stored one is not paid for again. Else $HEARTLOOP_STORE.")
    ] = None,
) -> None:
    """Flip the persona, or replace replies by performed empathy: does EMPA's score fall, and do plainer scores?"""
    from contextlib import nullcontext

    from rich.console import Console

    from heartloop.analysis.validity import validity, write_validity
    from heartloop.analysis.validity_page import write_validity_page
    from heartloop.analysis.validity_text import validity_table
    from heartloop.dialogue import read_transcripts
    from heartloop.environments.empa import EmbeddedUser, LLMUser
    from heartloop.environments.empa.direct_judge import DirectJudge, EmbeddedDirectJudge, LLMDirectJudge
    from heartloop.environments.empa.environment import EmpaUser
    from heartloop.environments.empa.perturbations import ORIGINAL, PERTURBATIONS
    from heartloop.errors import UseError
    from heartloop.evaluation.settings import read_samplings
    from heartloop.evaluation.validating import Validating, check_empa, place_beside, places_of
    from heartloop.models import Meter, counted, is_paid, is_scripted, load_env, load_prices, resolve
    from heartloop.replay import store_at
    from heartloop.running import Pilot, exit_code_of, play_run

    load_env()
    for run in runs:
        check_empa(run)
    if judge != "embedded" and is_scripted(judge):
        raise UseError(f"--judge is {judge}, who only replies; expected service/model, or embedded")
    samplings = read_samplings(sampling or [], roles=("judge",)).get("judge")
    if judge == "embedded" and samplings is not None:
        raise UseError("--sampling sets how a model answers; --judge embedded judges by rules and takes none, leave it out")
    table = load_prices(prices) if prices is not None else {}
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=table, models=[judge])
    kept = store_at(store)
    found: dict[str, ChatModel] = {}
    reader: EmpaUser = EmbeddedUser()
    direct: DirectJudge = EmbeddedDirectJudge()
    if judge != "embedded":
        found[judge] = resolve(judge, timeout=timeout, retries=retries, max_connections=max_connections)
        asked = counted(found[judge], meter, "judge", kept)
        reader, direct = LLMUser(asked, sampling=samplings, role="judge"), LLMDirectJudge(asked, sampling=samplings)
    priced = {name: price._asdict() for name, price in table.items()}
    sources = [
        Validating(
            run, reader, direct, preset=preset, scenarios=scenarios, sampling=samplings, prices=priced, limit=limit
        )
        for run in runs
    ]  # fmt: skip
    folder = out or place_beside(runs[0], judge)
    places = places_of(folder, runs)
    bounded = yes or max_tokens is not None or max_cost is not None
    ask = Pilot(yes=bounded, only=pilot, meter=meter, priced=bool(table)) if pilot or is_paid(judge) else None
    code, stopped = 0, False
    ahead = [(source, place, variant) for source, place in zip(sources, places, strict=True) for variant in PERTURBATIONS]
    with kept or nullcontext():
        for number, (source, place, variant) in enumerate(ahead):
            if ask is not None:
                ask.further = sum(len(later.jobs) for later, _, _ in ahead[number + 1 :])
            typer.echo(f"{place[variant]}:")
            ended, _ = play_run(
                place[variant], source.settings(variant), source.play(variant, place[ORIGINAL]), meter, jobs=source.jobs,
                max_connections=max_connections, retry_failed=retry_failed, opened=found, store=kept, done="judged", ranked=False,
                pilot=ask if ask is not None and not ask.asked else None,
            )  # fmt: skip
            code = max(code, exit_code_of(ended, done="judged"))
            stopped = ended.stopped is not None
            if stopped:
                break
    if stopped and number < len(PERTURBATIONS) - 1:
        typer.echo("Not every variant of the first run is judged, so there is nothing to compare yet; the same command goes on.")
        raise typer.Exit(code)
    read = [
        {variant: list(read_transcripts(path / "transcripts.jsonl")) for variant, path in place.items() if path.is_dir()}
        for place in places
    ]
    seen = validity([variants for variants in read if ORIGINAL in variants])
    write_validity(seen, folder / "validity.json")
    page = write_validity_page(seen, folder / "report")
    Console().print(validity_table(seen))
    typer.echo(f"\nNumbers: {folder / 'validity.json'}\nPage: {page}")
    raise typer.Exit(code)
