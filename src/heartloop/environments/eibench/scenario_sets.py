"""EIBench's people by the name of a set or of a file: shipped, composed, written by somebody, or imported.

Covers which reader a name needs. Does not cover the readers themselves (`scenario`, `composer`, `released`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from heartloop.core.errors import InputError, UseError
from heartloop.environments.eibench.composer import train_set
from heartloop.environments.eibench.released import AnyScenario, read_imported
from heartloop.environments.eibench.scenario import Scenario, load_scenarios
from heartloop.environments.records import first_record, without_tags

__all__ = ["SETS", "load_people", "training"]

SETS = ("test", "train")
"""Sets by name: the shipped test set, and the training set that is composed anew, word for word the same."""


@cache
def training() -> tuple[Scenario, ...]:
    """The training set of 2,009 scenarios, composed once a process; no combination of the test set is in it."""
    return tuple(train_set([scenario.seed for scenario in load_scenarios("test")]))


def load_people(name: str = "test", *, exclude_tags: Sequence[str] = ()) -> list[AnyScenario]:
    """A set by name, or a file by path: our own form or an imported one.

    Raises:
        UseError: unknown set and no such file, tags asked of imported records, which carry none, or nothing left.
        InputError: the file does not fit its schema, or is the authors' own and was not imported yet.
    """
    if name == "train":
        return list(without_tags(training(), exclude_tags, name))
    if name == "test":
        return list(load_scenarios(name, exclude_tags=exclude_tags))
    path = Path(name)
    if not path.is_file():
        raise UseError(f"unknown scenario set {name!r}; expected {' or '.join(SETS)}, or the path of a JSON-lines file")
    keys = first_record(path).keys()
    if "form" in keys:
        if exclude_tags:
            raise UseError(f"--exclude-tag finds nothing in {name}: imported records carry no tags; leave lines out by hand")
        return list(read_imported(path))
    if "aggressor_profile" in keys:
        raise InputError(
            f"{path} is the authors' own file; run `heartloop import eibench-scenarios {path} --out FILE.jsonl` "
            "and use what it writes"
        )
    return list(load_scenarios(name, exclude_tags=exclude_tags))
