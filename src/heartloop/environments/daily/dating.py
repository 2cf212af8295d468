"""When something is said to have been: "three weeks ago", "last month", "on Tuesday", read against the day of the talk.

Covers the common English ways, each as the days it may mean, with the slack that people leave. Does not cover seasons, which turn
with the hemisphere, nor clock times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

__all__ = ["Span", "holds", "spans_in"]

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("", "a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
    for word in words.split()
}
_LOOSE = {"couple": (2, 3), "few": (2, 6), "several": (3, 10), "some": (2, 10)}
_UNITS = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}
_COUNT = r"(?P<n>\d{1,3}|" + "|".join([*_NUMBERS, *_LOOSE]) + r")"
_AGO = re.compile(rf"\b(?:a )?{_COUNT}(?: of)? (?P<unit>day|week|month|year)s? (?P<way>ago|back|earlier|from now)\b")
_AHEAD = re.compile(rf"\bin (?:a )?{_COUNT}(?: of)? (?P<unit>day|week|month|year)s?\b")
_TURN = re.compile(r"\b(last|next|this) (week|month|year)\b")
_MONTH = re.compile(rf"\b(?:in|since|last|next|this|back in|early|late) ({'|'.join(_MONTHS)})\b")
_DAY_OF_MONTH = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({'|'.join(_MONTHS)})|({'|'.join(_MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?)\b"
)
_WEEKDAY = re.compile(rf"\b({'|'.join(_WEEKDAYS)})\b")
_NEAR = {"yesterday": -1, "tomorrow": 1, "today": 0, "tonight": 0}


class Span(NamedTuple):
    """Days that were meant, from first to last; of a month or weekday, whichever year or week it may be."""

    first: date
    last: date
    month: int = 0
    """1 to 12 where only this month was named."""
    day: int = 0
    weekday: int = -1
    """0 (Monday) to 6 where only a weekday was named; it says nothing of days further away than a week."""


def spans_in(text: str, today: date) -> list[Span]:
    """The times a text names, in no order.

    >>> spans_in("That was two weeks ago.", date(2025, 6, 16))[0][:2]
    (datetime.date(2025, 5, 29), datetime.date(2025, 6, 6))
    """
    low = text.lower()
    found: list[Span] = []
    for pattern in (_AGO, _AHEAD):
        for match in pattern.finditer(low):
            ahead = pattern is _AHEAD or match["way"] == "from now"
            found.append(_counted(match["n"], _UNITS[match["unit"]], today, ahead=ahead))
    for which, unit in _TURN.findall(low):
        found.append(_turned({"last": -1, "this": 0, "next": 1}[which], unit, today))
    for word, days in _NEAR.items():
        if re.search(rf"\b{word}\b", low):
            found.append(_around(today + timedelta(days=days), 0))
    dated = _DAY_OF_MONTH.findall(low)
    for day, month, other_month, other_day in dated:
        found.append(Span(date.min, date.max, 1 + _MONTHS.index(month or other_month), int(day or other_day)))
    if not dated:
        found += [Span(date.min, date.max, 1 + _MONTHS.index(month)) for month in _MONTH.findall(low)]
    found += [Span(date.min, date.max, weekday=_WEEKDAYS.index(name)) for name in _WEEKDAY.findall(low)]
    return found


def holds(spans: Sequence[Span], on: date, today: date) -> bool:
    """Whether a day fits one of the times that were named; with none named it does."""
    return not spans or any(_fits(span, on, today) for span in spans)


def _fits(span: Span, on: date, today: date) -> bool:
    if span.weekday >= 0:
        return abs((on - today).days) > 7 or on.weekday() == span.weekday
    if span.month and on.month != span.month:
        return False
    return (not span.day or on.day == span.day) and span.first <= on <= span.last


def _counted(count: str, unit: float, today: date, *, ahead: bool) -> Span:
    low, high = _LOOSE.get(count) or (int(_NUMBERS.get(count) or count),) * 2
    slack = unit * (0.0 if unit == 1.0 and high < 3 else max(0.6, 0.2 * high))
    near, far = (max(0.0, low * unit - slack), high * unit + slack)
    days = [timedelta(days=min(round(n), 40_000)) for n in (near, far)]
    try:
        return Span(today + days[0], today + days[1]) if ahead else Span(today - days[1], today - days[0])
    except OverflowError:
        return Span(date.min, date.max)


def _turned(way: int, unit: str, today: date) -> Span:
    if unit == "week":
        monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * way)
        return Span(monday - timedelta(days=1), monday + timedelta(days=7))
    if unit == "year":
        return Span(date(today.year + way, 1, 1), date(today.year + way, 12, 31))
    months = today.year * 12 + today.month - 1 + way
    first, following = (date(m // 12, m % 12 + 1, 1) for m in (months, months + 1))
    return Span(first, following - timedelta(days=1))


def _around(day: date, slack: int) -> Span:
    return Span(day - timedelta(days=slack), day + timedelta(days=slack))
