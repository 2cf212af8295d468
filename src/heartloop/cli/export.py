"""`heartloop export`. The module of a format is imported when the format is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.integrations import FORMATS, export_run

__all__ = ["export_app"]

export_app = typer.Typer(rich_markup_mode=None)


@export_app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    to: Annotated[str, typer.Option(help="; ".join(f"{name}: {format.about}" for name, format in FORMATS.items()) + ".")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; for inspect also a file. Default: a folder in the run.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="csv, parquet, jsonl: dialogues, turns or calls; repeatable. Default: all.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="sft, dpo: use only this model's dialogues; repeatable.")] = None,
    min_points: Annotated[float | None, typer.Option(help="sft: least points of a dialogue.")] = None,
    best_of: Annotated[
        int | None, typer.Option(min=1, help="sft: least number of scored dialogues of a scenario. Default: 2.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="dpo: least difference of a pair, in points. Default: any above 0.")
    ] = None,
) -> None:
    """Write a run in the format of another tool, with its licence and provenance."""
    written = export_run(
        run, to, out, table=table or None, model=model or None, min_points=min_points, best_of=best_of, margin=margin
    )
    for path in written:
        typer.echo(f"Written: {path}")
    typer.echo(FORMATS[to].then.format(folder=written[0].parent))
