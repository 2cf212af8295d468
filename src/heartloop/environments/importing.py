"""Importers of `heartloop import`, and reading of released JSON-lines files.

Covers the values that `EnvironmentSpec.importers` name and return, JSON lines with file and line in every error, and text that
UTF-8 can encode. Does not cover what a record means (each environment's importers), nor writing files and run directories
(`heartloop.cli`). Released files are read from the user's disk; this project contains none of them.
"""

from __future__ import annotations

import codecs
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from heartloop.core.dialogue import Transcript, writable
from heartloop.core.errors import InputError

__all__ = ["Imported", "Importer", "Record", "Refused", "each_line", "problem_of", "records", "with_writable_texts"]


class Refused(NamedTuple):
    """A record that was not imported."""

    place: str
    """File and record."""
    reason: str


class Imported(NamedTuple):
    """What an importer read: scenarios for a scenario file, or transcripts for a run directory."""

    scenarios: Sequence[Any] = ()
    """`Scenario`s that are pydantic models."""
    transcripts: Sequence[Transcript] = ()
    raw: Sequence[bytes] = ()
    """The source of each transcript, byte for byte and without line breaks, in the order of the transcripts."""
    counts: Mapping[str, int] = {}
    """Counts of irregularities; `Importer.counted` describes the names."""
    refused: Sequence[Refused] = ()
    notes: Sequence[str] = ()
    """Sentences to print."""
    details: Sequence[str] = ()
    """Further lines; only the first ones are printed."""
    records: int | None = None
    """Records of the source, if some were neither imported nor refused."""

    @property
    def total(self) -> int:
        """Records of the source."""
        return len(self.scenarios) + len(self.transcripts) + len(self.refused) if self.records is None else self.records


class Importer(NamedTuple):
    """One kind of `heartloop import`."""

    about: str
    """One sentence: what it reads and what it writes."""
    read: Callable[..., Imported]
    """`read(source, **options)` with a file or folder; its further parameters are among the options of the command: `limit`,
    `seed`, `exclude_tags`, `model`, `user`. Raises `InputError` and `UseError`."""
    counted: Mapping[str, str] = {}
    """Descriptions of the names in `Imported.counts`; a name without one is printed as it is."""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that `read` takes."""
        return tuple(inspect.signature(self.read).parameters)[1:]


class Record(NamedTuple):
    """One line of a released file: path, line number, bytes and JSON object."""

    path: Path
    number: int
    raw: bytes
    """Without the line break."""
    value: dict[str, Any]

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.path}, line {self.number}"


def records(path: Path) -> Iterator[Record]:
    """The JSON objects of a file, one per line; blank lines are skipped.

    Raises:
        InputError: the file cannot be read, has no record, or a line is not UTF-8, not JSON or not an object; names the line.
    """
    for number, raw in _lines(path):
        place = f"{path}, line {number}"
        value = _value(place, raw)
        if not isinstance(value, dict):
            raise InputError(
                f"{place}: is a {type(value).__name__}; expected one JSON object per line, correct or remove that line"
            )
        yield Record(path, number, raw, value)


def each_line(path: Path) -> Iterator[tuple[str, Any | InputError]]:
    """Every line with its place, and its JSON value or the error in it; reading continues after an error.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    for number, raw in _lines(path):
        place = f"{path.name}, line {number}"
        try:
            yield place, _value(place, raw)
        except InputError as error:
            yield place, error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected a file of JSON lines") from error
    count = 0
    for number, raw in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if raw.strip():
            count += 1
            yield number, raw
    if not count:
        raise InputError(f"{path} has no record; expected one JSON object per line")


def _value(place: str, raw: bytes) -> Any:
    try:
        return with_writable_texts(json.loads(raw.decode("utf-8"), parse_constant=_no_number))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8 ({error.reason} at byte {error.start + 1}); save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}: not JSON ({error.msg}, column {error.colno}); expected one object per line, correct or remove that line"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise InputError(f"{place}: not JSON ({reason}); correct or remove that line") from error


def problem_of(record: Record, error: ValidationError) -> InputError:
    """The first error of a record, in one sentence with file, line and field."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "record"
    return InputError(f"{record.place}, {where}: {first['msg']}; expected the released form, correct or remove that line")


def with_writable_texts(value: Any) -> Any:
    """The JSON value with lone surrogates (from escapes) replaced, so that UTF-8 can encode it."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [with_writable_texts(entry) for entry in value]
    if isinstance(value, dict):
        return {writable(key): with_writable_texts(entry) for key, entry in value.items()}
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
