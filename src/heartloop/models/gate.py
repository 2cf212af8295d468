"""When the next call may be sent: one `Gate` per address and model, shared by all roles of a run.

Providers limit calls per time, mostly by model, and rarely say how. The gate learns the rate from the calls that were accepted,
sends at an even pace just below it, and from time to time a little faster to see whether more is allowed. The number of
concurrent calls grows while the latency holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Collection
from contextvars import ContextVar
from statistics import median
from typing import NamedTuple

from heartloop.core.text import amount

MOST = 512  # maximum concurrent calls to one address
FIRST, FIRST_LOCAL = 16, 4
"""Concurrent calls to begin with; a local server often answers one at a time."""

_BELOW = 0.98  # the pace after a long pause as a share of the measured limit
_SLOWER = 0.96  # the pace after a short pause as a share of the pace before
_STEP, _LARGEST_STEP, _STEP_SECONDS, _STEP_CALLS = 0.02, 0.16, 1.0, 20
"""Growth of the pace after so many seconds and calls without a refusal; it doubles from step to step up to the largest."""
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.05, 60.0, 1.4
"""Seconds between a refusal and the next try, and their growth with every refusal in a row."""
_MOST_REFUSALS = 30  # refusals in a row that lengthen a pause
_TRUSTED = 3  # refusals in a row after which the server's own pause may be too short, as where refused calls count
_LONG = 0.05  # a pause of this share of the limit's window is long
PATIENCE = 600.0
"""Seconds without an accepted call after which the gate gives up; also the longest pause that it grants a server."""
FIRST_PATIENCE = 120.0  # seconds of that before the first accepted call: two of the longest common windows
_PROBE = 1.0  # seconds after which a call that was sent to test a limit counts as accepted: refusals come at once
_MOST_HELD = 32  # judgements between two attempts at more concurrency, at most
_LATENCIES = 16  # least number of latencies by which concurrency is judged; the first to come are the fastest
_WIDER, _LATER_WIDER, _GAIN = 2.0, 1.5, 0.85
"""Growth of concurrency before and after it first did not pay: while latency grows by less than this share of the growth."""


class Allowance(NamedTuple):
    """What the headers of a response say about a limit."""

    remaining: float
    """Calls that are still allowed, as the server counts."""
    reset: float
    """Seconds until the limit is whole again."""


class Pace:
    """The rules of a gate: a state over the times that it is given, in seconds; it waits for nothing.

    Args:
        most: maximum concurrent calls.
        first: concurrent calls to begin with.
        factor: of all fixed times; below 1 in tests.
    """

    def __init__(self, most: int = MOST, first: int = FIRST, factor: float = 1.0) -> None:
        self.most = most
        self.window = float(min(first, most))
        """Concurrent calls that are allowed now."""
        self.rate = math.inf
        """Calls a second; infinite before the first refusal."""
        self.in_flight = 0
        self.refused_calls = 0  # since the latest pause that ended
        self.held_until = -math.inf
        """When the next call may be sent, after a refusal."""
        self._longest, self._first_pause, self._patience, self._first_patience, self._probe_seconds = (
            part * factor for part in (_LONGEST_PAUSE, _FIRST_PAUSE, PATIENCE, FIRST_PATIENCE, _PROBE)
        )
        self._next = self._ended_until = -math.inf
        self._got_through = -math.inf  # when the latest accepted call ended
        self._left: tuple[float, float] | None = None  # calls left by the headers, and when the limit is whole again
        self._refusals = 0  # in a row
        self._probe: float | None = None  # when the one call was sent that is allowed after a refusal
        self._refused_at = self.paused_at = -math.inf  # the latest refusal, and the one that began the pause
        self._began = math.nan  # the first call after the pause before
        self._span = 0.0  # length of the limit's window, as far as it is known
        self._sent: deque[float] = deque()  # when calls were sent that were not refused, within two of the longest pauses
        self._step, self._step_seconds = _STEP, _STEP_SECONDS * factor
        self._step_at, self._step_calls = 0.0, 0
        self._latencies: list[float] = []  # of calls sent since the window was changed
        self._level_at = -math.inf
        self._full = False  # whether the window was used up since
        self._narrower: tuple[float, float] | None = None  # the window before it was widened, and its latency
        self._hold = 0  # judgements before the window is widened again
        self._holds, self._wider = 4, _WIDER

    def delay(self, now: float) -> float | None:
        """Seconds until the next call may be sent; `None`: not before another one ends."""
        if self._probe is not None:
            if now < self._probe + self._probe_seconds:
                return self._probe + self._probe_seconds - now
            self._resume(self._probe, now)
        if self.in_flight >= int(self.window):
            return None
        if self._left is not None and self._left[1] <= now:
            self._left = None
        until = max(self.held_until, self._next)
        if self._left is not None and self._left[0] < 1 and self.rate == math.inf:
            until = max(until, self._left[1])
        return max(0.0, until - now)

    def ended(self, now: float) -> bool:
        """Whether the gate has given up: the server asks for too long a pause, or has refused every call for too long."""
        return now < self._ended_until

    def sent(self, now: float) -> None:
        """A call is sent."""
        if math.isnan(self._began):
            self._began = now
        self.in_flight += 1
        self._full = self._full or self.in_flight >= int(self.window)
        self._sent.append(now)
        while self._sent[0] < now - 2 * self._longest:
            self._sent.popleft()
        if self._refusals:
            self._probe = now
        if self.rate < math.inf:
            self._next = max(self._next, now - 1 / self.rate) + 1 / self.rate
        if self._left is not None:
            self._left = (self._left[0] - 1, self._left[1])

    def done(self, sent: float, now: float, allowance: Allowance | None = None) -> None:
        """A call that was sent at `sent` was accepted and has ended."""
        self.in_flight -= 1
        self._heed(allowance, now)
        self._got_through = now
        if sent == self._probe:
            self._resume(sent, now)
        elif self.rate < math.inf:
            self._grow(now)
        if sent >= self._level_at:
            self._latencies.append(now - sent)
            self._judge(now)

    def refused(self, sent: float, now: float, wait: float | None = None, allowance: Allowance | None = None) -> bool:
        """A call was refused; `wait` are the seconds that the server asks for. Returns whether it is worth sending it again."""
        self.in_flight -= 1
        self.refused_calls += 1
        self._heed(allowance, now)
        with contextlib.suppress(ValueError):
            self._sent.remove(sent)
        if sent == self._probe:
            self._probe = None
        pause = 0.0
        if sent > self._refused_at:  # else it was sent before an earlier refusal was known
            self.paused_at = self.paused_at if self._refusals else now
            self._refused_at = now
            self._refusals = min(self._refusals + 1, _MOST_REFUSALS)
            pause = min(max(self._first_pause, 1 / self.rate) * _GROWTH**self._refusals, self._longest)
        if wait is not None:
            pause = min(max(wait, pause if self._refusals > _TRUSTED else 0.0), self._patience)
        self.held_until = max(self.held_until, now + pause)
        patience = self._first_patience if self._got_through == -math.inf else self._patience
        if (wait or 0.0) > self._patience or now - max(self._got_through, self.paused_at) > patience:
            self._ended_until = max(self.held_until, now + self._longest)
            return False
        return True

    def abandoned(self, sent: float, now: float, *, slow: bool = True) -> None:
        """A call ended without an answer: it timed out, or, where not `slow`, it was cancelled or its connection broke."""
        self.in_flight -= 1
        if sent == self._probe:
            self._probe = None
        if slow and sent >= self._level_at:
            self._change_window(max(1.0, self.window * 0.7), now)

    def _heed(self, allowance: Allowance | None, now: float) -> None:
        if allowance is not None:
            self._left = (allowance.remaining - self.in_flight, now + allowance.reset)

    def _resume(self, sent: float, now: float) -> None:
        """The end of a pause: a long one shows the length of the limit's window, over which the accepted calls are the limit."""
        self._refusals, self.refused_calls, self._probe = 0, 0, None
        until = (self._refused_at + sent) / 2  # the limit was lifted between the last refusal and this call
        elapsed, paused = min(until - self._began, 1.25 * self._longest), until - self.paused_at
        if not self._span or paused > 0.3 * elapsed:
            self._span = max(self._span, elapsed)
        span = max(self._span, _STEP_CALLS / self.rate)  # fewer calls would be too coarse a measure
        limit = max(1, sum(until - span <= time < until for time in self._sent)) / span
        if paused > _LONG * span:
            self.rate = min(self.rate, _BELOW * limit)
        else:
            self.rate = max(_SLOWER * self.rate, min(self.rate, _BELOW * limit)) if self.rate < math.inf else _BELOW * limit
        self._step_seconds = max(self._step_seconds, span / 2)
        self._began = self._step_at = now
        self._step, self._step_calls = _STEP, 0
        self._next = now + 1 / self.rate

    def _grow(self, now: float) -> None:
        self._step_calls += 1
        if now - self._step_at >= self._step_seconds and self._step_calls >= _STEP_CALLS:
            self.rate *= 1 + self._step
            self._step, self._step_at, self._step_calls = min(2 * self._step, _LARGEST_STEP), now, 0

    def _judge(self, now: float) -> None:
        """Widens the window while it is full and that pays, and goes back where calls only wait at the server."""
        if len(self._latencies) < max(_LATENCIES, 1.5 * self.window):
            return
        latency = median(self._latencies)
        self._hold -= 1
        if self._narrower is not None and latency / self._narrower[1] > _GAIN * self.window / self._narrower[0]:
            self._hold = self._holds
            self._holds, self._wider = min(2 * self._holds, _MOST_HELD), _LATER_WIDER
            self._change_window(self._narrower[0], now)
        elif self._full and self._hold <= 0 and self.window < self.most:
            before = (self.window, latency)
            self._change_window(min(self.most, self.window * self._wider), now)
            self._narrower = before
        else:
            self._latencies, self._full = [], False

    def _change_window(self, window: float, now: float) -> None:
        self.window = window
        self._level_at, self._latencies, self._full, self._narrower = now, [], False, None


