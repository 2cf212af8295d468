"""Commands on finished runs: compare, merge, compact, rescore, rejudge, validate, report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from heartloop.cli import options as given
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount
from heartloop.evaluation.remote import refresh, with_urls

_WATCH_EVERY = 2.0  # seconds
_LONGEST_NAMES = 100  # bytes; a file system allows 255


def compare(
    run_a: Annotated[Path, given.RunArgument(help="Run A, the reference.")],
    run_b: Annotated[Path | None, given.RunArgument(help="Run B. Without it, compare two models of run A.")] = None,
    model_a: Annotated[str | None, Option(help="Model of A, if it has several.")] = None,
    model_b: Annotated[str | None, Option(help="Model of B, if it has several.")] = None,
    min_difference: Annotated[float | None, Option(help="Smallest difference that matters, in points of the score.")] = None,
    worse_than: Annotated[
        float | None, Option(help="Exit with code 1 if the 95 % interval of B - A lies below minus this number of points.")
    ] = None,
    require_shown: Annotated[
        bool, Option("--require-shown", help="With --worse-than: exit with code 1 unless the interval shows that B is not worse.")
    ] = False,
    json_file: Annotated[Path | None, Option("--json", help="JSON file to write, with all numbers and the gate.")] = None,
    junit_file: Annotated[Path | None, Option("--junit", help="JUnit file to write, with the gate as a test case.")] = None,
    out: Annotated[
        Path | None, given.OutOption(help="Folder of a report of the runs with a page of the comparison. Default: none.")
    ] = None,
) -> None:
    """Compare run B with run A on the dialogues scored in both: difference, interval, test."""
    from heartloop.cli.running import say
    from heartloop.core.system import reported, write_whole
    from heartloop.evaluation.compare import choose_sides, comparison_text
    from heartloop.evaluation.compare import compare as compared
    from heartloop.evaluation.gate import comparison_file, gate, junit
    from heartloop.evaluation.store import read_run

    if worse_than is None and (require_shown or junit_file is not None):
        raise UseError(f"{'--require-shown' if require_shown else '--junit'} needs a gate; pass --worse-than POINTS too")
    runs = [read_run(path) for path in (run_a, run_b) if path is not None]
    a, b = choose_sides(runs[0], runs[1] if len(runs) > 1 else None, model_a, model_b)
    comparison = compared(a, b, min_difference=min_difference)
    gated = None if worse_than is None else gate(comparison, worse_than, require_shown=require_shown)
    text = comparison_text(comparison, min_difference=min_difference)
    say(text)
    if json_file is not None:
        with reported(f"write {json_file}", "choose another --json"):
            write_whole(json_file, comparison_file(comparison, gated, min_difference).model_dump_json(indent=2) + "\n")
    if junit_file is not None and gated is not None:
        with reported(f"write {junit_file}", "choose another --junit"):
            write_whole(junit_file, junit(comparison, gated, text))
    if out is not None:
        from heartloop.report.comparing import COMPARISON
        from heartloop.report.site import write_site

        write_site(runs, out, comparison=comparison, min_difference=min_difference, gate=str(gated or ""))
        typer.echo(f"Report: {with_urls(out / COMPARISON)}")
    if gated is not None:
        say(str(gated))
        raise typer.Exit(int(not gated.passed))


def merge(
    runs: Annotated[list[Path], given.RunArgument(help="Run directories that differ only in shard, models, repeats or seed.")],
    out: Annotated[Path, given.OutOption(help="New run directory.")],
) -> None:
    """Merge shards, or runs with other models or seeds, into one new run. The source runs are not changed."""
    from heartloop.evaluation.merging import merge_runs

    typer.echo(merge_runs(runs, out))
    _leaderboard(out)


def compact(runs: Annotated[list[Path], given.OutArgument(help="Run directories, finished or not.")]) -> None:
    """Write the dialogues of runs as Parquet in place of JSON lines. Every command reads both; an unfinished run can go on."""
    from heartloop.evaluation.compacting import compact_run

    for run in runs:
        typer.echo(with_urls(compact_run(run)))


def rescore(
    context: typer.Context,
    run: Annotated[Path, given.RunArgument(help="Run directory; it is not changed.")],
    option: given.OptionValues = None,
    out: given.NewRun = None,
) -> None:
    """Compute a run's scores again from its transcripts with other score options (-E). No model call."""
    from heartloop.cli.running import read_options
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.rescoring import rescore_run
    from heartloop.evaluation.store import saved_settings

    spec = load_environment(str(saved_settings(run).get("environment")))
    done = rescore_run(run, out, options=read_options(context, spec, option))
    typer.echo(done.summary)
    if _leaderboard(done.path):
        raise typer.Exit(1)


