"""The rules of rate limits, worked by hand."""

from __future__ import annotations

import pytest

from tests.providers.limits import FixedWindow, Rule, SlidingWindow, TokenBucket


def accepted(rule: Rule, *times: float) -> list[bool]:
    return [rule.ask(now) for now in times]


def test_a_fixed_window_accepts_a_burst_at_either_side_of_its_end() -> None:
    rule = FixedWindow(2, 60.0)
    assert accepted(rule, 58, 59, 59.5, 60, 61, 62) == [True, True, False, True, True, False]
    assert (rule.remaining(62), rule.retry_after(62), rule.reset(62)) == (0, 58, 58)
    assert (rule.remaining(120), rule.retry_after(120), rule.reset(120)) == (2, 0, 0)


def test_a_sliding_window_looks_back_from_each_call() -> None:
    rule = SlidingWindow(2, 60.0)
    assert accepted(rule, 58, 59, 60, 61, 118, 118.5, 119) == [True, True, False, False, True, False, True]
    # 118 leaves the window at 178, 119 at 179
    assert (rule.remaining(120), rule.retry_after(120), rule.reset(120)) == (0, 58, 59)


def test_a_bucket_is_refilled_evenly() -> None:
    rule = TokenBucket(60, 60.0, capacity=2)
    assert accepted(rule, 0, 0, 0, 0.5, 1.0, 1.9, 2.0) == [True, True, False, False, True, False, True]
    assert (rule.remaining(2.5), rule.retry_after(2.5), rule.reset(2.5)) == (0, 0.5, 1.5)


@pytest.mark.parametrize("rule", [SlidingWindow(2, 10.0, refused_count=True), TokenBucket(2, 10.0, refused_count=True)])
def test_where_refused_calls_count_hammering_is_never_accepted_and_a_pause_is(rule: Rule) -> None:
    assert accepted(rule, *range(2, 42)).count(True) == 2
    assert rule.ask(41 + rule.retry_after(41))


@pytest.mark.parametrize("rule", [FixedWindow(3, 10.0), SlidingWindow(3, 10.0), TokenBucket(3, 10.0)])
def test_waiting_as_told_is_accepted_and_anything_less_is_not(rule: Rule) -> None:
    now = 5.0
    for _ in range(3):
        assert rule.retry_after(now) == 0.0
        assert rule.ask(now)
    wait = rule.retry_after(now)
    assert wait > 0
    assert not rule.ask(now + wait - 0.01)
    assert rule.ask(now + wait)
    assert rule.remaining(now + 1000) == rule.n


def test_a_limit_may_count_tokens() -> None:
    rule = SlidingWindow(100, 60.0)
    assert rule.ask(0.0, 60)
    assert rule.ask(10.0, 30)
    assert not rule.ask(20.0, 20)
    assert rule.remaining(20.0) == 10
    assert rule.retry_after(20.0, 20) == 40.0  # when the 60 tokens have left
