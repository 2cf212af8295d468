"""The formats that `heartloop export` writes, by name; each is imported when it is used.

Does not cover how a format is written (the modules named here).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import UseError
from heartloop.core.text import nearest

__all__ = ["FORMATS", "Format", "chosen_options", "format_of", "writer_of"]

Writer = Callable[..., list[Path]]
"""`writer(run, out, **options)` writes a run directory and returns the files written; without `out` to a folder in the run."""


class Format(NamedTuple):
    """A format of exported runs."""

    writer: str
    """`"module:function"` of a `Writer`."""
    about: str
    then: str
    """What to do with the files; {folder} is where they are."""
    options: tuple[str, ...] = ()
    """Names of further arguments of the writer."""


_TABLES = ("table",)
_FOLDER = "Read first: {folder}/README.md, licence and provenance"

FORMATS: Mapping[str, Format] = {
    "csv": Format("heartloop.integrations.tables:export_csv", "tables for analysis", _FOLDER, _TABLES),
    "parquet": Format(
        "heartloop.integrations.tables:export_parquet", "the same tables (extra parquet)", _FOLDER, _TABLES
    ),
    "jsonl": Format("heartloop.integrations.tables:export_jsonl", "the same tables as JSON lines", _FOLDER, _TABLES),
    "hf": Format(
        "heartloop.integrations.tables:export_hf", "a Hugging Face dataset folder with its card",
        'Load: datasets.load_dataset("{folder}", "dialogues")',
    ),
    "sft": Format(
        "heartloop.integrations.training_data:export_sft", "the best of several dialogues per scenario as chat messages",
        'Load: datasets.load_dataset("{folder}")', ("model", "min_points", "best_of"),
    ),
    "dpo": Format(
        "heartloop.integrations.training_data:export_dpo", "preference pairs of replies and of dialogues, with margins",
        'Load: datasets.load_dataset("{folder}"); README.md there names the configurations', ("model", "margin"),
    ),
    "inspect": Format(
        "heartloop.integrations.inspect.export:export_run",
        "logs for Inspect View and its data frames, one per model (extra inspect)",
        "Open: inspect view --log-dir {folder}",
    ),
}  # fmt: skip


def format_of(name: str) -> Format:
    """A format by name.

    Raises:
        UseError: an unknown name; the message gives the nearest.
    """
    if name not in FORMATS:
        raise UseError(f"unknown format {name!r}; expected {' or '.join(FORMATS)}{nearest(name, FORMATS)}")
    return FORMATS[name]


def chosen_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given for a format, without those that are `None`.

    Raises:
        UseError: one that the format does not take.
    """
    chosen = {option: value for option, value in given.items() if value is not None}
    for option in chosen:
        if option not in format_of(name).options:
            takers = [other for other, format in FORMATS.items() if option in format.options]
            flag = "--" + option.replace("_", "-")
            raise UseError(f"{flag} does not apply to --to {name}; it applies to {' and '.join(takers)}: leave it out")
    return chosen


def writer_of(format: Format) -> Writer:
    """The function that writes a format.

    Raises:
        UseError: an extra is not installed.
    """
    module, _, name = format.writer.partition(":")
    try:
        writer: Writer = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("heartloop"):
            raise
        raise UseError(str(error)) from error
    return writer
