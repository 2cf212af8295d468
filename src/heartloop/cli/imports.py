"""`heartloop import`: convert released data into scenario files and run directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from heartloop.environments.importing import Imported, Importer

__all__ = ["import_app"]

import_app = typer.Typer(rich_markup_mode=None)

_FLAGS = {"limit": "--limit", "seed": "--seed", "exclude_tags": "--exclude-tag", "model": "--model", "user": "--user"}
"""Command-line options of importers, by parameter name."""


@import_app.command("import")
def import_command(
    kind: Annotated[str, typer.Argument(help="Kind of source; `list` prints all kinds.")] = "list",
    source: Annotated[Path | None, typer.Argument(help="Released file or folder; it is not changed.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Scenario file or run directory to write. Default: named after the source.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of scenarios, stratified.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed of the selection of scenarios.")] = None,
    exclude_tag: Annotated[list[str] | None, typer.Option(help="Exclude records with this tag; repeatable.")] = None,
    model: Annotated[str | None, typer.Option(help="Model under test in the dialogues. Default: the name of the file.")] = None,
    user: Annotated[str | None, typer.Option(help="User simulator in the dialogues, if known.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Maximum number of refused records and of details to print.")] = 20,
) -> None:
    """Convert released files into scenarios for `eval --scenarios`, or into a run for `report`."""
    from heartloop.core.errors import InputError, UseError
    from heartloop.core.text import amount, nearest
    from heartloop.environments.registry import specs
    from heartloop.environments.spec import load_attribute
    from heartloop.evaluation.scores import ALLOWED_UNSCORED

    kinds = {name: path for spec in specs() for name, path in spec.importers.items()}
    if kind == "list":
        for name, path in kinds.items():
            importer: Importer = load_attribute(path)
            options = ", ".join(_FLAGS[option] for option in importer.options)
            typer.echo(f"{name:18} {importer.about}{f' Options: {options}.' if options else ''}")
        return
    if kind not in kinds:
        raise UseError(f"unknown kind {kind!r}{nearest(kind, kinds)} (heartloop import list prints all)")
    importer = load_attribute(kinds[kind])
    if source is None:
        raise UseError(f"import {kind} needs a source: heartloop import {kind} PATH")
    values: dict[str, Any] = {"limit": limit, "seed": seed, "exclude_tags": exclude_tag, "model": model, "user": user}
    given = {name: value for name, value in values.items() if value}
    for name in given:
        if name not in importer.options:
            taken = " and ".join(_FLAGS[option] for option in importer.options) or "none"
            raise UseError(f"{_FLAGS[name]} does not apply to import {kind}; its options are: {taken}")
    imported = importer.read(source, **given)
    for place, reason in imported.refused[:show]:
        typer.echo(f"  refused: {place}: {reason}", err=True)
    if len(imported.refused) > show:
        typer.echo(f"  and {len(imported.refused) - show:,} more", err=True)
    if not imported.scenarios and not imported.transcripts:
        raise InputError(
            f"{source} contains nothing to import ({amount(len(imported.refused), 'record')} refused); no file written"
        )
    written = _write_run(imported, source, out, model) if imported.transcripts else _write_scenarios(imported, source, out)
    for name, n in imported.counts.items():
        if n:
            typer.echo(f"  {n:,} x {importer.counted.get(name, name)}")
    for line in (*imported.notes, *imported.details[:show], *written):
        typer.echo(line)
    raise typer.Exit(int(len(imported.refused) > ALLOWED_UNSCORED * imported.total))


def _write_scenarios(imported: Imported, source: Path, out: Path | None) -> list[str]:
    """Writes a scenario file; returns the lines to print about it."""
    from collections import Counter

    from heartloop.core.text import amount
    from heartloop.environments.records import write_records

    path = out or Path(f"{source.resolve().stem}-imported.jsonl")
    write_records(path, imported.scenarios, exclude_unset=True)
    strata = Counter(str(scenario.stratum) for scenario in imported.scenarios)
    refused = f"; {len(imported.refused):,} of {amount(imported.total, 'record')} refused" if imported.refused else ""
    return [
        *(f"{name:13} {n:,}" for name, n in strata.items()),
        f"{amount(len(imported.scenarios), 'scenario')} written to {path}{refused}",
    ]


def _write_run(imported: Imported, source: Path, out: Path | None, model: str | None) -> list[str]:
    """Writes a run directory with its scores and prints the leaderboard; returns the lines to print below."""
    from rich.console import Console

    from heartloop.core.text import amount
    from heartloop.evaluation.imported import write_run
    from heartloop.evaluation.leaderboard import leaderboard
    from heartloop.evaluation.runs import write_scores

    name = model or (source.resolve().name if source.is_dir() else source.stem)
    run = out or Path("runs") / f"imported-{name.replace('/', '-')}"
    write_run(run, imported, scenario_set=f"imported: {source.name}")
    Console().print(leaderboard(write_scores(run)))
    return [f"{amount(len(imported.transcripts), 'dialogue')} imported", f"Run: {run}\nReport: heartloop report {run}"]
