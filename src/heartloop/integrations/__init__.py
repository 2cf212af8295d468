"""Adapters to other tools: their tasks play our episodes, their models answer as ours, their formats hold our runs."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import UseError
from heartloop.core.text import nearest


class Format(NamedTuple):
    writer: str
    """`"module:function"`, imported when used: `(run, out, **options)` writes a run directory and returns the files written."""
    about: str
    then: str
    options: tuple[str, ...] = ()


_FOLDER = "Read first: {folder}/README.md, licence and provenance"
_TABLES = "heartloop.integrations.export:export_tables"

FORMATS: Mapping[str, Format] = {
    "csv": Format(_TABLES, "tables for analysis", _FOLDER, ("table",)),
    "parquet": Format(_TABLES, "the same tables (extra parquet)", _FOLDER, ("table",)),
    "jsonl": Format(_TABLES, "the same tables as JSON lines", _FOLDER, ("table",)),
    "hf": Format(
        "heartloop.integrations.export:export_hf", "a Hugging Face dataset folder with its card",
        'Load: datasets.load_dataset("{folder}", "dialogues")',
    ),
    "sft": Format(
        "heartloop.integrations.export:export_sft", "the best of several dialogues per scenario as chat messages",
        'Load: datasets.load_dataset("{folder}")', ("model", "min_points", "best_of"),
    ),
    "dpo": Format(
        "heartloop.integrations.export:export_dpo", "preference pairs of replies and of dialogues, with margins",
        'Load: datasets.load_dataset("{folder}"); README.md there names the configurations', ("model", "margin"),
    ),
    "inspect": Format(
        "heartloop.integrations.inspect.export:export_logs",
        "logs for Inspect View and its data frames, one per model (extra inspect)",
        "Open: inspect view --log-dir {folder}",
    ),
}  # fmt: skip


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
    if format.writer == _TABLES:
        chosen["to"] = to
    written: list[Path] = writer(run, out, **chosen)
    return written
