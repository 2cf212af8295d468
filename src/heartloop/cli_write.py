"""The `heartloop scenarios write` command; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from heartloop.authoring.questions import Writing
    from heartloop.authoring.writing import Progress, Written
    from heartloop.authoring.written import WrittenFiles
    from heartloop.evaluation.progress import ProgressLine

__all__ = ["write_app"]

ALLOWED_FAILED = 0.05  # share of the scenarios that may be refused or fail
SHOWN = 5  # reasons that the terminal names

write_app = typer.Typer(rich_markup_mode=None)


@write_app.command()
def write(
    environment: Annotated[str, typer.Argument(help="For which environment: eibench or sage.")],
    writer: Annotated[str, typer.Option(help="Model that writes: service/model.")],
    auditor: Annotated[str, typer.Option(help="Model that may only correct, and says what is a test scenario told again.")],
    out: Annotated[Path, typer.Option(help="The JSON-lines file of scenarios; every step is kept beside it.")],
    n: Annotated[int, typer.Option("--n", min=1, help="So many scenarios; a larger number later goes on.")] = 20,
    embedder: Annotated[
        str | None, typer.Option(help="Model behind /embeddings that finds the nearest scenarios; else character TF-IDF.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this scene (eibench) or hidden intention (sage); repeat for several."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what the scenarios are made from.")] = 0,
    sampling: Annotated[
        list[str] | None,
        typer.Option("--sampling", help="role.setting=value, e.g. writer.temperature=1, auditor.max_tokens=2000."),
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Scenarios in flight at once.")] = 8,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for one answer.")] = 300.0,
    retries: Annotated[int, typer.Option(min=0, help="Further attempts at an answer after the first.")] = 6,
    max_cost: Annotated[float | None, typer.Option(help="Stop before spending more, in the price file's currency.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop before using more tokens, all roles together.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="TOML file with input and output price per million tokens by model.")
    ] = None,
) -> None:
    """Models write new scenarios: seed, draft, audit, comparison with the shipped ones. The same command again goes on."""
    import asyncio

    from heartloop.authoring.neighbours import MeteredEmbedder
    from heartloop.authoring.writing import settings_of, write_all
    from heartloop.authoring.written import WrittenFiles
    from heartloop.endpoint import EndpointChat
    from heartloop.errors import UseError
    from heartloop.evaluation.progress import ProgressLine
    from heartloop.evaluation.settings import read_samplings
    from heartloop.models import Meter, close, counted, is_scripted, load_env, load_prices, resolve

    writing = _writing_of(environment)
    writing.seeds(n, seed, only or ())  # wrong use is said before a file is made
    load_env()
    for flag, name in (("--writer", writer), ("--auditor", auditor)):
        if is_scripted(name):
            raise UseError(f"{flag} is {name}, who writes no scenarios; expected service/model")
    samplings = read_samplings(sampling or [], roles=("writer", "auditor"))
    table = load_prices(prices) if prices is not None else {}
    names = [writer, auditor, *([embedder] if embedder else [])]
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=table, models=names)
    found = {
        name: resolve(name, timeout=timeout, retries=retries, max_connections=max_connections) for name in dict.fromkeys(names)
    }
    near = found[embedder] if embedder else None
    if near is not None and not isinstance(near, EndpointChat):
        raise UseError(f"--embedder is {embedder}, which makes no embeddings; expected service/model, or leave it out")
    settings = settings_of(
        writing, writer=writer, auditor=auditor, embedder=embedder, seed=seed, only=only or (), sampling=samplings
    )

    async def go(files: WrittenFiles, line: ProgressLine) -> Written:
        try:
            return await write_all(
                writing, files, n=n, seed=seed, only=only or (), sampling=samplings, in_flight=max_connections,
                writer=counted(found[writer], meter, "writer"), auditor=counted(found[auditor], meter, "auditor"),
                embedder=MeteredEmbedder(near, meter) if near is not None else None, report=_on(line),
            )  # fmt: skip
        finally:
            await close(found.values())

    with WrittenFiles(out, settings) as files:
        for spent in files.spent:
            meter.record(*spent)
        with ProgressLine(meter, what="scenarios") as line:
            ended = asyncio.run(go(files, line))
    raise typer.Exit(_told(ended, out, meter.summary()))


def _writing_of(environment: str) -> Writing:
    from heartloop.errors import UseError

    if environment == "eibench":
        from heartloop.authoring.eibench_writing import EIBenchWriting

        return EIBenchWriting()
    if environment == "sage":
        from heartloop.authoring.sage_writing import SageWriting

        return SageWriting()
    raise UseError(f"no scenarios are written for {environment!r}; expected eibench or sage")


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


def _told(ended: Written, out: Path, spent: str) -> int:
    """Says how it ended; the exit code."""
    from heartloop.authoring.written import steps_path

    lost = len(ended.refused) + len(ended.failed)
    typer.echo(
        f"{ended.kept} of {ended.planned} scenarios in {out}"
        + (f", {ended.found} of them found there" if ended.found else "")
        + (f"; {len(ended.refused)} refused" if ended.refused else "")
        + (f"; {len(ended.failed)} failed" if ended.failed else "")
        + (f"; {spent} in all" if spent else "")
    )
    typer.echo(
        f"{ended.repeated} drafts repeated another scenario; the auditor changed {ended.corrections} values in what was kept. "
        f"Every step: {steps_path(out)}"
    )
    for what, why in (("refused", ended.refused), ("failed", ended.failed)):
        for name, reason in list(why.items())[:SHOWN]:
            typer.echo(f"  {what}: {name}: {reason}", err=True)
    if ended.stopped is not None:
        typer.echo(f"Stopped early: {ended.stopped}. {ended.missing} scenarios were not finished.", err=True)
    elif lost > ALLOWED_FAILED * ended.planned:
        said = "; run the same command again to try the failed ones" if ended.failed else ""
        typer.echo(f"More than {ALLOWED_FAILED:.0%} of the scenarios were refused or failed{said}.", err=True)
    return int(ended.stopped is not None or lost > ALLOWED_FAILED * ended.planned)
