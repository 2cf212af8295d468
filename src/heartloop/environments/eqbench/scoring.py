"""The score of EQ-Bench3's rubric: the mean of the marks that count, scaled to 0-100 (released code).

Departure: the released code rounds the mean over scenarios, 0-20, to two decimals before scaling; here each dialogue has a score
in 0-100, unrounded. The two means differ by at most 0.025.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from heartloop.core.errors import InputError

HIGHEST_MARK = 20.0
"""Marks are in [0, 20]."""


def rubric_score(marks: Mapping[str, float], counted: Collection[str]) -> float:
    """The score of one dialogue in [0, 100]: five times the mean of the marks that count; one without a mark is ignored.

    >>> rubric_score({"depth": 12, "tact": 15, "style": 3}, ("depth", "tact"))
    67.5
    """
    for name, mark in marks.items():
        if not 0.0 <= mark <= HIGHEST_MARK:
            raise InputError(f"the mark of {name} is {mark}; expected a number from 0 to {HIGHEST_MARK:g}")
    values = [mark for name, mark in marks.items() if name in counted]
    if not values:
        raise InputError(f"no criterion that counts has a mark; expected one of {', '.join(sorted(counted)) or 'none'}")
    return 100.0 / HIGHEST_MARK * fmean(values)
