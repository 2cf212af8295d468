"""`heartloop import` and `heartloop export`: data of other tools."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from heartloop.cli import options as given
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount, nearest
from heartloop.evaluation.remote import with_urls
from heartloop.integrations import FORMATS, export_run

if TYPE_CHECKING:
    from heartloop.environments.importing import Imported, Importer

_FLAGS = {"limit": "--limit", "seed": "--seed", "exclude_tags": "--exclude-tag", "model": "--model", "user": "--user"}


def import_data(
    kind: Annotated[str | None, Argument(help="Kind of source. Without it, list all kinds.")] = None,
    source: Annotated[Path | None, Argument(help="Released file or folder; it is not changed.")] = None,
    out: Annotated[
        Path | None, given.OutOption(help="Scenario file, run directory or labels to write. Default: named after the source.")
    ] = None,
    limit: Annotated[int | None, Option(min=1, help="Maximum number of scenarios, stratified.")] = None,
    seed: Annotated[int | None, Option(min=0, help="Random seed of the selection of scenarios.")] = None,
    exclude_tag: given.ExcludeTag = None,
    model: Annotated[str | None, Option(help="Model under test in the dialogues. Default: the name of the file.")] = None,
    user: Annotated[str | None, Option(help="User simulator in the dialogues, if known.")] = None,
    show: Annotated[int, Option(min=0, help="Maximum number of refused records and of details to print.")] = 20,
) -> None:
    """Convert released files into scenarios for `eval --scenarios` or a run for `report`, and filled sheets into labels."""
    from heartloop.environments.registry import specs
    from heartloop.environments.spec import load_attribute
    from heartloop.evaluation.scores import ALLOWED_UNSCORED

    kinds = {name: path for spec in specs() for name, path in spec.importers.items()}
    kinds["sheet"] = "heartloop.validity.sheets:IMPORTER"
    if kind is None:
        for name, path in kinds.items():
            importer: Importer = load_attribute(path)
            options = ", ".join(_FLAGS[option] for option in importer.options)
            typer.echo(f"{name:18} {importer.about}{f' Options: {options}.' if options else ''}")
        return
    if kind not in kinds:
        raise UseError(f"unknown kind {kind!r}{nearest(kind, kinds)} (heartloop import lists all)")
    importer = load_attribute(kinds[kind])
    if source is None:
        raise UseError(f"import {kind} needs a source: heartloop import {kind} PATH")
    values: dict[str, Any] = {"limit": limit, "seed": seed, "exclude_tags": exclude_tag, "model": model, "user": user}
    chosen = {name: value for name, value in values.items() if value}
    for name in chosen:
        if name not in importer.options:
            taken = " and ".join(_FLAGS[option] for option in importer.options) or "none"
            raise UseError(f"{_FLAGS[name]} does not apply to import {kind}; its options are: {taken}")
    imported = importer.read(source, **chosen)
    for place, reason in imported.refused[:show]:
        typer.echo(f"  refused: {place}: {reason}", err=True)
    if len(imported.refused) > show:
        typer.echo(f"  and {len(imported.refused) - show:,} more", err=True)
    if not (imported.scenarios or imported.transcripts or imported.labels):
        raise InputError(f"{source} holds nothing to import ({amount(len(imported.refused), 'record')} refused); no file written")
    if imported.labels:
        written = _write_labels(imported, source, out)
    else:
        written = _write_run(imported, source, out, model) if imported.transcripts else _write_scenarios(imported, source, out)
    for name, n in imported.counts.items():
        if n:
            typer.echo(f"  {n:,} x {importer.counted.get(name, name)}")
    for line in (*imported.notes, *imported.details[:show], *written):
        typer.echo(line)
    raise typer.Exit(int(len(imported.refused) > ALLOWED_UNSCORED * imported.total))


def _write_labels(imported: Imported, folder: Path, out: Path | None) -> list[str]:
    from heartloop.core.system import reported, write_whole

    with reported(f"write {(path := out or Path(f'{folder.resolve().name}-labels.csv'))}"):
        write_whole(path, imported.labels)
    return [f"Labels: {path}"]


def _write_scenarios(imported: Imported, source: Path, out: Path | None) -> list[str]:
    from heartloop.environments.records import write_records

    path = out or Path(f"{source.resolve().stem}-imported.jsonl")
    write_records(path, imported.scenarios, exclude_unset=True)
    strata = Counter(str(scenario.stratum) for scenario in imported.scenarios)
    refused = f"; {len(imported.refused):,} of {amount(imported.total, 'record')} refused" if imported.refused else ""
    written = f"{amount(len(imported.scenarios), 'scenario')} written to {path}{refused}"
    return [*(f"{name:13} {n:,}" for name, n in strata.items()), written]


def _write_run(imported: Imported, source: Path, out: Path | None, model: str | None) -> list[str]:
    from rich.console import Console

    from heartloop.evaluation.leaderboard import leaderboard
    from heartloop.evaluation.scores import IMPORTED
    from heartloop.evaluation.store import write_imported, write_scores

    name = model or (source.resolve().name if source.is_dir() else source.stem)
    run = out or Path("runs") / f"imported-{name.replace('/', '-')}"
    write_imported(run, imported, scenario_set=f"{IMPORTED}{source.name}")
    Console().print(leaderboard(write_scores(run)))
    return [f"{amount(len(imported.transcripts), 'dialogue')} imported", with_urls(f"Run: {run}\nReport: heartloop report {run}")]


def export(
    run: Annotated[
        Path, given.RunArgument(help="Run directory; for sheet also a scenario set or file, or the steps file of distil.")
    ],
    to: Annotated[str, Option(help="; ".join(f"{name}: {format.about}" for name, format in FORMATS.items()) + ".")],
    out: Annotated[Path | None, given.OutOption(help="Folder to write; for inspect also a file. Default: in the run.")] = None,
    table: Annotated[
        list[str] | None, Option(help="csv, parquet, jsonl: dialogues, turns or calls; repeatable. Default: all.")
    ] = None,
    model: Annotated[list[str] | None, Option(help="sft, dpo: use only this model's dialogues; repeatable.")] = None,
    min_points: Annotated[float | None, Option(help="sft: least points of a dialogue.")] = None,
    best_of: Annotated[int | None, Option(min=1, help="sft: least number of scored dialogues of a scenario. Default: 2.")] = None,
    min_difference: Annotated[
        float | None, Option(help="dpo: least difference of a pair, in points. Default: any above 0.")
    ] = None,
    n: Annotated[int | None, Option("--n", min=1, help="sheet: number of items. Default: 200, or 20 replies, or all.")] = None,
    raters: Annotated[int | None, Option(min=1, help="sheet: number of raters. Default: 2.")] = None,
    seed: Annotated[int | None, Option(min=0, help="sheet: random seed of items and order. Default: 0.")] = None,
) -> None:
    """Write a run in the format of another tool, with its licence and provenance, or sheets for people."""
    written = export_run(
        run,
        to,
        out,
        table=table or None,
        model=model or None,
        min_points=min_points,
        best_of=best_of,
        min_difference=min_difference,
        n=n,
        raters=raters,
        seed=seed,
    )
    for path in written:
        typer.echo(with_urls(f"Written: {path}"))
    typer.echo(with_urls(FORMATS[to].then.format(folder=written[0].parent)))
