"""Readers of the files others released: JSON lines with places in their errors, and SAGE / RLVER profiles.

Covers reading without loss and writing our own form beside it. Does not cover released dialogues (`sage_logs`), nor what a
released person is to a simulator (`environments.sage.released`). Files are read where the user keeps them; nothing of
them becomes part of this project.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from heartloop.core.dialogue import writable
from heartloop.core.errors import InputError, UseError
from heartloop.environments.sage.released import FORM, ReleasedProfile, ReleasedScenario

__all__ = ["Record", "each_line", "problem_of", "read_profiles", "records", "with_writable_texts", "write_people"]


class Record(NamedTuple):
    """One line of a released file: where it stands, its bytes as they are, and its JSON object."""

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
    """The JSON objects of a file, one a line; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, holds no record, or a line is not UTF-8, not JSON, or no object; says where.
    """
    for number, raw in _lines(path):
        place = f"{path}, line {number}"
        value = _value(place, raw)
        if not isinstance(value, dict):
            raise InputError(
                f"{place}: holds a {type(value).__name__}; expected one JSON object a line, mend or remove that line"
            )
        yield Record(path, number, raw, value)


def each_line(path: Path) -> Iterator[tuple[str, Any | InputError]]:
    """Every line with its place, as the JSON value that it holds or as what is wrong with it: one stops no other.

    Raises:
        InputError: the file cannot be read, or holds nothing.
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
    found = 0
    for number, raw in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if raw.strip():
            found += 1
            yield number, raw
    if not found:
        raise InputError(f"{path} holds no record; expected one JSON object a line")


def _value(place: str, raw: bytes) -> Any:
    try:
        return with_writable_texts(json.loads(raw.decode("utf-8"), parse_constant=_no_number))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8 ({error.reason} at byte {error.start + 1}); save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}: not JSON ({error.msg}, column {error.colno}); expected one object a line, mend or remove that line"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise InputError(f"{place}: not JSON ({reason}); mend or remove that line") from error


def problem_of(record: Record, error: ValidationError) -> InputError:
    """The first thing that does not fit, in one sentence with file, line and field."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "record"
    return InputError(f"{record.place}, {where}: {first['msg']}; expected the released form, mend or remove that line")


def read_profiles(path: Path) -> list[ReleasedScenario]:
    """The people of a released profile file (test or training), each record kept whole.

    Raises:
        InputError: with file, line and field, for the first record that does not fit, or two equal ids.
    """
    people: list[ReleasedScenario] = []
    seen: dict[str, int] = {}
    for record in records(path):
        if "history" in record.value:
            raise InputError(f"{record.place} is a dialogue, not a profile; use `heartloop import sage-logs {path}`")
        if "form" in record.value:
            raise InputError(f"{record.place} was imported already; use it as it is: --scenarios {path}")
        try:
            profile = ReleasedProfile.model_validate(record.value)
        except ValidationError as error:
            raise problem_of(record, error) from error
        if profile.id in seen:
            raise InputError(f"{record.place}: id {profile.id!r} is already on line {seen[profile.id]}; remove one of the two")
        seen[profile.id] = record.number
        people.append(ReleasedScenario(form=FORM, source=path.name, record=profile))
    return people


def write_people(people: Sequence[BaseModel], path: Path) -> None:
    """Writes people (of any environment) as `--scenarios` reads them, whole or not at all.

    Raises:
        UseError: the file is there already, or cannot be written.
    """
    if path.exists():
        raise UseError(f"{path} is there already; choose another --out, or remove it")
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("".join(person.model_dump_json(exclude_unset=True) + "\n" for person in people), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise UseError(f"cannot write {path}: {error.strerror}; choose another --out") from error


def with_writable_texts(value: Any) -> Any:
    """The same JSON value with half emojis, which an escape may hide, as UTF-8 can hold them."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [with_writable_texts(entry) for entry in value]
    if isinstance(value, dict):
        return {writable(key): with_writable_texts(entry) for key, entry in value.items()}
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
