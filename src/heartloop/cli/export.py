"""The `heartloop export` commands: one short function each; imports inside the function, as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export_app"]

export_app = typer.Typer(help="Write finished runs in other tools' formats.", no_args_is_help=True, rich_markup_mode=None)


@export_app.callback()
def _several() -> None:
    """Write finished runs in other tools' formats."""


@export_app.command("inspect")
def export_inspect(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder, or FILE.eval for a run of one model; by default inspect/ in the run.")
    ] = None,
) -> None:
    """Logs for Inspect View and its data frames, one a model. Needs the extra inspect."""
    from heartloop.core.errors import UseError

    try:
        from heartloop.integrations.inspect.export import export_run
    except ModuleNotFoundError as error:
        if error.name != "inspect_ai":
            raise
        raise UseError(str(error)) from error
    written = export_run(run, out)
    for path in written:
        typer.echo(f"Log: {path}")
    typer.echo(f"Look at it: inspect view --log-dir {written[0].parent}")