def rejudge(
    context: typer.Context,
    run: Annotated[Path, given.RunArgument(help="Run directory, played or imported; it is not changed.")],
    judge: given.Judge,
    option: given.OptionValues = None,
    scenarios: given.ScenariosOfRun = None,
    request: given.JudgeRequest = None,
    out: given.NewRun = None,
    report: given.Report = True,
    batch: Annotated[
        bool,
        Option(
            "--batch", help="Call the judge through its provider's batch interface: up to a day a round, --prices of batches."
        ),
    ] = False,
    *,
    calls: given.Calls,
) -> None:
    """Let another judge score the stored replies of a run. Only the judge is called."""
    from heartloop.cli.running import Judging, by_batches, next_lines, play_run, read_options, say
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.compare import agreement
    from heartloop.evaluation.rescoring import Rejudging
    from heartloop.evaluation.store import played_settings, read_run
    from heartloop.models.batch import BatchChat

    by = Judging([judge], request, calls, **({"endpoint": BatchChat} if batch else {}))
    spec = load_environment(played_settings(run).environment)
    job = Rejudging(
        run, spec.judge(by.by_name[judge], by.sampling), options=read_options(context, spec, option), scenarios=scenarios,
        sampling=by.sampling, prices=by.models.meter.prices,
    )  # fmt: skip
    path = out or job.beside
    if not batch and (path / "batches").is_dir():  # else their answers would be paid for again
        raise UseError(f"{path} was judged with --batch; pass it again, or remove {path / 'batches'}")
    plan, stored = by.plan(job.settings, job.play, job.jobs, job.source), {one.key for one in job.jobs}
    if calls.pilot:
        plan = replace(plan, later=[one for one in job.settings.jobs if one.key not in stored])
    with by_batches(by, path / "batches", calls) if batch else contextlib.nullcontext(calls) as how:
        played = play_run(path, plan, how, pilot=by.pilot, done="judged")
    both = agreement(read_run(run).digests, played.run.digests)
    say(f"\n{both}")
    typer.echo(f"\n{next_lines(path, played.run, report=report)}")
    typer.echo(with_urls(f"Next, both in one report: heartloop report {path} {run}"))
    raise typer.Exit(played.code(pilot=calls.pilot))


def validate(
    context: typer.Context,
    runs: Annotated[
        list[Path],
        given.RunArgument(help="Run directories of one environment, played or imported; they are not changed."),
    ],
    suite: Annotated[
        list[str] | None, Option(help="Validity suite; repeat for several. Default: all that have what they need.")
    ] = None,
    judge: Annotated[
        list[str] | None, Option(help="Judge: service/model, or embedded; repeat for suites that compare several judges.")
    ] = None,
    people: Annotated[
        Path | None, Option(help="Real dialogues to compare the user simulator with: a chat log (JSON lines) or a corpus.")
    ] = None,
    labels: Annotated[Path | None, Option(help="Human labels of dialogues of the runs (CSV or JSON lines).")] = None,
    ratings: Annotated[Path | None, Option(help="External ranking of the models (CSV: model, rating).")] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Number of dialogues per run and model, sampled; a larger limit continues.")
    ] = None,
    published: Annotated[
        bool, Option("--published", help="Suites blri and capabilities: read the fields, and as often, as in the papers.")
    ] = False,
    option: given.OptionValues = None,
    scenarios: given.ScenariosOfRun = None,
    request: given.JudgeRequest = None,
    out: Annotated[
        Path | None, given.OutOption(help="Folder of the answers, validity.json and the page. Default: next to the run.")
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
        published=published,
    )  # fmt: skip
    raise typer.Exit(read_runs(material, runs, reading or run_suites(spec), by, calls, named=bool(chosen), out=out))


def report(
    runs: Annotated[
        list[Path], given.RunArgument(help="Run directories of evaluations or trainings, finished or not, or folders of them.")
    ],
    out: Annotated[
        Path | None,
        given.OutOption(
            help="Folder of the report. Default: report/ in the directory; of several, next to the first, named after all."
        ),
    ] = None,
    watch: Annotated[
        bool, Option("--watch", help="Write the report again whenever a run changes, until Ctrl-C; open pages reload.")
    ] = False,
) -> None:
    """Write the HTML report of one or several runs: leaderboards of evaluations, curves of trainings."""
    from rich.console import Console

    from heartloop.evaluation.store import beside, runs_in
    from heartloop.report.site import write_site
    from heartloop.report.training import training_tables

    every = [run for given_path in runs for run in runs_in(given_path)]
    for table in training_tables(every):
        Console().print(table)
    typer.echo(with_urls(f"{amount(len(every), 'run')}: {', '.join(map(str, every))}"))
    folder = out or (runs[0] / "report" if len(runs) == 1 else beside(runs[0], *_names(runs[1:]), "report"))
    typer.echo(f"Report: {with_urls(write_site(every, folder, reload=watch))}")
    if watch:
        _watch(every, folder)


def _names(runs: Sequence[Path]) -> list[str]:
    """The names of runs for that of a folder, or their number if that would be long."""
    names = [run.resolve().name for run in runs]
    return names if len("".join(names).encode()) < _LONGEST_NAMES else ["and", str(len(names)), "more"]


def _watch(runs: list[Path], out: Path) -> None:
    from heartloop.report.site import write_site

    def stamp() -> list[tuple[Path, int, int]]:
        files = [file for run in runs for pattern in ("*.json*", "transcripts/*.jsonl") for file in sorted(run.glob(pattern))]
        return [(file, (seen := file.stat()).st_size, seen.st_mtime_ns) for file in files if file.name != "scores.json"]

    typer.echo("Watching; Ctrl-C ends it.")
    with contextlib.suppress(KeyboardInterrupt):
        before = stamp()
        while True:
            time.sleep(_WATCH_EVERY)
            refresh()
            if (now := stamp()) != before:
                before = now
                with contextlib.suppress(InputError):  # a line that is being written; the next look finds it whole
                    write_site(runs, out, reload=True)
    write_site(runs, out)


def _leaderboard(run: Path) -> bool:
    """Writes the scores and prints the leaderboard; returns whether too many dialogues are unscored."""
    from rich.console import Console

    from heartloop.evaluation.leaderboard import leaderboard
    from heartloop.evaluation.store import write_scores

    card = write_scores(run)
    Console().print(leaderboard(card))
    typer.echo(with_urls(f"Run: {run}\nNext: heartloop report {run}, or heartloop compare RUN {run}"))
    return card.flagged
