"""Importer of the EIBench release: records as scenarios, unchanged, or refused. The data is the authors' (CC BY-NC)."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from heartloop.core.errors import InputError
from heartloop.core.system import readable
from heartloop.environments.eibench.scenario import FORM, EIBenchReleasedScenario
from heartloop.environments.importing import Imported, Importer, Refused, each_line, with_writable_texts
from heartloop.environments.records import plain

_COUNTED = {
    "odd anchors": "anchors that violate this project's rules (multiples of 5, gaps of 5, a down, t up); they are not changed",
    "charm openings": "records of scene charm with an opening line; the user speaks first in them",
}


def read_released(source: Path) -> Imported:
    """The scenarios of a released file, or of every `*.json` and `*.jsonl` in a folder."""
    files = [source]
    if source.is_dir():
        files = sorted(path for path in source.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file())
        if not files:
            raise InputError(f"{source} contains no released file; expected *.json or *.jsonl files")
    scenarios: dict[str, EIBenchReleasedScenario] = {}
    refused: list[Refused] = []
    for place, value in (entry for path in files for entry in _values(path)):
        try:
            scenario = _scenario(place, value)
            if first := scenarios.get(scenario.id):
                raise InputError(
                    f"id: {scenario.id!r} is already in {first.source}; expected unique ids; import the two separately"
                )
            scenarios[scenario.id] = scenario
        except InputError as error:
            refused.append(Refused(place, str(error).removeprefix(f"{place}: ")))
    counts = {
        "odd anchors": sum(s.odd_anchors for s in scenarios.values()),
        "charm openings": sum(s.scene == "charm" and s.opening is not None for s in scenarios.values()),
    }
    return Imported(scenarios=list(scenarios.values()), refused=refused, counts=counts)


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Place and JSON value of each record, or the error in it; a file that is neither JSON nor JSON lines is one error."""
    with readable(path, "a released file"):
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        whole = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        lines = list(each_line(path)) if data.strip() else []
        is_lines = any(isinstance(value, dict) for _, value in lines)  # else one invalid value over several lines
        yield from lines if is_lines else [(path.name, InputError(f"not JSON ({error}); expected the records of the release"))]
        return
    for number, value in enumerate(whole if isinstance(whole, list) else [whole], start=1):
        yield f"{path.name}, record {number}", with_writable_texts(value)


def _scenario(place: str, value: Any) -> EIBenchReleasedScenario:
    if isinstance(value, InputError):
        raise value
    if isinstance(value, dict) and "form" in value:
        raise InputError("the record was imported before; use the file as it is: --scenarios")
    if field := _not_finite(value, "record"):
        raise InputError(f"{field}; expected a finite number")
    try:
        return EIBenchReleasedScenario(form=FORM, source=place, record=value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise InputError(f"{where}: {plain(first)}" if where else plain(first)) from error


def _not_finite(value: Any, where: str) -> str:
    """Field and value of the first number that is not finite; empty if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where}: {value}"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((bad for key, part in parts if (bad := _not_finite(part, f"{where}.{key}"))), "")


SCENARIOS = Importer(
    "A released EIBench file (JSON list or lines), or a folder of them, as scenarios for a user simulator model.",
    read_released,
    _COUNTED,
)
