"""One cluster on this machine for all tests of a process, in which commands run."""

from collections.abc import Iterator

import pytest

from heartloop.integrations.ray import HERE, RayPool


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    RayPool(HERE)
    import ray

    yield
    ray.shutdown()
