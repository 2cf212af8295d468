"""`heartloop validate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heartloop.cli import options as given

if TYPE_CHECKING:
    from heartloop.cli.running import Judging
    from heartloop.environments.spec import EnvironmentSpec
    from heartloop.environments.suites import Material, RejudgingSuite, RunSuite

__all__ = ["validate_app"]

validate_app = typer.Typer(rich_markup_mode=None)


@validate_app.command()
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
        Path | None, typer.Option(help="Folder of the answers, validity.json and the page. Default: beside the run.")
    ] = None,
    cache: given.Cache = None,
) -> None:
    """Check what the scores of runs measure, with suites that read the runs and suites that ask a judge. Rerun to resume."""
    from heartloop.cli.running import Judging, read_options
    from heartloop.core.errors import UseError
    from heartloop.environments.suites import RejudgingSuite
    from heartloop.validity.material import material_of
    from heartloop.validity.suites import environment_of, run_suites, suite_of

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
    by = Judging(
        judges, sampling, request, max_tokens=max_tokens, max_cost=max_cost, prices=prices, cache=cache,
        timeout=timeout, retries=retries, max_connections=max_connections,
    )  # fmt: skip
    asking: dict[str, Any] = {"yes": yes, "pilot": pilot, "retry_failed": retry_failed, "max_connections": max_connections}
    for name, variants in rejudging.items():
        options = read_options(context, spec, option)
        _rejudge(spec, runs, name, variants, by, options, limit=limit, scenarios=scenarios, out=out, **asking)
        return
    material = material_of(
        spec, runs, judges=judges, scenarios=scenarios, limit=limit, people=people, labels=labels, ratings=ratings,
    )  # fmt: skip
    _read(material, runs, reading or run_suites(spec), by, named=bool(chosen), out=out, **asking)


def _read(
    material: Material,
    runs: list[Path],
    suites: Mapping[str, RunSuite],
    by: Judging,
    *,
    named: bool,
    out: Path | None,
    **asking: Any,
) -> None:
    """Runs suites that read runs, and writes their page.

    Args:
        named: whether the suites were chosen by name, so that none may be left out.
        asking: further arguments of `ask_suites`.
    """
    from heartloop.cli.asking import ask_suites
    from heartloop.core.chat import LOCAL_PREFIX
    from heartloop.core.errors import UseError
    from heartloop.core.text import amount
    from heartloop.validity.judging import beside
    from heartloop.validity.page import Part, write_validity_json, write_validity_page
    from heartloop.validity.text import print_results

    lacking = {name: why for name, one in suites.items() if (why := one.lacks(material)) is not None}
    if named and lacking:
        name, why = next(iter(lacking.items()))
        raise UseError(f"suite {name} cannot run: {why}")
    ready = {name: one for name, one in suites.items() if name not in lacking}
    folder = out or beside(runs[0])
    answers, code = ask_suites(ready, material, folder / "answers.jsonl", by, **asking)
    parts = [Part(name, one, one.result(material, answers[name])) for name, one in ready.items() if name in answers]
    left_out = [(name, suites[name].title, why) for name, why in lacking.items()]
    write_validity_json({part.name: part.result.record for part in parts}, folder / "validity.json")
    names = " and ".join(path.name or path.resolve().name for path in runs)
    about = f"{amount(len(material.dialogues), 'dialogue')} of {amount(len(material.models), 'model')} in {material.spec.title}."
    if material.judges:
        about += f" Judged by {' and '.join(material.judges)}."
    if f"{LOCAL_PREFIX}smollm2" in material.judges:
        about += " A judge of 135 million parameters tests whether the suites run; its answers measure nothing."
    page = write_validity_page(parts, folder / "report", title=f"Validity of {names}", about=about, left_out=left_out)
    print_results(parts, left_out)
    typer.echo(f"\nNumbers: {folder / 'validity.json'}\nPage: {page}")
    raise typer.Exit(code)


def _rejudge(
    spec: EnvironmentSpec,
    runs: list[Path],
    name: str,
    suite: RejudgingSuite,
    by: Judging,
    options: Mapping[str, Any],
    *,
    limit: int | None,
    scenarios: str | None,
    out: Path | None,
    yes: bool,
    pilot: bool,
    **how: Any,
) -> None:
    """Runs a suite that rejudges runs in variants, and writes its page.

    Args:
        how: further arguments of `evaluation.runner.work_through`.
    """
    from contextlib import nullcontext

    from rich.console import Console

    from heartloop.cli.running import exit_code_of, play_run
    from heartloop.validity.judging import JudgedVariants, directories, judged_variants, output_folder
    from heartloop.validity.page import Part, write_validity_json, write_validity_page
    from heartloop.validity.text import result_table

    ((judge, model),) = by.models.items()
    judges = suite.judges(spec, model, by.sampling)
    sources = [
        JudgedVariants(
            run, name, suite, judges, options=options, scenarios=scenarios, sampling=by.sampling, prices=by.meter.prices,
            limit=limit,
        )
        for run in runs
    ]  # fmt: skip
    folder = out or output_folder(runs[0], name, judge)
    paths = directories(folder, runs, suite.variants)
    code, stopped = 0, False
    ahead = [(source, path, variant) for source, path in zip(sources, paths, strict=True) for variant in suite.variants]
    estimate = by.pilot(yes=yes, only=pilot)
    with by.cache or nullcontext():
        for number, (source, path, variant) in enumerate(ahead):
            if estimate is not None:
                estimate.further = sum(len(later.jobs) for later, _, _ in ahead[number + 1 :])
            typer.echo(f"{path[variant]}:")
            ended, _ = play_run(
                path[variant], source.settings(variant), source.play(variant, path[suite.variants[0]]), by.meter,
                jobs=source.jobs, opened=by.opened, check=by.check, cache=by.cache, done="judged", ranked=False,
                pilot=estimate if estimate is not None and not estimate.asked else None, **how,
            )  # fmt: skip
            code = max(code, exit_code_of(ended, done="judged"))
            stopped = ended.stopped is not None
            if stopped:
                break
    if stopped and number < len(suite.variants) - 1:
        typer.echo("Not every variant of the first run is judged, so there is no result yet. Rerun the same command to resume.")
        raise typer.Exit(code)
    result = suite.result(judged_variants(paths, suite))
    write_validity_json(result.record, folder / "validity.json")
    page = write_validity_page([Part(name, suite, result)], folder / "report", title=suite.title)
    Console().print(result_table(result))
    typer.echo(f"\nNumbers: {folder / 'validity.json'}\nPage: {page}")
    raise typer.Exit(code)
