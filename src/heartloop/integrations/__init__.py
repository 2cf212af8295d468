"""Adapters to other tools: their tasks play our episodes, their models answer as ours, their formats hold our runs."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import UseError
from heartloop.core.system import packaged_table
from heartloop.core.text import nearest


class Format(NamedTuple):
    writer: str
    """`"module:function"`, imported when used: `(run, out, **options)` writes a run directory and returns the files written."""
    about: str
    then: str
    options: Sequence[str] = ()


_TABLE = packaged_table(__package__, "formats.toml")
FORMATS: Mapping[str, Format] = {name: Format(**row) for name, row in _TABLE.items()}


def export_run(run: Path, to: str, out: Path | None = None, **options: Any) -> list[Path]:
    """Writes a run directory in a format, by default into the run, and returns the files written.

    Options that are `None` count as not given.
    """
    if to not in FORMATS:
        raise UseError(f"unknown format {to!r}; expected {' or '.join(FORMATS)}{nearest(to, FORMATS)}")
    format = FORMATS[to]
    chosen = {option: value for option, value in options.items() if value is not None}
    for option in chosen.keys() - set(format.options):
        takers = [name for name, other in FORMATS.items() if option in other.options]
        flag = "--" + option.replace("_", "-")
        raise UseError(f"{flag} applies only to --to {' or '.join(takers)}; omit it with --to {to}")
    try:
        writer = pkgutil.resolve_name(format.writer)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("heartloop"):
            raise
        raise UseError(str(error)) from error
    if format.writer.endswith(":export_tables"):
        chosen["to"] = to
    written: list[Path] = writer(run, out, **chosen)
    return written
