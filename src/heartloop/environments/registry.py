"""Environments by name: entry points of the group `heartloop.environments`, each an `EnvironmentSpec`, loaded lazily."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from heartloop.core.errors import UseError
from heartloop.core.text import nearest
from heartloop.environments.base import AnyScenario
from heartloop.environments.records import Problem, first_record, read_text, sources
from heartloop.environments.spec import EnvironmentSpec

GROUP = "heartloop.environments"


@cache
def _entries() -> Mapping[str, EntryPoint]:
    # of equal names, the first on the path
    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        entries.setdefault(entry.name, entry)
    return entries


def environment_names() -> list[str]:
    """Names of all installed environments, the shipped ones first; loads none of them."""
    return sorted(_entries(), key=lambda name: not is_shipped(name))


def is_shipped(name: str) -> bool:
    return name in _entries() and _entries()[name].value.startswith("heartloop.")


@cache
def load_environment(name: str) -> EnvironmentSpec:
    """The environment with this name; raises `UseError` for an unknown name or a package that does not load."""
    entries = _entries()
    if name not in entries:
        raise UseError(f"unknown environment {name!r}; expected {' or '.join(environment_names())}{nearest(name, entries)}")
    try:
        spec = entries[name].load()
    except Exception as error:  # a third party's package may raise anything on import
        raise UseError(
            f"environment {name!r} ({entries[name].value}) does not load: {type(error).__name__}: {error}; reinstall its package"
        ) from error
    if not isinstance(spec, EnvironmentSpec) or spec.name != name:
        raise UseError(f"environment {name!r} ({entries[name].value}) is {spec!r}; expected an EnvironmentSpec of that name")
    return spec


def specs() -> list[EnvironmentSpec]:
    """All installed environments that load."""
    return [load_environment(name) for name in environment_names() if name not in broken()]


@cache
def broken() -> Mapping[str, str]:
    """Reasons why installed environments do not load, by name; the others can still be used."""
    reasons: dict[str, str] = {}
    for name in environment_names():
        try:
            load_environment(name)
        except UseError as error:
            reasons[name] = str(error)
    return reasons


def owner_of(scenarios: str) -> EnvironmentSpec:
    """The environment of a set (by name), a scenario file or a folder."""
    every = specs()
    for spec in every:
        if scenarios in spec.scenarios.sets:
            return spec
    if scenarios in environment_names():
        names = " or ".join(load_environment(scenarios).scenarios.sets) or "a file or folder"
        raise UseError(f"{scenarios} is an environment; expected one of its scenario sets: {names}")
    path = Path(scenarios)
    if not path.exists():
        sets = [name for spec in every for name in spec.scenarios.sets]
        raise UseError(
            f"unknown scenario set {scenarios!r}; expected {' or '.join(sets)}, or the path of a scenario file"
            f"{nearest(scenarios, [*sets, *environment_names()])}"
        )
    record = first_record(path) if path.is_file() else {}
    if path.is_file() and not record:
        if problem := next((one for one in sources(path, read_text(path)) if isinstance(one, Problem)), None):
            raise UseError(f"{scenarios}, {problem}; correct that line")
        expected = "its first record is not a JSON object; expected JSON lines or YAML fields"
        raise UseError(f"{scenarios} holds no scenario: {expected}")
    for spec in every:
        if spec.scenarios.owns(path, record):
            return spec
    raise UseError(
        f"{scenarios}: no environment recognises the first record; expected scenarios of {' or '.join(environment_names())}, "
        "JSON lines or YAML; or name it (`heartloop scenarios check FILE --environment NAME`)"
    )


def find_scenario(scenario: str, scenarios: str | None = None, *, environment: str | None = None) -> tuple[EnvironmentSpec, Any]:
    """A scenario by its id, with its environment; searches one set or file, by default all sets (of `environment`)."""
    owner = load_environment(environment) if environment is not None else None
    if owner is not None and not owner.scenarios.sets and not scenarios:
        raise UseError(f"{owner.name} ships no scenarios; pass the folder or file with --scenarios (docs/{owner.name}.md)")
    searched = specs() if owner is None else [owner]
    sets = [scenarios] if scenarios else [name for spec in searched for name in spec.scenarios.sets]
    anywhere = not environment and not scenarios
    known = environment_names() if anywhere else []
    for name in sets:
        spec = owner or owner_of(name)
        for one in spec.scenarios.load(name):
            if one.id == scenario:
                return spec, one
            known.append(one.id)
    near = f"{nearest(scenario, known)}; heartloop environments show NAME names the sets, heartloop scenarios list SET lists one"
    wrong = f"or environment {scenario!r}" if anywhere else f"{scenario!r} in {' or '.join(sets)}"
    raise UseError(f"no scenario {wrong}{near}")


def scenarios_by_id(spec: EnvironmentSpec, ids: Sequence[str], scenarios: str | None = None) -> tuple[str, list[Any]]:
    """The name of a set or file (by default the set of the environment with all ids), and its scenarios in the order of ids."""
    known: dict[str, str] = {}
    for name in [scenarios] if scenarios else spec.scenarios.sets:
        records = {one.id: one for one in spec.scenarios.load(name)}
        if all(one in records for one in ids):
            return name, [records[one] for one in dict.fromkeys(ids)]
        known |= {one: known.get(one, name) for one in records}
    sets = " or ".join([scenarios] if scenarios else spec.scenarios.sets) or f"{spec.name}, which ships none: pass --scenarios"
    for one in ids:
        if one not in known:
            raise UseError(f"no scenario {one!r} in {sets}{nearest(one, known)}; heartloop scenarios list SET lists them")
    in_sets = ", ".join(f"{one} ({known[one]})" for one in ids)
    raise UseError(f"the scenarios {in_sets} are in several sets; expected those of one set: evaluate each set on its own")


def stratified(scenarios: Sequence[AnyScenario], limit: int | None) -> list[AnyScenario]:
    """`limit` scenarios, equally many from each stratum where possible, in the given order; all if `limit` is `None`."""
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


def parted(scenarios: Sequence[AnyScenario], share: float) -> tuple[list[AnyScenario], list[AnyScenario]]:
    """The training scenarios of one set, and the held-out share, stratified."""
    held_out = stratified(scenarios, max(1, round(share * len(scenarios))))
    ids = {scenario.id for scenario in held_out}
    return [scenario for scenario in scenarios if scenario.id not in ids], held_out


_ONLY_EMBEDDED = re.compile(r"^ *#\+ embedded\n.*?^ *#- embedded\n", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^ *#[+-] embedded\n", re.MULTILINE)


def template_of(spec: EnvironmentSpec, file: str, *, short: bool = False) -> str:
    """The YAML text of a template for a file of this name; `short` omits what only embedded roles read."""
    if not spec.scenarios.template:
        raise UseError(
            f"{spec.name} has no scenarios of its own form, so there is no template; see `heartloop environments show`"
        )
    body = (resources.files(spec.scenarios.template) / "scenarios" / "template.yaml").read_text(encoding="utf-8")
    body = _MARK.sub("", _ONLY_EMBEDDED.sub("", body) if short else body)
    user = "MODEL" if short else "embedded"
    form = "in the short form, for models in all roles" if short else "for the embedded roles and for models"
    header = [
        f"A scenario of {spec.title}, {form}. A complete example: replace its texts by your own.",
        f"  heartloop scenarios check {file}",
        f"  heartloop eval {spec.name} --scenarios {file} --model MODEL --user {user}",
        'Texts stand in quotes; write \\" for a quote inside. Further scenarios follow after a line that says ---.',
        "The example is made up and licensed CC BY 4.0.",
    ]
    return "".join(f"# {line}\n" for line in header) + "\n" + body
