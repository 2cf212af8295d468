"""`heartloop validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli import options as given
from heartloop.core.errors import UseError


def validate(
    context: typer.Context,
    runs: Annotated[
        list[Path], typer.Argument(help="Run directories of one environment, played or imported; they are not changed.")
    ],
    suite: Annotated[
        list[str] | None, typer.Option(help="Validity suite; repeat for several. Default: all that have what they need.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge: service/model, or embedded; repeat for suites that compare several judges.")
    ] = None,
    people: Annotated[
        Path | None, typer.Option(help="Real dialogues to compare the user simulator with: a chat log (JSON lines) or a corpus.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Human labels of dialogues of the runs (CSV or JSON lines).")] = None,
    ratings: Annotated[Path | None, typer.Option(help="External ranking of the models (CSV: model, rating).")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of dialogues per run and model, sampled; a larger limit continues.")
    ] = None,
    option: given.OptionValues = None,
    scenarios: given.ScenariosOfRun = None,
    request: given.JudgeRequest = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the answers, validity.json and the page. Default: next to the run.")
    ] = None,
    *,
    calls: given.Calls,
) -> None:
    """Check what the scores of runs measure, with suites that read the runs and suites that ask a judge. Rerun to resume."""
    from heartloop.cli.running import Judging, read_options
    from heartloop.cli.validating import read_runs, rejudge_runs
    from heartloop.environments.suites import RejudgingSuite
    from heartloop.validity.suites import environment_of, material_of, run_suites, suite_of

    spec = environment_of(runs)
    chosen = {name: suite_of(spec, name) for name in suite or ()}
    rejudging = {name: one for name, one in chosen.items() if isinstance(one, RejudgingSuite)}
    reading = {name: one for name, one in chosen.items() if not isinstance(one, RejudgingSuite)}
    judges = judge or []
    if rejudging:
        if len(chosen) > 1:
            raise UseError(f"--suite {next(iter(rejudging))} rejudges whole runs and makes a page of its own; pass it alone")
        if len(judges) != 1:
            problem = f"--judge was given {len(judges)} times" if judges else "--judge is missing"
            raise UseError(f"{problem}; pass service/model, or embedded, once")
    elif option:
        raise UseError("-E applies only to suites that rejudge runs; remove it")
    by = Judging(judges, request, calls)
    if rejudging:
        ((name, one),) = rejudging.items()
        options = read_options(context, spec, option)
        raise typer.Exit(rejudge_runs(spec, runs, name, one, by, calls, options, limit=limit, scenarios=scenarios, out=out))
    material = material_of(
        spec, runs, judges=judges, scenarios=scenarios, limit=limit, people=people, labels=labels, ratings=ratings,
    )  # fmt: skip
    raise typer.Exit(read_runs(material, runs, reading or run_suites(spec), by, calls, named=bool(chosen), out=out))
