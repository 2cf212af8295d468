"""Rules of rate limits: pure, with the time as an argument, for the servers of this folder and for simulations without a network.

Every rule accepts `n` units in `window` seconds. A unit is a request, or a token where `amount` is given. Times are seconds of
any clock that does not go back.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

__all__ = ["FixedWindow", "Rule", "SlidingWindow", "TokenBucket"]

_ROUNDING = 1e-9  # of a unit, or of a second: sums of floats


class Rule(Protocol):
    n: int
    window: float

    def ask(self, now: float, amount: int = 1) -> bool:
        """Whether the call is accepted; a refused call counts too where the rule says so."""

    def remaining(self, now: float) -> int:
        """Units that would be accepted now."""

    def reset(self, now: float) -> float:
        """Seconds until all `n` units are available again if nothing is asked."""

    def retry_after(self, now: float, amount: int = 1) -> float:
        """Seconds until a call of this amount is accepted if nothing else is asked; 0 if it is accepted now."""


class FixedWindow:
    """`n` units in every window, which begin at multiples of `window` after `start`.

    A burst at the end of one window and another at the beginning of the next are both accepted. A refused call that counts makes
    no difference to later calls, since the whole count ends with the window.
    """

    def __init__(self, n: int, window: float, *, refused_count: bool = False, start: float = 0.0) -> None:
        self.n, self.window, self.refused_count, self.start = n, window, refused_count, start
        self._number, self._used = -1, 0

    def ask(self, now: float, amount: int = 1) -> bool:
        fits = amount <= self._left(now)
        if fits or self.refused_count:
            self._used += amount
        return fits

    def remaining(self, now: float) -> int:
        return max(0, self._left(now))

    def reset(self, now: float) -> float:
        return self._ends(now) - now if self._left(now) < self.n else 0.0

    def retry_after(self, now: float, amount: int = 1) -> float:
        return 0.0 if amount <= self._left(now) else self._ends(now) - now

    def _left(self, now: float) -> int:
        number = math.floor((now - self.start) / self.window + _ROUNDING)
        if number != self._number:
            self._number, self._used = number, 0
        return self.n - self._used

    def _ends(self, now: float) -> float:
        self._left(now)
        return self.start + (self._number + 1) * self.window


class SlidingWindow:
    """`n` units in the last `window` seconds, whenever one looks.

    If refused calls count, a client that asks faster than the limit is never accepted again: "continuously resending a request
    won't work" (OpenAI's guide to rate limits).
    """

    def __init__(self, n: int, window: float, *, refused_count: bool = False) -> None:
        self.n, self.window, self.refused_count = n, window, refused_count
        self._asked: deque[tuple[float, int]] = deque()
        self._used = 0

    def ask(self, now: float, amount: int = 1) -> bool:
        fits = amount <= self._left(now)
        if fits or self.refused_count:
            self._asked.append((now, amount))
            self._used += amount
        return fits

    def remaining(self, now: float) -> int:
        return max(0, self._left(now))

    def reset(self, now: float) -> float:
        self._left(now)
        return self._asked[-1][0] + self.window - now if self._asked else 0.0

    def retry_after(self, now: float, amount: int = 1) -> float:
        left, wait = self._left(now), 0.0
        for at, units in self._asked:
            if amount <= left:
                break
            left, wait = left + units, at + self.window - now
        return wait

    def _left(self, now: float) -> int:
        while self._asked and self._asked[0][0] + self.window <= now + _ROUNDING:
            self._used -= self._asked.popleft()[1]
        return self.n - self._used


class TokenBucket:
    """A bucket of `capacity` units that is refilled evenly, `n` in `window` seconds.

    With a capacity of 1 it accepts calls at a rate: 60 a minute as one a second. A refused call that counts takes what is left in
    the bucket, so that a client that asks faster than the refill is never accepted.
    """

    def __init__(self, n: int, window: float, *, refused_count: bool = False, capacity: int | None = None) -> None:
        self.n, self.window, self.refused_count = n, window, refused_count
        self.capacity = n if capacity is None else capacity
        self._level, self._at = float(self.capacity), -math.inf

    def ask(self, now: float, amount: int = 1) -> bool:
        level = self._filled(now)
        fits = amount <= level + _ROUNDING
        if fits or self.refused_count:
            self._level = max(0.0, level - amount)
        return fits

    def remaining(self, now: float) -> int:
        return math.floor(self._filled(now) + _ROUNDING)

    def reset(self, now: float) -> float:
        return (self.capacity - self._filled(now)) * self.window / self.n

    def retry_after(self, now: float, amount: int = 1) -> float:
        missing = amount - self._filled(now)
        return missing * self.window / self.n if missing > _ROUNDING else 0.0

    def _filled(self, now: float) -> float:
        if now > self._at:
            passed = 0.0 if self._at == -math.inf else now - self._at
            self._level, self._at = min(float(self.capacity), self._level + passed * self.n / self.window), now
        return self._level
