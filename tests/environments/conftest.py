"""The shipped environments with a few scenarios each, for tests that hold for every one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.environments.registry import stratified
from heartloop.environments.spec import EnvironmentSpec
from tests.eqbench_checkout import write_checkout

Few = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenarios of the environment that ships none."""
    return write_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="session")
def few(checkout: Path) -> Few:
    """`few(spec, limit, variant=...)`: some scenarios of the default set, stratified."""

    def load(spec: EnvironmentSpec, limit: int = 2, variant: str | None = None) -> list[Any]:
        return stratified(spec.load(None if spec.scenarios.sets else str(checkout), variant=variant), limit)

    return load
