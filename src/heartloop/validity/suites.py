"""Validity suites by name: those of an environment, and those that every environment can use.

Does not cover what a suite is (`heartloop.environments.suites`) or running one (`judging`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Lazy, load_attribute
from heartloop.environments.suites import Suite
from heartloop.evaluation.run_directory import played_settings

__all__ = ["GENERIC", "environment_of", "suite_of"]

GENERIC: Mapping[str, Lazy] = {}
"""Suites for every environment, by name: each a lazy path of a `Suite`."""


def environment_of(runs: Sequence[Path]) -> EnvironmentSpec:
    """The environment of some runs.

    Raises:
        UseError: they are of several.
        InputError: one is no run directory.
    """
    names = list(dict.fromkeys(played_settings(run).environment for run in runs))
    if len(names) > 1:
        raise UseError(f"the runs are of {' and '.join(names)}; validate runs of one environment at a time")
    return load_environment(names[0])


def suite_of(spec: EnvironmentSpec, name: str | None) -> Suite:
    """A suite that runs of an environment can be validated with.

    Raises:
        UseError: no name, which lists the suites, or an unknown one, which names the nearest.
    """
    suites: dict[str, Lazy] = {**GENERIC, **spec.suites}
    if not suites:
        raise UseError(f"{spec.name} has no validity suite, so its runs cannot be validated")
    known = " or ".join(suites)
    if name is None:
        raise UseError(f"--suite is missing; runs of {spec.name} can be validated with --suite {known}")
    if name not in suites:
        near = get_close_matches(name, suites, n=1, cutoff=0.0)
        raise UseError(f"unknown suite {name!r}; {spec.name} has {known}" + (f"; the nearest is {near[0]!r}" if near else ""))
    suite: Suite = load_attribute(suites[name])
    return suite
