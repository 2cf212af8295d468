"""A clock that goes on only while everything waits: ten minutes of pauses pass at once, between real sockets of one event loop.

Client and server run in one loop. When neither has anything to do before the next timer, the clock jumps there. So a test keeps
the times of the provider and of the client as they are, and a busy machine changes nothing.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.providers.servers import Provider

__all__ = ["Clock"]

T = TypeVar("T")
_DELIVERY = 0.001  # seconds for which the loop really waits: what was sent may not have arrived yet
_TICK = 1e-6  # seconds between two readings of the clock, so that no two calls are sent at the same time


class _Skipping(selectors.DefaultSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(timeout if timeout is None else 0 if timeout < _DELIVERY else _DELIVERY)
        if not events and timeout is not None and timeout > 0:
            self.skipped += timeout
        return events


class Clock:
    def __init__(self) -> None:
        self._selector = _Skipping()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self._monotonic, self._time = time.monotonic(), time.time()

    def now(self) -> float:
        """Seconds since the test began."""
        self._selector.skipped += _TICK
        return self._selector.skipped

    def monotonic(self) -> float:
        return self._monotonic + self.now()

    def time(self) -> float:
        return self._time + self.now()

    def run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(work)

    @contextmanager
    def serving(self, server: Provider) -> Iterator[Provider]:
        self.run(server.__aenter__())
        try:
            yield server
        finally:
            self.run(server.__aexit__(None, None, None))
