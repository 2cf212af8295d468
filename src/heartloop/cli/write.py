"""The `heartloop scenarios write`, `distil` and `enrich` commands; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from heartloop.cli.options import Embedder, MaxCost, MaxTokens, Prices, Retries, Timeout, WriterSampling, WritingConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from heartloop.authoring.eibench_scenarios import Refused
    from heartloop.authoring.empa_distilling import EmpaDistilling
    from heartloop.authoring.questions import Writing
    from heartloop.authoring.raw_dialogues import RawDialogues
    from heartloop.authoring.writing import Progress, Written
    from heartloop.authoring.written import WrittenFiles
    from heartloop.evaluation.progress import ProgressLine

__all__ = ["write_app"]

ALLOWED_FAILED = 0.05  # share of the scenarios that may be refused or fail
SHOWN = 5  # reasons that the terminal names
REFUSED_SHOWN = 50  # records of a source that it names

write_app = typer.Typer(rich_markup_mode=None)


@write_app.command()
def write(
    environment: Annotated[str, typer.Argument(help="For which environment: eibench or sage.")],
    writer: Annotated[str, typer.Option(help="Model that writes: service/model.")],
    auditor: Annotated[str, typer.Option(help="Model that may only correct, and says what is a test scenario told again.")],
    out: Annotated[Path, typer.Option(help="The JSON-lines file of scenarios; every step is kept beside it.")],
    n: Annotated[int, typer.Option("--n", min=1, help="So many scenarios; a larger number later goes on.")] = 20,
    embedder: Embedder = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this scene (eibench) or hidden intention (sage); repeat for several."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what the scenarios are made from.")] = 0,
    sampling: WriterSampling = None,
    max_connections: WritingConnections = 8,
    timeout: Timeout = 300.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
) -> None:
    """Models write new scenarios: seed, draft, audit, comparison with the shipped ones. The same command again goes on."""
    writing = _writing_of(environment)
    writing.seeds(n, seed, only or ())  # wrong use is said before a file is made
    settled = _Settled(writer, auditor, embedder, sampling or [], max_connections, timeout, retries, max_cost, max_tokens, prices)
    ended, spent = _written(writing, out, settled, n=n, seed=seed, only=only or ())
    raise typer.Exit(_told(ended, out, spent))


@write_app.command()
def distil(
    source: Annotated[Path, typer.Argument(help="A file, or a folder with the files of that form.")],
    form: Annotated[str, typer.Option(help="esconv, empathetic (EmpatheticDialogues), or messages (JSON lines).")],
    writer: Annotated[str | None, typer.Option(help="Model that reads and writes: service/model.")] = None,
    auditor: Annotated[
        str | None, typer.Option(help="Model that may only correct, and says what is a shipped case told again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The JSON-lines file of cases; every step is kept beside it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many dialogues, as the seed mixes them; a larger number goes on.")] = 20,
    exclude_tag: Annotated[
        list[str] | None, typer.Option(help="Pass over dialogues that touch this, e.g. suicide; repeat for several.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, count, call nothing, write nothing.")] = False,
    show: Annotated[int, typer.Option(min=0, help="With --dry-run: print so many dialogues as a model would read them.")] = 0,
    embedder: Embedder = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the dialogues, and places and names.")] = 0,
    sampling: WriterSampling = None,
    max_connections: WritingConnections = 8,
    timeout: Timeout = 300.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
) -> None:
    """EMPA cases from real dialogues of yours: personal data out, then filter, features, person, crisis, labels, lines, audit."""
    from heartloop.authoring.empa_distilling import EmpaDistilling
    from heartloop.authoring.raw_dialogues import read_dialogues
    from heartloop.core.errors import UseError

    if show and not dry_run:
        raise UseError("--show prints dialogues before any model reads them; it goes with --dry-run")
    read = read_dialogues(source, form)
    writing = EmpaDistilling(read.dialogues, exclude=exclude_tag or [])
    writing.seeds(limit, seed)
    _tell_read(read)
    if dry_run:
        _tell_outlook(writing, limit, seed, show)
        raise typer.Exit(int(len(read.refused) > ALLOWED_FAILED * (len(read.dialogues) + len(read.refused))))
    if writer is None or auditor is None or out is None:
        missing = [flag for flag, value in (("--writer", writer), ("--auditor", auditor), ("--out", out)) if value is None]
        raise UseError(f"{' and '.join(missing)} missing; give them, or count first with --dry-run")
    settled = _Settled(writer, auditor, embedder, sampling or [], max_connections, timeout, retries, max_cost, max_tokens, prices)
    ended, spent = _written(writing, out, settled, n=limit, seed=seed, only=(), more=writing.settings, unread=read.refused)
    code = _told(ended, out, spent)
    if len(read.refused) > ALLOWED_FAILED * (len(read.dialogues) + len(read.refused)):
        typer.echo(f"More than {ALLOWED_FAILED:.0%} of {source} could not be read; see above.", err=True)
        code = 1
    raise typer.Exit(code)


@write_app.command()
def enrich(
    source: Annotated[Path, typer.Argument(help="Samples as `heartloop import perm-samples` writes them.")],
    writer: Annotated[str, typer.Option(help="Model that writes: service/model.")],
    out: Annotated[Path, typer.Option(help="The JSON-lines file of whole samples; every step is kept beside it.")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many, evenly over the emotions; a larger number goes on. All by default.")
    ] = None,
    sampling: Annotated[
        list[str] | None, typer.Option("--sampling", help="writer.setting=value, e.g. writer.temperature=1.")
    ] = None,
    max_connections: WritingConnections = 8,
    timeout: Timeout = 300.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
) -> None:
    """Persona and scenario for drawn PERM samples, written by a model. The same command again goes on."""
    from heartloop.authoring.perm_enriching import PermEnriching
    from heartloop.core.wording import amount
    from heartloop.environments.perm.drawn import read_drawn

    samples = read_drawn(source)
    writing = PermEnriching(samples)
    settled = _Settled(writer, None, None, sampling or [], max_connections, timeout, retries, max_cost, max_tokens, prices)
    if removed := ", ".join(amount(n, kind) for kind, n in writing.removed.items()):
        typer.echo(f"Personal data taken out by rules: {removed}. Rules miss things: read some of it yourself.")
    ended, spent = _written(writing, out, settled, n=limit or len(samples), seed=0, only=(), more=writing.settings)
    raise typer.Exit(_told(ended, out, spent, audited=False))


class _Settled(NamedTuple):
    """Who writes, and what the calls may take."""

    writer: str
    auditor: str | None
    """`None` where nothing is audited nor compared."""
    embedder: str | None
    sampling: list[str]
    max_connections: int
    timeout: float
    retries: int
    max_cost: float | None
    max_tokens: int | None
    prices: Path | None


def _written(
    writing: Writing,
    out: Path,
    by: _Settled,
    *,
    n: int,
    seed: int,
    only: Sequence[str],
    more: Mapping[str, Any] | None = None,
    unread: Sequence[Refused] = (),
) -> tuple[Written, str]:
    """Writes, and says how it ended and what it took."""
    import asyncio

    from heartloop.authoring.neighbours import MeteredEmbedder
    from heartloop.authoring.writing import settings_of, write_all
    from heartloop.authoring.written import WrittenFiles
    from heartloop.core.errors import UseError
    from heartloop.evaluation.progress import ProgressLine
    from heartloop.evaluation.settings import read_samplings
    from heartloop.models.endpoint import EndpointChat
    from heartloop.models.names import Meter, close, counted, is_scripted, load_env, load_prices, resolve

    load_env()
    for flag, name in (("--writer", by.writer), ("--auditor", by.auditor)):
        if name is not None and is_scripted(name):
            raise UseError(f"{flag} is {name}, who writes no scenarios; expected service/model")
    samplings = read_samplings(by.sampling, roles=("writer", "auditor") if by.auditor else ("writer",))
    names = [name for name in (by.writer, by.auditor, by.embedder) if name]
    meter = Meter(max_tokens=by.max_tokens, max_cost=by.max_cost, prices=load_prices(by.prices), models=names)
    found = {
        name: resolve(name, timeout=by.timeout, retries=by.retries, max_connections=by.max_connections)
        for name in dict.fromkeys(names)
    }
    near = found[by.embedder] if by.embedder else None
    if near is not None and not isinstance(near, EndpointChat):
        raise UseError(f"--embedder is {by.embedder}, which makes no embeddings; expected service/model, or leave it out")
    settings = settings_of(
        writing, writer=by.writer, auditor=by.auditor, embedder=by.embedder, seed=seed, only=only, sampling=samplings
    )

    async def go(files: WrittenFiles, line: ProgressLine) -> Written:
        try:
            return await write_all(
                writing, files, n=n, seed=seed, only=only, sampling=samplings, in_flight=by.max_connections,
                writer=counted(found[by.writer], meter, "writer"),
                auditor=counted(found[by.auditor], meter, "auditor") if by.auditor else None,
                embedder=MeteredEmbedder(near, meter) if near is not None else None, report=_on(line),
            )  # fmt: skip
        finally:
            await close(found.values())

    with WrittenFiles(out, {**settings, **(more or {})}) as files:
        for spent in files.spent:
            meter.record(*spent)
        for record in unread:
            files.steps().note("unread", **record._asdict())
        with ProgressLine(meter, what="scenarios") as line:
            return asyncio.run(go(files, line)), meter.summary()


def _writing_of(environment: str) -> Writing:
    from heartloop.core.errors import UseError

    if environment == "eibench":
        from heartloop.authoring.eibench_writing import EIBenchWriting

        return EIBenchWriting()
    if environment == "sage":
        from heartloop.authoring.sage_writing import SageWriting

        return SageWriting()
    raise UseError(f"no scenarios are written for {environment!r}; expected eibench or sage")


def _tell_read(read: RawDialogues) -> None:
    """Says what was read, mended and left out; every line that was, up to a screenful."""
    from heartloop.authoring.raw_dialogues import MENDED
    from heartloop.core.wording import amount

    for one in read.refused[:REFUSED_SHOWN]:
        typer.echo(f"  left out: {one.place}: {one.reason}", err=True)
    if len(read.refused) > REFUSED_SHOWN:
        typer.echo(f"  and {len(read.refused) - REFUSED_SHOWN:,} more", err=True)
    for kind, count in read.mended.items():
        typer.echo(f"  {count:,} times: {MENDED[kind]}", err=True)
    typer.echo(f"{amount(len(read.dialogues), 'dialogue')} read, {amount(len(read.refused), 'record')} left out.")


def _tell_outlook(writing: EmpaDistilling, limit: int, seed: int, show: int) -> None:
    """Says what a run would take up and ask; dialogues as a model would read them."""
    from heartloop.core.wording import amount

    ahead = writing.outlook(limit, seed)
    for place, reason in list(ahead.passed.items())[:REFUSED_SHOWN]:
        typer.echo(f"  passed over: {place}: {reason}", err=True)
    typer.echo(
        f"{amount(ahead.dialogues, 'dialogue')} would be taken up, {len(ahead.passed):,} of them passed over without a call; "
        f"{ahead.least_calls:,} to {ahead.most_calls:,} calls, answers to be mended aside."
    )
    removed = ", ".join(f"{amount(count, kind)}" for kind, count in ahead.removed.items())
    typer.echo(f"Personal data taken out by rules: {removed or 'none found'}. Read some of it yourself: --show 5.")
    for one in writing.seeds(min(show, limit), seed) if show else ():
        typer.echo(f"\n{one.facts['source']}\n{writing.as_read(one)}")


def _on(line: ProgressLine) -> Callable[[Progress], None]:
    """Shows where a writing run stands on the line that evaluations have."""
    import time

    from heartloop.evaluation.runner import Progress as Shown

    started = time.monotonic()
    found: list[int] = []

    def show(now: Progress) -> None:
        found.append(now.done)
        elapsed, made = time.monotonic() - started, now.done - found[0]
        remaining = elapsed / made * (now.planned - now.done) if made else None
        line.show(Shown(now.planned, now.done, now.refused + now.failed, elapsed, remaining))

    return show


def _told(ended: Written, out: Path, spent: str, *, audited: bool = True) -> int:
    """Says how it ended; the exit code."""
    from heartloop.authoring.written import steps_path

    lost, meant = len(ended.refused) + len(ended.failed), ended.planned - len(ended.passed)
    typer.echo(
        f"{ended.kept} of {ended.planned} scenarios in {out}"
        + (f", {ended.found} of them found there" if ended.found else "")
        + (f"; {len(ended.passed)} passed over" if ended.passed else "")
        + (f"; {len(ended.refused)} refused" if ended.refused else "")
        + (f"; {len(ended.failed)} failed" if ended.failed else "")
        + (f"; {spent} in all" if spent else "")
    )
    compared = (
        f"{ended.repeated} drafts repeated another scenario; the auditor changed {ended.corrections} values in what was kept. "
    )
    typer.echo(f"{compared if audited else ''}Every step: {steps_path(out)}")
    for what, why in (("passed over", ended.passed), ("refused", ended.refused), ("failed", ended.failed)):
        for name, reason in list(why.items())[:SHOWN]:
            typer.echo(f"  {what}: {name}: {reason}", err=True)
    if ended.stopped is not None:
        typer.echo(f"Stopped early: {ended.stopped}. {ended.missing} scenarios were not finished.", err=True)
    elif lost > ALLOWED_FAILED * meant:
        said = "; run the same command again to try the failed ones" if ended.failed else ""
        typer.echo(f"More than {ALLOWED_FAILED:.0%} of the scenarios were refused or failed{said}.", err=True)
    return int(ended.stopped is not None or lost > ALLOWED_FAILED * meant)
