"""Dates in a text, such as "three weeks ago", "last month" or "on Tuesday", relative to the day of the dialogue.

Covers common English expressions, each as a span of possible days with some tolerance. Does not cover seasons, which depend on
the hemisphere, nor times of day.
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
    """The days that an expression may mean, first to last; a month or weekday alone leaves year or week open."""

    first: date
    last: date
    month: int = 0
    """1 to 12 if a month without a year was named, else 0."""
    day: int = 0
    """Day of the month, if one was named, else 0."""
    weekday: int = -1
    """0 (Monday) to 6 if a weekday was named, else -1; it fits every day that is more than a week away."""


def spans_in(text: str, today: date) -> list[Span]:
    """The dates that a text names, in no particular order.

    >>> spans_in("That was two weeks ago.", date(2025, 6, 16))[0][:2]
    (datetime.date(2025, 5, 29), datetime.date(2025, 6, 6))
    """
    low = text.lower()
    spans: list[Span] = []
    for pattern in (_AGO, _AHEAD):
        for match in pattern.finditer(low):
            ahead = pattern is _AHEAD or match["way"] == "from now"
            spans.append(_counted(match["n"], _UNITS[match["unit"]], today, ahead=ahead))
    for which, unit in _TURN.findall(low):
        spans.append(_turned({"last": -1, "this": 0, "next": 1}[which], unit, today))
    for word, days in _NEAR.items():
        if re.search(rf"\b{word}\b", low):
            spans.append(Span(today + timedelta(days=days), today + timedelta(days=days)))
    dated = _DAY_OF_MONTH.findall(low)
    for day, month, other_month, other_day in dated:
        spans.append(Span(date.min, date.max, 1 + _MONTHS.index(month or other_month), int(day or other_day)))
    if not dated:
        spans += [Span(date.min, date.max, 1 + _MONTHS.index(month)) for month in _MONTH.findall(low)]
    spans += [Span(date.min, date.max, weekday=_WEEKDAYS.index(name)) for name in _WEEKDAY.findall(low)]
    return spans


def holds(spans: Sequence[Span], on: date, today: date) -> bool:
    """Whether a day fits one of the spans; true without spans."""
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
