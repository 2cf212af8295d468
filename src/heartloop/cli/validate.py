"""`heartloop validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli import options as given

__all__ = ["validate_app"]

validate_app = typer.Typer(rich_markup_mode=None)


@validate_app.command()
def validate(
    context: typer.Context,
    runs: Annotated[
        list[Path], typer.Argument(help="Run directories of one environment, played or imported; they are not changed.")
    ],
    suite: Annotated[
        str | None, typer.Option(help="Validity suite; without it, the error message lists the suites of the environment.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Judge of the stored replies: service/model, or embedded.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of dialogues per run, sampled; rerun with a larger limit to continue.")
    ] = None,
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
    out: Annotated[
        Path | None, typer.Option(help="Folder of the judged variants, validity.json and the page. Default: beside the run.")
    ] = None,
    cache: given.Cache = None,
) -> None:
    """Judge stored dialogues again under controlled changes, and compare the scores. Rerun the same command to resume."""
    from contextlib import nullcontext

    from rich.console import Console

    from heartloop.cli.running import Judging, exit_code_of, play_run, read_options
    from heartloop.core.errors import UseError
    from heartloop.validity.judging import JudgedVariants, directories, judged_variants, output_folder
    from heartloop.validity.page import write_validity_json, write_validity_page
    from heartloop.validity.suites import environment_of, suite_of
    from heartloop.validity.text import result_table

    spec = environment_of(runs)
    chosen = suite_of(spec, suite)
    if judge is None:
        raise UseError("--judge is missing; pass service/model, or embedded")
    by = Judging(
        judge, sampling, request, max_tokens=max_tokens, max_cost=max_cost, prices=prices, cache=cache, pilot=pilot, yes=yes,
        timeout=timeout, retries=retries, max_connections=max_connections,
    )  # fmt: skip
    judges = chosen.judges(spec, by.model, by.sampling)
    sources = [
        JudgedVariants(
            run, str(suite), chosen, judges, options=read_options(context, spec, option), scenarios=scenarios,
            sampling=by.sampling, prices=by.meter.prices, limit=limit,
        )
        for run in runs
    ]  # fmt: skip
    folder = out or output_folder(runs[0], str(suite), judge)
    paths = directories(folder, runs, chosen.variants)
    code, stopped = 0, False
    ahead = [(source, path, variant) for source, path in zip(sources, paths, strict=True) for variant in chosen.variants]
    with by.cache or nullcontext():
        for number, (source, path, variant) in enumerate(ahead):
            if by.pilot is not None:
                by.pilot.further = sum(len(later.jobs) for later, _, _ in ahead[number + 1 :])
            typer.echo(f"{path[variant]}:")
            ended, _ = play_run(
                path[variant], source.settings(variant), source.play(variant, path[chosen.variants[0]]), by.meter,
                jobs=source.jobs, max_connections=max_connections, retry_failed=retry_failed, opened=by.opened, cache=by.cache,
                done="judged", ranked=False, pilot=by.pilot if by.pilot is not None and not by.pilot.asked else None,
            )  # fmt: skip
            code = max(code, exit_code_of(ended, done="judged"))
            stopped = ended.stopped is not None
            if stopped:
                break
    if stopped and number < len(chosen.variants) - 1:
        typer.echo("Not every variant of the first run is judged, so there is no result yet. Rerun the same command to resume.")
        raise typer.Exit(code)
    result = chosen.result(judged_variants(paths, chosen))
    write_validity_json(result, folder / "validity.json")
    page = write_validity_page(chosen, result, folder / "report")
    Console().print(result_table(result))
    typer.echo(f"\nNumbers: {folder / 'validity.json'}\nPage: {page}")
    raise typer.Exit(code)
