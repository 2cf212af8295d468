"""Names of the shipped environments; one that a developer has installed besides is left out."""

from __future__ import annotations

from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec

SHIPPED = ("sage", "eibench", "empa", "perm", "daily", "eqbench", "stances")
SPECS: list[EnvironmentSpec] = [load_environment(name) for name in SHIPPED]


def name_of(spec: object) -> str:
    """A spec's name as a test id."""
    return spec.name if isinstance(spec, EnvironmentSpec) else str(spec)
