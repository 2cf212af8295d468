"""What `heartloop import` reads of EIBench's release: records as scenarios, each whole, or refused with the reason.

Covers JSON lists, JSON lines and files of one object; an error in one record does not stop the others. Does not cover what a
record must hold to be played and scored (`released`). Files are read where the user keeps them (CC BY-NC); nothing of them
becomes part of this project.
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
from heartloop.environments.eibench.released import FORM, ReleasedRecord, ReleasedScenario
from heartloop.environments.importing import Imported, Importer, Refused, with_writable_texts

__all__ = ["SCENARIOS", "read_released"]

_COUNTED = {
    "odd anchors": "a record has anchors that our own rules forbid (multiples of 5, gaps of 10, a down, t up); they are kept",
    "charm openings": "a record of scene charm has an opening line; there the person begins, as the record says",
}

_SHOWN = 80  # characters of a wrong value in a reason


class _Found(NamedTuple):
    """A JSON value of a file, or why there is none."""

    place: str
    value: Any
    problem: str = ""


def read_released(source: Path) -> Imported:
    """The records of a released file, or of every `*.json` and `*.jsonl` of a folder.

    Raises:
        InputError: a file that cannot be read, or a folder without one.
    """
    scenarios: list[ReleasedScenario] = []
    refused: list[Refused] = []
    places: dict[str, str] = {}
    for path in _files(source):
        for found in _values(path):
            reason = found.problem or _wrong(found.value)
            if not reason:
                try:
                    scenario = ReleasedScenario(form=FORM, source=found.place, record=ReleasedRecord.model_validate(found.value))
                except ValidationError as error:
                    reason = _reason(error)
                else:
                    if scenario.id not in places:
                        places[scenario.id] = found.place
                        scenarios.append(scenario)
                        continue
                    reason = (
                        f"id: {scenario.id!r} is already in {places[scenario.id]}; expected ids that differ, import the two apart"
                    )
            refused.append(Refused(found.place, reason))
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
        raise InputError(f"{source} holds no released file; expected *.json or *.jsonl in it")
    return files


def _values(path: Path) -> Iterator[_Found]:
    """The JSON values of a file, in order; a file that is neither one JSON value nor lines of them is one problem."""
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected a released file") from error
    whole = _value(f"{path.name}", data)
    if isinstance(whole.value, list) and not whole.problem:
        yield from (_Found(f"{path.name}, record {number}", value) for number, value in enumerate(whole.value, start=1))
        return
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if not whole.problem or len(lines) < 2:
        yield (
            whole._replace(place=f"{path.name}, record 1") if lines else _Found(path.name, None, "it is empty; expected records")
        )
        return
    found = [_value(f"{path.name}, line {number}", line) for number, line in lines]
    if not any(isinstance(one.value, dict) for one in found):  # one value over several lines, broken somewhere
        yield whole
        return
    yield from found


def _value(place: str, data: bytes) -> _Found:
    try:
        return _Found(place, with_writable_texts(json.loads(data.decode("utf-8"), parse_int=_whole)))
    except UnicodeDecodeError as error:
        return _Found(place, None, f"not UTF-8 ({error.reason} at byte {error.start + 1}); expected UTF-8")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if b"\n" in data.strip() else f"column {error.colno}"
        return _Found(place, None, f"not JSON ({error.msg}, {where}); expected a JSON object")
    except RecursionError:
        return _Found(place, None, "not JSON (nested too deeply); expected a JSON object")


def _whole(digits: str) -> float:
    """A whole number; one of thousands of digits, which no JSON reader need take, becomes infinite and is refused as such."""
    return int(digits) if len(digits) < 400 else math.inf


def _wrong(value: Any) -> str:
    """What is wrong with a record as a whole; empty when nothing is."""
    if not isinstance(value, dict):
        return f"it is {_shown(value)}; expected a JSON object"
    if "form" in value:
        return "it was imported before; use its file as it is: --scenarios"
    where = _no_number(value, "")
    return f"{where} is no JSON number; expected a finite one" if where else ""


def _no_number(value: Any, where: str) -> str:
    """The field of a number that JSON cannot hold; empty when there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where}: {value}"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((bad for key, part in parts if (bad := _no_number(part, f"{where}.{key}".lstrip(".")))), "")


def _reason(error: ValidationError) -> str:
    """The first error of a record: field, value, and what was expected."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the record"
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if first["type"] == "missing":
        return f"{where} is missing; expected it in every record"
    return said if not first["loc"] else f"{where}: {_shown(first['input'])}; {said}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


SCENARIOS = Importer(
    "A released EIBench file (JSON list or lines), or a folder of them, as scenarios for a user simulator model.",
    read_released,
    _COUNTED,
)
