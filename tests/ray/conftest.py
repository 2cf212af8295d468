"""One cluster on this machine for the commands that the tests of a file run in their own process."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from heartloop.integrations.ray import HERE, RayPool


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    RayPool(HERE)
    import ray

    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Ray leaves processes and sockets to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
