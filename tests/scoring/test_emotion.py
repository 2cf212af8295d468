"""SAGE's emotion: a number from 0 to 100 that moves by at most 10 a turn.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.environments.sage.scoring import (
    CHANGE_LIMIT,
    EmotionSummary,
    band,
    step,
    summarise,
)

EMOTIONS = st.floats(0, 100)
CHANGES = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@pytest.mark.parametrize(
    ("emotion", "name"),
    [(100, "S"), (99.999, "A"), (70, "A"), (69.999, "B"), (40, "B"), (39.999, "C"), (10, "C"), (9.999, "F"), (0, "F")],
)
def test_each_band_begins_at_its_lower_edge(emotion: float, name: str) -> None:
    assert band(emotion) == name


@pytest.mark.parametrize("emotion", [-0.001, 100.001, math.nan, math.inf, -math.inf])
def test_an_emotion_outside_0_to_100_is_refused_with_its_value(emotion: float) -> None:
    with pytest.raises(UseError, match=r"emotion is .*; expected a number from 0 to 100"):
        band(emotion)
    with pytest.raises(UseError):
        step(emotion, 0)
    with pytest.raises(UseError):
        summarise([40, emotion])


@pytest.mark.parametrize(
    ("emotion", "change", "after"),
    [
        (40, 5, 45),
        (40, -5, 35),
        (40, 0, 40),
        (40, 10, 50),
        (40, 11, 50),  # 11 is clamped to 10
        (40, -25, 30),  # -25 is clamped to -10
        (95, 10, 100),  # 105 is clamped to 100
        (4, -10, 0),  # -6 is clamped to 0
        (40, 1e12, 50),  # large, yet a number
        (40, -(10**400), 30),  # an integer no float can hold
    ],
)
def test_the_change_is_clamped_to_ten_and_the_result_to_the_scale(emotion: float, change: float, after: float) -> None:
    assert step(emotion, change) == after


@pytest.mark.parametrize("change", [math.nan, math.inf, -math.inf])
def test_a_change_that_is_no_finite_number_is_refused(change: float) -> None:
    with pytest.raises(UseError, match=r"change of emotion is .*; expected a finite number"):
        step(40, change)


@given(EMOTIONS, CHANGES)
def test_the_result_stays_on_the_scale_and_within_ten_of_where_it_was(emotion: float, change: float) -> None:
    after = step(emotion, change)
    assert 0 <= after <= 100
    assert abs(after - emotion) <= CHANGE_LIMIT + 1e-9
    band(after)


@given(EMOTIONS, CHANGES, CHANGES)
def test_a_better_change_never_leaves_a_person_worse(emotion: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert step(emotion, low) <= step(emotion, high)


@given(EMOTIONS, EMOTIONS, CHANGES)
def test_a_better_mood_before_never_gives_a_worse_one_after(one: float, other: float, change: float) -> None:
    low, high = sorted((one, other))
    assert step(low, change) <= step(high, change)


def test_a_summary_worked_by_hand() -> None:
    # 100 + 100 + 99 + 10 + 9 + 0 = 318 over 6 = 53; two at 100; 9 and 0 are below 10, and 10 is not
    assert summarise([100, 100, 99, 10, 9, 0]) == EmotionSummary(n=6, mean=53.0, success=2, failure=2)


def test_the_summary_of_nothing_has_no_mean_rather_than_zero() -> None:
    empty = summarise([])
    assert (empty.n, empty.success, empty.failure) == (0, 0, 0)
    assert math.isnan(empty.mean)
