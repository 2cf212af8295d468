"""When something is said to have been, read against the day of the talk; worked by hand on Monday, 16 June 2025."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.environments.daily.dating import holds, spans_in

TODAY = date(2025, 6, 16)


def fits(said: str, on: date) -> bool:
    spans = spans_in(said, TODAY)
    assert spans, "no time was read"
    return holds(spans, on, TODAY)


@pytest.mark.parametrize(
    ("said", "on", "right"),
    [
        ("That was three weeks ago.", date(2025, 5, 26), True),
        ("That was three weeks ago.", date(2025, 5, 29), True),  # nobody counts days in weeks
        ("That was three weeks ago.", date(2025, 3, 26), False),
        ("a couple of weeks ago", date(2025, 5, 30), True),
        ("a few months ago", date(2025, 2, 10), True),
        ("a few months ago", date(2024, 6, 1), False),
        ("two years ago", date(2023, 8, 1), True),
        ("two years ago", date(2020, 8, 1), False),
        ("two days ago", date(2025, 6, 14), True),
        ("two days ago", date(2025, 6, 10), False),
        ("yesterday", date(2025, 6, 15), True),
        ("yesterday", date(2025, 6, 13), False),
        ("last week", date(2025, 6, 10), True),
        ("last week", date(2025, 5, 20), False),
        ("last month", date(2025, 5, 2), True),
        ("last month", date(2025, 4, 30), False),
        ("last year", date(2024, 1, 3), True),
        ("next week", date(2025, 6, 24), True),
        ("in ten days", date(2025, 6, 26), True),
        ("in ten days", date(2025, 8, 26), False),
        ("back in March you said", date(2025, 3, 9), True),
        ("back in March you said", date(2025, 4, 9), False),
        ("on 9 March", date(2025, 3, 9), True),
        ("on March 9th", date(2025, 3, 9), True),
        ("on the 8th of March", date(2025, 3, 9), False),
        ("on Monday", date(2025, 6, 16), True),
        ("on Monday", date(2025, 6, 17), False),
        ("on Friday", date(2025, 6, 20), True),
        ("on Friday", date(2025, 6, 19), False),
        ("on Friday", date(2025, 1, 9), True),  # a weekday says nothing of days far off
    ],
)  # fmt: skip
def test_times_people_say(said: str, on: date, right: bool) -> None:
    assert fits(said, on) is right


def test_no_time_named_is_no_wrong_time() -> None:
    assert spans_in("The bridge, of all things; it may march on.", TODAY) == []
    assert holds([], date(1999, 1, 1), TODAY)


def test_of_two_times_one_is_enough() -> None:
    assert fits("You told me yesterday about last month.", date(2025, 5, 5))


@given(st.integers(1, 11), st.sampled_from(["day", "week", "month", "year"]))
def test_so_many_units_ago_holds_of_just_that_day(count: int, unit: str) -> None:
    days = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}[unit]
    plural = "s" if count > 1 else ""
    assert fits(f"It was {count} {unit}{plural} ago.", TODAY - timedelta(days=round(count * days)))
    assert fits(f"It is in {count} {unit}{plural}.", TODAY + timedelta(days=round(count * days)))


@given(st.text(max_size=80) | st.from_regex(r"\d{1,5} (days|weeks|years) (ago|from now)", fullmatch=True))
def test_no_text_breaks_it(text: str) -> None:
    for span in spans_in(text, TODAY):
        assert span.first <= span.last
