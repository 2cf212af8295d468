"""The `heartloop rejudge` command; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from heartloop.chat import ChatModel

__all__ = ["rejudge_app"]

rejudge_app = typer.Typer(rich_markup_mode=None)


@rejudge_app.command()
def rejudge(
    run: Annotated[Path, typer.Argument(help="A run directory, played or imported; it stays as it is.")],
    judge: Annotated[str, typer.Option(help="Who feels every stored reply anew: service/model, or embedded (rules, free).")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="sage: corrected or released. eibench, empa: paper or released. perm: released or unit. "
            "daily: paper. eqbench: released. By default as played."
        ),
    ] = None,
    scenarios: Annotated[
        str | None,
        typer.Option(help="support, chat, test, train, a file or a checkout; by default what the run was played with."),
    ] = None,
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
    out: Annotated[Path | None, typer.Option(help="The new run directory; by default beside the run.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every answer; a stored one is not paid for again. Else $HEARTLOOP_STORE.")
    ] = None,
) -> None:
    """Another judge reads a run: the same replies, the same words, other feelings. Only the judge is called."""
    from contextlib import nullcontext

    from heartloop.analysis import read_run
    from heartloop.analysis.agreement import agreement, agreement_text
    from heartloop.environments.catalogue import entry_of
    from heartloop.errors import UseError
    from heartloop.evaluation.rejudging import Rejudging
    from heartloop.evaluation.run_directory import played_settings
    from heartloop.evaluation.settings import read_samplings
    from heartloop.models import Meter, counted, is_paid, is_scripted, load_env, load_prices, resolve
    from heartloop.replay import store_at
    from heartloop.running import Pilot, exit_code_of, play_run, write_report

    load_env()
    if judge != "embedded" and is_scripted(judge):
        raise UseError(f"--judge is {judge}, who only replies; expected service/model, or embedded")
    samplings = read_samplings(sampling or [], roles=("judge",)).get("judge")
    if judge == "embedded" and samplings is not None:
        raise UseError("--sampling sets how a model answers; --judge embedded judges by rules and takes none, leave it out")
    entry = entry_of(played_settings(run).environment)
    table = load_prices(prices) if prices is not None else {}
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=table, models=[judge])
    kept = store_at(store)
    found: dict[str, ChatModel] = {}
    if judge != "embedded":
        found[judge] = resolve(judge, timeout=timeout, retries=retries, max_connections=max_connections)
    reader = entry.judge(counted(found[judge], meter, "judge", kept) if found else None, samplings)
    job = Rejudging(
        run, reader, preset=preset, scenarios=scenarios, sampling=samplings,
        prices={name: price._asdict() for name, price in table.items()},
    )  # fmt: skip
    path = out or job.beside
    bounded = yes or max_tokens is not None or max_cost is not None
    ask = Pilot(yes=bounded, only=pilot, meter=meter, priced=bool(table)) if pilot or is_paid(judge) else None
    with kept or nullcontext():
        ended, played = play_run(
            path, job.settings, job.play, meter, jobs=job.jobs, max_connections=max_connections, retry_failed=retry_failed,
            pilot=ask, opened=found, store=kept, done="judged",
        )  # fmt: skip
        page = write_report([played], path / "report")
    seen = agreement(read_run(run).transcripts, read_run(path).transcripts)
    typer.echo("\n" + agreement_text(seen, first=job.settings.rejudged["simulator"], second=judge))
    typer.echo(f"\nRun: {path}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended, done="judged"))
