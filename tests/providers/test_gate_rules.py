"""The rules of a gate against limits that it is not told, in simulated time: use of the limit and share of refused calls."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from heartloop.models.gate import FIRST_LOCAL, FIRST_PATIENCE, PATIENCE, Allowance, Pace
from tests.providers.limits import FixedWindow, Rule, SlidingWindow, TokenBucket

WINDOW = 60.0  # seconds; the window of most documented limits
FIRST_MEASURED, MEASURED = 3, 10  # windows before the measurement, and in it


class Result(NamedTuple):
    used: float
    """Accepted calls as a share of what the limit allows."""
    refused: float
    """Refused calls as a share of all calls."""
    lost: int
    """Calls that the gate gave up."""


def simulated(rule: Rule, *, remaining: bool, retry_after: bool, too_short: bool = False, seed: int = 0) -> Result:
    """As many calls as the gate lets through; accepted ones take half a second to two, refused ones 50 ms.

    `too_short`: the server says how long to wait before it counts the refused call, which counts.
    """
    draw, pace = random.Random(seed), Pace(4096)
    number, now, lost = itertools.count(), 0.0, 0
    ending: list[tuple[float, int, float, bool, Allowance | None, float | None]] = []
    sent: list[tuple[float, bool]] = []
    while now < (FIRST_MEASURED + MEASURED) * WINDOW:
        delay = pace.delay(now)
        if delay == 0.0:
            pace.sent(now)
            before = rule.retry_after(now)
            accepted = rule.ask(now)
            sent.append((now, accepted))
            allowance = Allowance(rule.remaining(now), rule.reset(now)) if remaining else None
            wait = (before if too_short else rule.retry_after(now)) if retry_after and not accepted else None
            ends = now + (draw.uniform(0.5, 2.0) if accepted else 0.05)
            heapq.heappush(ending, (ends, next(number), now, accepted, allowance, wait))
            now += 1e-6  # no two calls at the same moment
            continue
        now = min(now + (math.inf if delay is None else delay), ending[0][0] if ending else math.inf)
        while ending and ending[0][0] <= now:
            _, _, at, accepted, allowance, wait = heapq.heappop(ending)
            if accepted:
                pace.done(at, now, allowance)
            else:
                lost += not pace.refused(at, now, wait, allowance)
    measured = [accepted for at, accepted in sent if at >= FIRST_MEASURED * WINDOW]
    return Result(sum(measured) / (MEASURED * rule.n), 1 - sum(measured) / len(measured), lost)


RULES: dict[str, Callable[[int], Rule]] = {
    "fixed window": lambda n: FixedWindow(n, WINDOW, refused_count=True, start=0.4 * WINDOW),
    "sliding window": lambda n: SlidingWindow(n, WINDOW),
    "sliding window, refused calls count": lambda n: SlidingWindow(n, WINDOW, refused_count=True),
    "bucket": lambda n: TokenBucket(n, WINDOW),
    "bucket of a second, refused calls count": lambda n: TokenBucket(n, WINDOW, capacity=max(2, n // 60), refused_count=True),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("headers", ["none", "remaining", "Retry-After", "both"])
@pytest.mark.parametrize("calls_a_second", [3, 30])
def test_a_hidden_limit_is_used_and_rarely_met(rule: str, headers: str, calls_a_second: int) -> None:
    result = simulated(
        RULES[rule](round(calls_a_second * WINDOW)),
        remaining=headers in ("remaining", "both"), retry_after=headers in ("Retry-After", "both"),
    )  # fmt: skip
    assert result.used >= 0.9
    assert result.refused <= 0.05
    assert result.lost == 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("headers", ["none", "both"])
def test_a_fast_hidden_limit_is_used_and_rarely_met(rule: str, headers: str) -> None:
    result = simulated(RULES[rule](round(300 * WINDOW)), remaining=headers == "both", retry_after=headers == "both")
    assert result.used >= 0.9
    assert result.refused <= 0.05
    assert result.lost == 0


@pytest.mark.parametrize("rule", ["sliding window, refused calls count", "bucket of a second, refused calls count"])
def test_a_retry_after_that_is_too_short_stops_nothing(rule: str) -> None:
    result = simulated(RULES[rule](180), remaining=False, retry_after=True, too_short=True)
    assert result.used >= 0.8
    assert result.refused <= 0.05
    assert result.lost == 0


def served(slots: int, *, calls: int = 3000, seconds: float = 1.0) -> tuple[float, float]:
    """Concurrency and use of a server that answers so many calls at a time and lets the others wait."""
    draw, pace, now = random.Random(1), Pace(64, FIRST_LOCAL), 0.0
    free, ending = [0.0] * slots, list[tuple[float, float]]()
    windows: list[float] = []
    while len(windows) < calls:
        delay = pace.delay(now)
        if delay == 0.0:
            pace.sent(now)
            end = max(heapq.heappop(free), now) + seconds * draw.uniform(0.8, 1.2)
            heapq.heappush(free, end)
            heapq.heappush(ending, (end, now))
            now += 1e-6
            continue
        now = ending[0][0] if delay is None else min(now + delay, ending[0][0])
        while ending and ending[0][0] <= now:
            pace.done(heapq.heappop(ending)[1], now)
            windows.append(pace.window)
    return sum(windows) / calls, calls * seconds / (slots * now)


@pytest.mark.parametrize("slots", [1, 4, 32])
def test_concurrency_grows_only_while_a_server_answers_more_at_a_time(slots: int) -> None:
    window, use = served(slots)
    assert use > 0.9
    assert window < max(2 * slots, 1.5 * FIRST_LOCAL)


@pytest.mark.parametrize(("accepted", "patience"), [(False, FIRST_PATIENCE), (True, PATIENCE)])
def test_the_gate_gives_up_on_a_server_that_refuses_everything(accepted: bool, patience: float) -> None:
    """Sooner where it never accepted a call."""
    pace, now, refused = Pace(64), 0.0, 0
    if accepted:
        pace.sent(0.0)
        pace.done(0.0, 0.5)
    while True:
        delay = pace.delay(now)
        assert delay is not None
        now += delay
        pace.sent(now)
        refused += 1
        if not pace.refused(now, now + 0.05):
            break
        now += 0.05
    assert patience < now < patience + 61
    assert refused == pace.refused_calls < 40
    assert pace.ended(now)
    assert not pace.ended(now + 61)


def test_it_waits_as_long_as_the_server_asks_and_gives_up_if_that_is_too_long() -> None:
    pace = Pace(64)
    pace.sent(0.0)
    assert pace.refused(0.0, 0.1, wait=20.0)
    assert pace.delay(0.1) == pytest.approx(20.0)
    pace.sent(20.2)
    assert not pace.refused(20.2, 20.3, wait=PATIENCE + 1)


def test_time_outs_shrink_the_window() -> None:
    pace = Pace(64)
    for call in range(16):
        pace.sent(float(call))
    assert pace.delay(16.0) is None
    pace.abandoned(15.0, 120.0)
    assert pace.window == pytest.approx(0.7 * 16)


def test_one_call_at_a_time_tries_whether_a_limit_is_lifted() -> None:
    """A refusal comes at once, so a call that is not refused within a second counts as accepted."""
    pace = Pace(64)
    for call in range(4):
        pace.sent(call / 1000)
    pace.refused(0.003, 0.05)
    now = 0.05 + (pace.delay(0.05) or 0.0)
    pace.sent(now)
    assert pace.delay(now) == pytest.approx(1.0)
    assert pace.delay(now + 0.9) == pytest.approx(0.1)
    assert pace.rate == math.inf
    assert pace.delay(now + 1.0) is not None
    assert pace.rate < math.inf
