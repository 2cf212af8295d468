"""Environments by name: entry points of the group `heartloop.environments`, each an `EnvironmentSpec`, loaded lazily.

The shipped environments are registered in the same way as a third party's. Does not cover what a spec holds (`spec`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from heartloop.core.errors import UseError
from heartloop.environments.records import first_record
from heartloop.environments.spec import AnyScenario, EnvironmentSpec

__all__ = ["GROUP", "broken", "environment_names", "find_scenario", "load_environment", "owner_of", "specs", "stratified"]

GROUP = "heartloop.environments"


@cache
def _entries() -> Mapping[str, EntryPoint]:
    """Entry points by name; an installed distribution wins over one of the same name further down the path."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def environment_names() -> list[str]:
    """Names of every installed environment, the shipped ones first; loads none of them."""
    order = {entry.name: (not entry.value.startswith("heartloop."), place) for place, entry in enumerate(_entries().values())}
    return sorted(order, key=lambda name: order[name])


@cache
def load_environment(name: str) -> EnvironmentSpec:
    """The environment of a name.

    Raises:
        UseError: there is none of that name, or its package does not load.
    """
    entries = _entries()
    if name not in entries:
        near = get_close_matches(name, entries, n=1, cutoff=0.0)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        raise UseError(f"unknown environment {name!r}; expected {' or '.join(environment_names())}{nearest}")
    try:
        found = entries[name].load()
    except Exception as error:  # whatever a third party's package raises on import
        raise UseError(
            f"environment {name!r} ({entries[name].value}) does not load: {type(error).__name__}: {error}; reinstall its package"
        ) from error
    if not isinstance(found, EnvironmentSpec) or found.name != name:
        raise UseError(f"environment {name!r} ({entries[name].value}) is {found!r}; expected an EnvironmentSpec of that name")
    return found


def specs() -> list[EnvironmentSpec]:
    """Every installed environment that loads; `broken` names the others."""
    return [load_environment(name) for name in environment_names() if name not in broken()]


@cache
def broken() -> Mapping[str, str]:
    """Installed environments that do not load, with the reason: a fault in one package must not stop the others."""
    reasons: dict[str, str] = {}
    for name in environment_names():
        try:
            load_environment(name)
        except UseError as error:
            reasons[name] = str(error)
    return reasons


def owner_of(scenarios: str) -> EnvironmentSpec:
    """The environment that a set's name, a scenario file or a folder belongs to.

    Raises:
        UseError: no set of that name and no such file or folder, or one that no environment recognises.
    """
    every = specs()
    for spec in every:
        if scenarios in spec.scenarios.sets:
            return spec
    path = Path(scenarios)
    if not path.exists():
        sets = [name for spec in every for name in spec.scenarios.sets]
        near = get_close_matches(scenarios, sets, n=1, cutoff=0.0)
        raise UseError(
            f"unknown scenario set {scenarios!r}; expected {' or '.join(sets)}, or the path of a JSON-lines file"
            + (f"; the nearest set is {near[0]!r}" if near else "")
        )
    record: dict[str, Any] = first_record(path) if path.is_file() else {}
    if path.is_file() and not record:
        raise UseError(f"{scenarios} holds no scenario: its first line is no JSON object; expected one JSON object a line")
    for spec in every:
        if spec.scenarios.owns(path, record):
            return spec
    raise UseError(
        f"{scenarios}: the first record fits no environment; expected scenarios of {' or '.join(environment_names())}, "
        "one JSON object a line"
    )


def find_scenario(scenario: str, scenarios: str | None = None) -> tuple[EnvironmentSpec, Any]:
    """A scenario by its id and the environment it belongs to; looked for in one set or file, by default in every shipped set.

    Raises:
        UseError: it is in none of them.
    """
    sets = [scenarios] if scenarios else [name for spec in specs() for name in spec.scenarios.sets]
    known: list[str] = []
    for name in sets:
        spec = owner_of(name)
        for one in spec.scenarios.load(name):
            if one.id == scenario:
                return spec, one
            known.append(one.id)
    near = get_close_matches(scenario, known, n=1)
    raise UseError(
        f"no scenario {scenario!r} in {' or '.join(sets)}"
        + (f"; the nearest id is {near[0]!r}" if near else "; `heartloop scenarios list` shows them")
    )


def stratified(scenarios: Sequence[AnyScenario], limit: int | None) -> list[AnyScenario]:
    """The first `limit` scenarios, taken in turn from each stratum, in order; all when `limit` is `None`.

    Raises:
        UseError: a limit below 1.
    """
    if limit is None or limit >= len(scenarios):
        return list(scenarios)
    if limit < 1:
        raise UseError(f"--limit is {limit}; expected at least 1")
    groups: dict[str, list[AnyScenario]] = {}
    for scenario in scenarios:
        groups.setdefault(scenario.stratum, []).append(scenario)
    longest = max(len(group) for group in groups.values())
    taken = [group[i] for i in range(longest) for group in groups.values() if i < len(group)][:limit]
    chosen = {scenario.id for scenario in taken}
    return [scenario for scenario in scenarios if scenario.id in chosen]
