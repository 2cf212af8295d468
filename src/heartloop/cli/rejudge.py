"""The `heartloop rejudge` command; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli.options import (
    Cache,
    Judge,
    JudgePilot,
    JudgeSampling,
    MaxConnections,
    MaxCost,
    MaxTokens,
    NewRun,
    OptionValues,
    Prices,
    Retries,
    RetryJudging,
    Timeout,
    Yes,
)

if TYPE_CHECKING:
    from heartloop.core.chat import ChatModel

__all__ = ["rejudge_app"]

rejudge_app = typer.Typer(rich_markup_mode=None)


@rejudge_app.command()
def rejudge(
    run: Annotated[Path, typer.Argument(help="A run directory, played or imported; it stays as it is.")],
    judge: Judge,
    option: OptionValues = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Scenario set, file or folder; by default what the run was played with.")
    ] = None,
    sampling: JudgeSampling = None,
    max_connections: MaxConnections = 32,
    timeout: Timeout = 120.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
    pilot: JudgePilot = False,
    yes: Yes = False,
    retry_failed: RetryJudging = False,
    out: NewRun = None,
    cache: Cache = None,
) -> None:
    """Rejudge a run: another judge appraises the stored replies. Only the judge is called."""
    from contextlib import nullcontext

    from heartloop.cli.running import Pilot, exit_code_of, play_run, read_options, sampling_of_judge, write_report
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.agreement import agreement, agreement_text
    from heartloop.evaluation.rejudging import Rejudging
    from heartloop.evaluation.run_directory import played_settings
    from heartloop.evaluation.runs import read_run
    from heartloop.models.cache import cache_at
    from heartloop.models.names import Meter, counted, is_paid, load_env, load_prices, resolve

    load_env()
    samplings = sampling_of_judge(judge, sampling or [])
    spec = load_environment(played_settings(run).environment)
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=[judge])
    kept = cache_at(cache)
    found: dict[str, ChatModel] = {}
    if judge != "embedded":
        found[judge] = resolve(judge, timeout=timeout, retries=retries, max_connections=max_connections)
    reader = spec.judge(counted(found[judge], meter, "judge", kept) if found else None, samplings)
    job = Rejudging(
        run, reader, options=read_options(spec, option), scenarios=scenarios, sampling=samplings,
        prices=meter.prices,
    )  # fmt: skip
    path = out or job.beside
    ask = Pilot(meter, yes=yes, only=pilot) if pilot or is_paid(judge) else None
    with kept or nullcontext():
        ended, played = play_run(
            path, job.settings, job.play, meter, jobs=job.jobs, max_connections=max_connections, retry_failed=retry_failed,
            pilot=ask, opened=found, cache=kept, done="judged",
        )  # fmt: skip
        page = write_report([played], path / "report")
    seen = agreement(read_run(run).transcripts, read_run(path).transcripts)
    typer.echo("\n" + agreement_text(seen, first=job.settings.rejudged["user"], second=judge))
    typer.echo(f"\nRun: {path}\nReport: {page}")
    raise typer.Exit(exit_code_of(ended, done="judged"))
