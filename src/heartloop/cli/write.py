"""`heartloop scenarios write`, `distil` and `enrich`: write scenarios with models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from heartloop.cli import options as given
from heartloop.core.errors import UseError
from heartloop.core.text import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from heartloop.authoring.store import WrittenFiles
    from heartloop.authoring.writing import WritingResult
    from heartloop.environments.importing import RawDialogues, Refused
    from heartloop.environments.writing import Writing
    from heartloop.evaluation.progress import ProgressLine

ALLOWED_FAILED = 0.05  # share of the scenarios that may be refused or fail
SHOWN = 5  # maximum number of reasons to print
REFUSED_SHOWN = 50  # maximum number of refused records to print

write_app = typer.Typer(rich_markup_mode=None)

Environment = Annotated[str, Argument(help="Name of the environment to write for.")]
Writer = Annotated[str, Option(help="Model that writes: service/model.")]
_OUT = Option(help="JSON-lines file of scenarios; the log of every step is written next to it.")


@write_app.command()
@given.with_options
def write(
    environment: Environment,
    writer: Writer,
    auditor: Annotated[str, Option(help="Model that corrects drafts and detects duplicates: service/model.")],
    out: Annotated[Path, _OUT],
    calls: given.WritingCalls,
    limit: Annotated[int, Option(min=1, help="Number of scenarios; rerun with a larger number to continue.")] = 20,
    embedder: given.Embedder = None,
    only: Annotated[
        list[str] | None,
        Option(
            help="Write only scenarios of this group (scene, hidden intention, ...), with --expand label=value, e.g. axis=A; "
            "repeatable."
        ),
    ] = None,
    expand: Annotated[str | None, Option(help="Write variants of the scenarios of this set or file.")] = None,
    guidance: Annotated[str | None, Option(help="With --expand: what variants should be like, in your own words.")] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the drawn seeds of scenarios.")] = 0,
    variant: Annotated[str | None, Option(help="Other rules of writing, if the environment has some, such as released.")] = None,
) -> None:
    """Write new scenarios: seed, draft, audit, comparison with the shipped ones. Rerun the same command to resume."""
    if (guidance and not expand) or (variant and expand):
        raise UseError("--guidance applies only with --expand" if guidance else "--variant does not apply with --expand")
    if expand:
        writing = _part(environment, "expand")(expand, guidance or "")
    else:
        writing = _part(environment, f"write.{variant}" if variant else "write")()
    raise typer.Exit(_write(writing, out, calls, writer, auditor, embedder, n=limit, seed=seed, only=only or ()))


@write_app.command()
@given.with_options
def distil(
    environment: Environment,
    source: Annotated[Path, Argument(help="File of dialogues, or a folder of such files.")],
    calls: given.WritingCalls,
    form: Annotated[str, Option(help="Format: esconv, empathetic (EmpatheticDialogues), or messages (JSON lines).")],
    writer: Annotated[str | None, Option(help="Model that writes: service/model.")] = None,
    auditor: Annotated[str | None, Option(help="Model that corrects drafts and detects duplicates: service/model.")] = None,
    out: Annotated[Path | None, _OUT] = None,
    limit: Annotated[int, Option(min=1, help="Maximum number of dialogues; rerun with a larger number to continue.")] = 20,
    exclude_tag: Annotated[list[str] | None, Option(help="Exclude dialogues with this tag, e.g. suicide; repeatable.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Read and count only: no model call, no file written.")] = False,
    show: Annotated[int, Option(min=0, help="With --dry-run: number of dialogues to print as the model reads them.")] = 0,
    embedder: given.Embedder = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the order of dialogues, and of drawn places and names.")] = 0,
) -> None:
    """Write scenarios from your own dialogues. Rules remove personal data before a model reads a dialogue."""
    from heartloop.environments.importing import read_dialogues

    if show and not dry_run:
        raise UseError("--show applies only with --dry-run")
    make = _part(environment, "distil")
    read = read_dialogues(source, form)
    writing: Writing = make(read.dialogues, exclude_tags=exclude_tag or [])
    writing.seeds(limit, seed)
    _print_read(read)
    too_many_refused = len(read.refused) > ALLOWED_FAILED * (len(read.dialogues) + len(read.refused))
    if dry_run:
        _print_outlook(writing, limit, seed, show)
        raise typer.Exit(int(too_many_refused))
    if writer is None or auditor is None or out is None:
        missing = [flag for flag, value in (("--writer", writer), ("--auditor", auditor), ("--out", out)) if value is None]
        raise UseError(f"{' and '.join(missing)} missing; pass them, or use --dry-run to count first")
    code = _write(writing, out, calls, writer, auditor, embedder, n=limit, seed=seed, unread=read.refused)
    if too_many_refused:
        typer.echo(f"More than {ALLOWED_FAILED:.0%} of {source} could not be read; see above.", err=True)
    raise typer.Exit(code or int(too_many_refused))


@write_app.command()
@given.with_options
def enrich(
    environment: Environment,
    source: Annotated[Path, Argument(help="Scenario file written by heartloop import.")],
    writer: Writer,
    out: Annotated[Path, _OUT],
    calls: given.WritingCalls,
    limit: Annotated[
        int | None, Option(min=1, help="Maximum number of scenarios, stratified; rerun with a larger number to continue.")
    ] = None,
) -> None:
    """Complete imported scenarios with a model, e.g. with a persona. Rerun the same command to resume."""
    writing = _part(environment, "enrich")(source)
    n = limit or sys.maxsize
    _print_removed(writing.removed(writing.seeds(n, 0)))
    raise typer.Exit(_write(writing, out, calls, writer, n=n, seed=0))


def _part(environment: str, command: str) -> Callable[..., Writing]:
    from heartloop.environments.registry import load_environment, specs
    from heartloop.environments.spec import load_attribute

    spec = load_environment(environment)
    if command not in spec.writing:
        command, _, variant = command.partition(".")
        if variant and command in spec.writing:
            known = [name.partition(".")[2] for name in spec.writing if name.startswith(f"{command}.")]
            raise UseError(f"--variant is {variant}; expected {' or '.join(known) or 'none'} for {environment}")
        able = " or ".join(one.name for one in specs() if command in one.writing)
        words = {"expand": "write --expand"}.get(command, command)
        raise UseError(f"scenarios {words} is not available for {environment}; expected {able}")
    make: Callable[..., Writing] = load_attribute(spec.writing[command])
    return make


def _write(
    writing: Writing,
    out: Path,
    calls: given.WritingCalls,
    writer: str,
    auditor: str | None = None,
    embedder: str | None = None,
    *,
    n: int,
    seed: int,
    only: Sequence[str] = (),
    unread: Sequence[Refused] = (),
) -> int:
    """Writes the scenarios and prints the result; returns the exit code."""
    import asyncio

    from heartloop.authoring.checks import MeteredEmbedder
    from heartloop.authoring.store import WrittenFiles
    from heartloop.authoring.writing import WritingRun, settings_of
    from heartloop.evaluation.plan import read_requests
    from heartloop.evaluation.progress import ProgressLine
    from heartloop.models.budget import Meter, is_scripted, load_prices
    from heartloop.models.client import Connections, EndpointChat
    from heartloop.models.names import close, counted, load_env, resolve

    writing.seeds(n, seed, only)  # raises before a file is made
    load_env()
    for flag, name in (("--writer", writer), ("--auditor", auditor)):
        if name is not None and is_scripted(name):
            raise UseError(f"{flag} is {name}, a baseline that only replies; expected service/model")
    writers = {"writer": [writer]} | ({"auditor": [auditor]} if auditor else {})
    samplings = read_requests(calls.request or [], models=writers)
    names = [name for name in (writer, auditor, embedder) if name]
    meter = Meter(max_tokens=calls.max_tokens, max_cost=calls.max_cost, prices=load_prices(calls.prices), models=names)
    connections = Connections(calls.max_connections)
    how: Any = {"timeout": calls.timeout, "retries": calls.retries, "connections": connections}
    models = {name: resolve(name, **how) for name in dict.fromkeys(names)}
    vectors = models[embedder] if embedder else None
    if vectors is not None and not isinstance(vectors, EndpointChat):
        raise UseError(f"--embedder is {embedder}, which gives no embeddings; expected service/model, or omit it")
    named = {"writer": writer, "auditor": auditor, "embedder": embedder}
    settings = settings_of(writing, named, seed=seed, only=only, sampling=samplings)

    async def go(files: WrittenFiles, line: ProgressLine) -> WritingResult:
        try:
            run = WritingRun(
                writing,
                files,
                seed=seed,
                writer=counted(models[writer], meter, "writer"),
                auditor=counted(models[auditor], meter, "auditor") if auditor else None,
                embedder=MeteredEmbedder(vectors, meter) if vectors is not None else None,
                sampling=samplings,
            )
            return await run.write(n, only, concurrency=calls.max_connections, report=line.show)
        finally:
            await close(models.values())

    with WrittenFiles(out, settings) as files:
        for call in files.spent:
            meter.record(*call)
        for record in unread:
            files.steps().note("unread", **record._asdict())
        with ProgressLine(meter, what="scenarios", speed=connections.waiting) as line:
            written = asyncio.run(go(files, line))
    return _report(written, out, meter.summary())


def _print_read(read: RawDialogues) -> None:
    from heartloop.environments.importing import REPAIRS

    for one in read.refused[:REFUSED_SHOWN]:
        typer.echo(f"  refused: {one.place}: {one.reason}", err=True)
    if len(read.refused) > REFUSED_SHOWN:
        typer.echo(f"  and {len(read.refused) - REFUSED_SHOWN:,} more", err=True)
    for kind, count in read.repaired.items():
        typer.echo(f"  {count:,} x {REPAIRS[kind]}", err=True)
    typer.echo(f"{amount(len(read.dialogues), 'dialogue')} read, {amount(len(read.refused), 'record')} refused.")


def _print_removed(removed: Mapping[str, int]) -> None:
    kinds = ", ".join(amount(count, kind) for kind, count in removed.items())
    typer.echo(f"Personal data removed by rules: {kinds or 'none found'}. Rules miss some: check a sample yourself.")


def _print_outlook(writing: Writing, limit: int, seed: int, show: int) -> None:
    seeds = writing.seeds(limit, seed)
    skipped = [(one.facts["source"], reason) for one in seeds if (reason := writing.skip_reason(one, {}))]
    for place, reason in skipped[:REFUSED_SHOWN]:
        typer.echo(f"  skipped: {place}: {reason}", err=True)
    left = len(seeds) - len(skipped)
    most_calls = left * (len(writing.stages) + 2)
    typer.echo(
        f"{amount(len(seeds), 'dialogue')} selected, {len(skipped):,} of them skipped without a call; "
        f"{left:,} to {most_calls:,} calls, without re-asks and rewrites."
    )
    _print_removed(writing.removed(seeds))
    for one in seeds[:show]:
        typer.echo(f"\n{one.facts['source']}\n{writing.as_read(one)}")


def _report(written: WritingResult, out: Path, cost: str) -> int:
    from heartloop.authoring.store import steps_path
    from heartloop.cli.running import say

    not_written = {"skipped": written.skipped, "refused": written.refused, "failed": written.failed}
    lost, wanted = len(written.refused) + len(written.failed), written.planned - len(written.skipped)
    resumed = f", {written.resumed} of them from an earlier run" if written.resumed else ""
    counts = [f"{len(reasons)} {what}" for what, reasons in not_written.items() if reasons]
    head = f"{written.written} of {written.planned} scenarios in {out}{resumed}"
    typer.echo("; ".join([head, *counts, *([f"{cost} in total"] if cost else [])]))
    if written.repeated or written.corrections:
        typer.echo(f"{written.repeated} drafts repeated another scenario; the auditor changed {written.corrections} values.")
    typer.echo(f"Every step: {steps_path(out)}")
    for what, reasons in not_written.items():
        for name, reason in list(reasons.items())[:SHOWN]:
            typer.echo(f"  {what}: {name}: {reason}", err=True)
    if written.stopped is not None:
        say(f"Stopped early: {written.stopped}. {written.missing} scenarios were not finished.", err=True)
    elif lost > ALLOWED_FAILED * wanted:
        again = "; rerun the same command to try the failed ones again" if written.failed else ""
        typer.echo(f"More than {ALLOWED_FAILED:.0%} of the scenarios were refused or failed{again}.", err=True)
    return int(written.stopped is not None or lost > ALLOWED_FAILED * wanted)
