"""Validity suites by name: those that every environment can use, and those of an environment.

Does not cover what a suite is (`heartloop.environments.suites`) or running one (`answering`, `judging`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heartloop.core.errors import UseError
from heartloop.core.text import nearest
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Lazy, load_attribute
from heartloop.environments.suites import RejudgingSuite, RunSuite
from heartloop.evaluation.store import saved_settings

__all__ = ["GENERIC", "environment_of", "run_suites", "suite_of"]

GENERIC: Mapping[str, Lazy] = {
    "blri": "heartloop.validity.questionnaires:BLRI",
    "utterance": "heartloop.validity.questionnaires:UTTERANCE",
    "capabilities": "heartloop.validity.capabilities:CAPABILITIES",
    "strategies": "heartloop.validity.strategies:STRATEGIES_SUITE",
    "coordinate": "heartloop.validity.coordinate:COORDINATE",
    "probes": "heartloop.validity.probes:PROBES",
    "noise": "heartloop.validity.noise:NOISE",
    "calibration": "heartloop.validity.calibration:CALIBRATION",
    "simulator": "heartloop.validity.simulators:SIMULATOR",
    "difficulty": "heartloop.validity.difficulty:DIFFICULTY",
    "rankings": "heartloop.validity.rankings:RANKINGS",
}
"""Suites for every environment, by name: each a lazy path of a `RunSuite`. Their order is that of the page."""


def environment_of(runs: Sequence[Path]) -> EnvironmentSpec:
    """The environment of some runs, rejudged and rescored ones included.

    Raises:
        UseError: they are of several.
        InputError: one is no run directory.
    """
    names = list(dict.fromkeys(str(saved_settings(run).get("environment")) for run in runs))
    if len(names) > 1:
        raise UseError(f"the runs are of {' and '.join(names)}; validate runs of one environment at a time")
    return load_environment(names[0])


def suite_of(spec: EnvironmentSpec, name: str) -> RunSuite | RejudgingSuite:
    """A suite that runs of an environment can be validated with.

    Raises:
        UseError: an unknown name; names the nearest.
    """
    suites = _all(spec)
    if name not in suites:
        raise UseError(f"unknown suite {name!r}; {spec.name} has {' or '.join(suites) or 'none'}{nearest(name, suites)}")
    suite: RunSuite | RejudgingSuite = load_attribute(suites[name])
    return suite


def run_suites(spec: EnvironmentSpec) -> dict[str, RunSuite]:
    """The suites that read runs of an environment, by name."""
    suites = {name: load_attribute(path) for name, path in _all(spec).items()}
    return {name: suite for name, suite in suites.items() if isinstance(suite, RunSuite)}


def _all(spec: EnvironmentSpec) -> dict[str, Lazy]:
    return {**GENERIC, **spec.suites}
