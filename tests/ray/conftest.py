"""One cluster on this machine for the commands that the tests of a file run in their own process."""

from collections.abc import Iterator

import pytest

from heartloop.integrations.ray import HERE, RayPool


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    RayPool(HERE)
    import ray

    yield
    ray.shutdown()
