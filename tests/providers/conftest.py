from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.providers.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of a test without a running loop; `asyncio.run`, with which heartloop begins its work, uses its loop too."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    monkeypatch.setattr(time, "time", made.time)
    monkeypatch.setattr(asyncio, "run", made.run)
    yield made
    made.loop.close()
