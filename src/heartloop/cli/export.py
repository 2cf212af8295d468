"""`heartloop export`. The module of a format is imported when the format is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.integrations.formats import FORMATS, format_of, writer_of

__all__ = ["export_app"]

export_app = typer.Typer(rich_markup_mode=None)


@export_app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    to: Annotated[str, typer.Option(help="; ".join(f"{name}: {format.about}" for name, format in FORMATS.items()) + ".")],
    out: Annotated[Path | None, typer.Option(help="Folder or file to write. Default: a folder in the run.")] = None,
) -> None:
    """Write a run in the format of another tool."""
    format = format_of(to)
    written = writer_of(format)(run, out)
    for path in written:
        typer.echo(f"Written: {path}")
    typer.echo(format.then.format(folder=written[0].parent))
