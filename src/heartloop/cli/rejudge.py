"""`heartloop rejudge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli import options as given

__all__ = ["rejudge_app"]

rejudge_app = typer.Typer(rich_markup_mode=None)


@rejudge_app.command()
def rejudge(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Run directory, played or imported; it is not changed.")],
    judge: given.Judge,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: that of the run.")] = None,
    sampling: given.JudgeSampling = None,
    request: given.JudgeRequest = None,
    max_connections: given.MaxConnections = 32,
    timeout: given.Timeout = 120.0,
    retries: given.Retries = 6,
    max_cost: given.MaxCost = None,
    max_tokens: given.MaxTokens = None,
    prices: given.Prices = None,
    pilot: given.JudgePilot = False,
    yes: given.Yes = False,
    retry_failed: given.RetryJudging = False,
    out: given.NewRun = None,
    cache: given.Cache = None,
) -> None:
    """Let another judge score the stored replies of a run. Only the judge is called."""
    from contextlib import nullcontext

    from heartloop.cli.running import Judging, exit_code_of, play_run, read_options, write_report
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.agreement import agreement, agreement_text
    from heartloop.evaluation.rejudging import Rejudging
    from heartloop.evaluation.run_directory import played_settings
    from heartloop.evaluation.runs import read_run

    by = Judging(
        [judge], sampling, request, max_tokens=max_tokens, max_cost=max_cost, prices=prices, cache=cache,
        timeout=timeout, retries=retries, max_connections=max_connections,
    )  # fmt: skip
    spec = load_environment(played_settings(run).environment)
    job = Rejudging(
        run, spec.judge(by.models[judge], by.sampling), options=read_options(context, spec, option), scenarios=scenarios,
        sampling=by.sampling, prices=by.meter.prices,
    )  # fmt: skip
    path = out or job.beside
    with by.cache or nullcontext():
        ended, played = play_run(
            path, job.settings, job.play, by.meter, jobs=job.jobs, max_connections=max_connections, retry_failed=retry_failed,
            pilot=by.pilot(yes=yes, only=pilot), opened=by.opened, check=by.check, cache=by.cache, done="judged",
        )  # fmt: skip
        page = write_report([played], path / "report")
    seen = agreement(read_run(run).transcripts, read_run(path).transcripts)
    typer.echo("\n" + agreement_text(seen, first=job.settings.rejudged["user"], second=judge))
    typer.echo(f"\nRun: {path}\nReport: {page}\nNext, both in one report: heartloop report {path} {run}")
    raise typer.Exit(exit_code_of(ended, done="judged"))