place_in_line: ContextVar[int] = ContextVar("place_in_line", default=0)
"""Among calls that wait, a lower place goes first. With a dialogue's number as its place, dialogues end one after the other, so
that a run that is stopped has finished some instead of having begun all."""


class Gate:
    """The gate of a model for the calls of one event loop: by `place_in_line`, and then in the order in which they come.

    A gate that several processes share needs these four methods (`acquire`, `done`, `refused`, `abandoned`) and `reason`.
    `address` learns the concurrency, and is told of no refusal; the gates of all models there (`at_address`) share it.
    """

    def __init__(self, pace: Pace, address: Pace, at_address: Collection[Gate]) -> None:
        self.pace, self.address, self._at_address = pace, address, at_address
        self.reason = ""
        """What the server answered when the gate gave up."""
        self._line: list[tuple[int, int, asyncio.Event]] = []  # a heap: place, number, and the event that it is first now
        self._numbers, self._changed = itertools.count(), asyncio.Event()

    async def acquire(self) -> float | None:
        """Waits until a call may be sent, and returns the time at which it is; `None` where the gate has given up."""
        first = asyncio.Event()
        ticket = (place_in_line.get(), next(self._numbers), first)
        heapq.heappush(self._line, ticket)
        try:
            while not self.pace.ended(time.monotonic()):
                if self._line[0] is not ticket:
                    first.clear()
                    await first.wait()
                    continue
                full = self.address.delay(time.monotonic()) is None
                delay = None if full else self.pace.delay(time.monotonic())
                if delay == 0.0:
                    sent = time.monotonic()
                    self.pace.sent(sent)
                    self.address.sent(sent)
                    return sent
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), delay)
            return None
        finally:
            self._line.remove(ticket)
            heapq.heapify(self._line)
            if self._line:
                self._line[0][2].set()

    def done(self, sent: float, allowance: Allowance | None = None) -> None:
        """The server answered a call, with whatever answer that is no refusal by a limit."""
        self.pace.done(sent, time.monotonic(), allowance)
        self.address.done(sent, time.monotonic())
        self._wake()

    async def refused(self, sent: float, reason: str, wait: float | None = None, allowance: Allowance | None = None) -> bool:
        """A limit refused a call, which waits `wait` seconds if the server says so; whether it is worth sending it again."""
        again = self.pace.refused(sent, time.monotonic(), wait, allowance)
        self.address.abandoned(sent, time.monotonic(), slow=False)
        if not again:
            times, seconds = amount(self.pace.refused_calls, "time"), time.monotonic() - self.pace.paused_at
            self.reason = f"rate limited {times} in {seconds:,.0f} s: {reason}"
        self._wake()
        return again

    def abandoned(self, sent: float, *, slow: bool = True) -> None:
        """A call ended without an answer."""
        self.pace.abandoned(sent, time.monotonic(), slow=False)
        self.address.abandoned(sent, time.monotonic(), slow=slow)
        self._wake()

    def _wake(self) -> None:
        for gate in sorted(self._at_address, key=lambda gate: gate._line[0][:2] if gate._line else (0, 0)):
            gate._changed.set()
