"""The tables of a run as files: CSV, Parquet, JSON lines, and a Hugging Face dataset folder.

Covers the files. Does not cover the columns (`heartloop.evaluation.tables`). Unscored dialogues are rows without a score.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.errors import InputError, UseError
from heartloop.evaluation.api import Run
from heartloop.evaluation.tables import TABLES, PolicyPrompts, messages_of, table_of
from heartloop.integrations.dataset import DataFile, finished_run, json_lines, write_dataset

__all__ = ["export_csv", "export_hf", "export_jsonl", "export_parquet"]

_ABOUT = {
    "dialogues": "one row per dialogue: score, stop reason, states, facts of the scenario, tokens",
    "turns": "one row per reply: texts, state, change, thoughts",
    "calls": "one row per model call of any role: raw answer, tokens",
}
Rows = Sequence[dict[str, Any]]


def export_csv(run: Path, out: Path | None = None, *, table: Sequence[str] = TABLES) -> list[Path]:
    """Tables as CSV in UTF-8; an empty field is a missing value.

    Raises:
        InputError: no run directory, or no finished dialogue.
        UseError: an unknown table, or a folder that cannot be written.
    """
    return _export(run, out, "csv", table, _csv)


def export_jsonl(run: Path, out: Path | None = None, *, table: Sequence[str] = TABLES) -> list[Path]:
    """Tables as JSON lines; raises as `export_csv`."""
    return _export(run, out, "jsonl", table, json_lines)


def export_parquet(run: Path, out: Path | None = None, *, table: Sequence[str] = TABLES) -> list[Path]:
    """Tables as Parquet.

    Raises:
        UseError: pyarrow is not installed; else as `export_csv`.
        InputError: as `export_csv`.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UseError("--to parquet needs pyarrow, which is not installed; pip install pyarrow, or use --to csv") from error

    def content(rows: Rows) -> bytes:
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
        return file.getvalue()

    return _export(run, out, "parquet", table, content)


def export_hf(run: Path, out: Path | None = None) -> list[Path]:
    """A folder that `datasets.load_dataset` reads and the Hugging Face hub shows: every table, and each dialogue's messages.

    Raises:
        InputError: as `export_csv`.
        UseError: as `export_csv`.
    """
    source = finished_run(run)
    prompts = PolicyPrompts(source.settings)
    rows = _filled(source, TABLES)
    for row, dialogue in zip(rows["dialogues"], source.transcripts, strict=True):
        row["messages"] = messages_of(dialogue, prompts.of(dialogue))
    files = [DataFile(f"data/{name}.jsonl", name, json_lines(rows[name]), len(rows[name]), _ABOUT[name]) for name in rows]
    how = ["`messages` is what the model under test read and said, without its thinking."]
    return write_dataset(source, out, "hf", files, used=source.transcripts, how=how)


def _export(run: Path, out: Path | None, format: str, table: Sequence[str], content: Callable[[Rows], bytes]) -> list[Path]:
    names = list(dict.fromkeys(table_of(name) for name in table))
    source = finished_run(run)
    rows = _filled(source, names)
    files = [DataFile(f"{name}.{format}", name, content(rows[name]), len(rows[name]), _ABOUT[name]) for name in rows]
    return write_dataset(source, out, format, files, used=source.transcripts, options={"table": names})


def _filled(run: Run, names: Sequence[str]) -> dict[str, Rows]:
    """The tables that have rows; imported dialogues have no calls.

    Raises:
        InputError: none has any.
    """
    rows = {name: run.table(name) for name in names}
    if not any(rows.values()):
        raise InputError(f"{run.path} has no {' and no '.join(names)}; leave out --table")
    return {name: those for name, those in rows.items() if those}


def _csv(rows: Rows) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
