"""The formats that `heartloop export` writes, by name; each is imported when it is used.

Does not cover how a format is written (the modules named here).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from heartloop.core.errors import UseError

__all__ = ["FORMATS", "Format", "format_of", "writer_of"]

Writer = Callable[[Path, Path | None], list[Path]]
"""`writer(run, out)` writes a run directory and returns the files written; without `out` beside or inside the run."""


class Format(NamedTuple):
    """A format of exported runs."""

    module: str
    """Module with a `Writer` named `export_run`."""
    about: str
    then: str
    """What to do with the files; {folder} is where they are."""


FORMATS: Mapping[str, Format] = {
    "inspect": Format(
        "heartloop.integrations.inspect.export",
        "logs for Inspect View and its data frames, one per model (extra inspect)",
        "Open: inspect view --log-dir {folder}",
    )
}


def format_of(name: str) -> Format:
    """A format by name.

    Raises:
        UseError: an unknown name; the message gives the nearest.
    """
    if name not in FORMATS:
        near = get_close_matches(name, FORMATS, n=1, cutoff=0.0)[0]
        raise UseError(f"unknown format {name!r}; expected {' or '.join(FORMATS)}; the nearest is {near!r}")
    return FORMATS[name]


def writer_of(format: Format) -> Writer:
    """The function that writes a format.

    Raises:
        UseError: an extra is not installed.
    """
    try:
        writer: Writer = importlib.import_module(format.module).export_run
    except ModuleNotFoundError as error:
        if str(error.name).startswith("heartloop"):
            raise
        raise UseError(str(error)) from error
    return writer
