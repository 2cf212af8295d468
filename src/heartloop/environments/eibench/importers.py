"""Importer of the EIBench release: records as scenarios, unchanged, or refused with a reason. The data is the authors' (CC BY-NC)
and no part of this project.

Reads JSON lists, JSON lines and files of one object; an invalid record does not stop the import of others.
"""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from heartloop.core.errors import InputError
from heartloop.environments.eibench.scenario import FORM, EIBenchReleasedScenario, ReleasedRecord
from heartloop.environments.importing import Imported, Importer, Refused, with_writable_texts

_COUNTED = {
    "odd anchors": "anchors that violate this project's rules (multiples of 5, gaps of 10, a down, t up); they are not changed",
    "charm openings": "records of scene charm with an opening line; the user speaks first in them",
}

_SHOWN = 80  # characters of a wrong value in a reason


class _Value(NamedTuple):
    """A JSON value of a file, or the problem with it."""

    place: str
    value: Any
    problem: str = ""


def read_released(source: Path) -> Imported:
    """The scenarios of a released file, or of every `*.json` and `*.jsonl` in a folder."""
    scenarios: list[EIBenchReleasedScenario] = []
    refused: list[Refused] = []
    places: dict[str, str] = {}
    for path in _files(source):
        for entry in _values(path):
            reason = entry.problem or _problem(entry.value)
            if not reason:
                try:
                    scenario = EIBenchReleasedScenario(
                        form=FORM, source=entry.place, record=ReleasedRecord.model_validate(entry.value)
                    )
                except ValidationError as error:
                    reason = _reason(error)
                else:
                    if scenario.id not in places:
                        places[scenario.id] = entry.place
                        scenarios.append(scenario)
                        continue
                    reason = (
                        f"id: {scenario.id!r} is already in {places[scenario.id]}; expected unique ids; import the two separately"
                    )
            refused.append(Refused(entry.place, reason))
    counts = Counter(
        {
            "odd anchors": sum(s.odd_anchors for s in scenarios),
            "charm openings": sum(s.scene == "charm" and s.opening is not None for s in scenarios),
        }
    )
    return Imported(scenarios=scenarios, refused=refused, counts=counts)


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    files = sorted(path for path in source.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file())
    if not files:
        raise InputError(f"{source} contains no released file; expected *.json or *.jsonl files")
    return files


def _values(path: Path) -> Iterator[_Value]:
    """The JSON values of a file, in order; a file that is neither JSON nor JSON lines yields one problem."""
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected a released file") from error
    whole = _value(path.name, data)
    if isinstance(whole.value, list) and not whole.problem:
        yield from (_Value(f"{path.name}, record {number}", value) for number, value in enumerate(whole.value, start=1))
        return
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if not whole.problem or len(lines) < 2:
        yield (
            whole._replace(place=f"{path.name}, record 1")
            if lines
            else _Value(path.name, None, "the file is empty; expected records")
        )
        return
    values = [_value(f"{path.name}, line {number}", line) for number, line in lines]
    is_lines = any(isinstance(value.value, dict) for value in values)  # else one invalid value over several lines
    yield from values if is_lines else [whole]


def _value(place: str, data: bytes) -> _Value:
    try:
        return _Value(place, with_writable_texts(json.loads(data.decode("utf-8"), parse_int=_integer)))
    except UnicodeDecodeError as error:
        return _Value(place, None, f"not UTF-8 ({error.reason} at byte {error.start + 1}); expected UTF-8")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if b"\n" in data.strip() else f"column {error.colno}"
        return _Value(place, None, f"not JSON ({error.msg}, {where}); expected a JSON object")
    except RecursionError:
        return _Value(place, None, "not JSON (nested too deeply); expected a JSON object")


def _integer(digits: str) -> float:
    """An integer; infinity, which is refused later, for 400 digits or more, since Python limits their number."""
    return int(digits) if len(digits) < 400 else math.inf


def _problem(value: Any) -> str:
    """The problem of a record as a whole; empty if there is none."""
    if not isinstance(value, dict):
        return f"the record is {_shown(value)}; expected a JSON object"
    if "form" in value:
        return "the record was imported before; use the file as it is: --scenarios"
    field = _not_finite(value, "")
    return f"{field}; expected a finite number" if field else ""


def _not_finite(value: Any, where: str) -> str:
    """Field and value of the first number that is not finite; empty if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where}: {value}"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((bad for key, part in parts if (bad := _not_finite(part, f"{where}.{key}".lstrip(".")))), "")


def _reason(error: ValidationError) -> str:
    """The first error of a record: field, value, and what was expected."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the record"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if first["type"] == "missing":
        return f"{where} is missing; expected it in every record"
    return message if not first["loc"] else f"{where}: {_shown(first['input'])}; {message}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


SCENARIOS = Importer(
    "A released EIBench file (JSON list or lines), or a folder of them, as scenarios for a user simulator model.",
    read_released,
    _COUNTED,
)
