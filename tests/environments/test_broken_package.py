"""A package whose environment does not load is named, and stops nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from heartloop.core.errors import UseError
from heartloop.environments import registry


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shipped environments and two packages that do not load: a missing module, and an object that is no spec."""
    entries = dict(registry._entries())
    entries["absent"] = EntryPoint("absent", "no_such_package.spec:SPEC", registry.GROUP)
    entries["number"] = EntryPoint("number", "math:pi", registry.GROUP)
    monkeypatch.setattr(registry, "_entries", lambda: entries)
    registry.broken.cache_clear()
    yield
    registry.broken.cache_clear()


@pytest.mark.usefixtures("installed")
def test_the_others_are_there_and_the_broken_ones_are_named() -> None:
    assert {spec.name for spec in registry.specs()} == set(registry.environment_names()) - {"absent", "number"}
    assert set(registry.broken()) == {"absent", "number"}
    assert "no_such_package" in registry.broken()["absent"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["absent", "number"])
def test_asking_for_a_broken_one_is_refused(name: str) -> None:
    with pytest.raises(UseError, match=name):
        registry.load_environment(name)
