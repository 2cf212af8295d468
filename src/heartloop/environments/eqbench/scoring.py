"""The score of EQ-Bench3's rubric: the marks of those criteria that count, averaged, to 0-100 (released code).

Covers the numbers. Does not cover which criteria count (`environments.eqbench.released` reads them from the user's checkout), nor
how a judge's marks are read (`environments.eqbench.llm_user`).

The released code takes the mean over the scenarios in 0-20 and rounds it to two decimals before it multiplies; here a dialogue
has its score in 0-100, unrounded. The two means differ by at most 0.025.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from heartloop.core.errors import InputError

__all__ = ["HIGHEST_MARK", "rubric_score"]

HIGHEST_MARK = 20.0
"""Marks lie in [0, 20]."""


def rubric_score(marks: Mapping[str, float], counted: Collection[str]) -> float:
    """The score of one dialogue in [0, 100]: five times the mean of the marks that count.

    Args:
        marks: by criterion, each in [0, 20].
        counted: criteria that count; a criterion that has no mark enters nothing.

    Raises:
        InputError: a mark outside its range, or no criterion that counts has a mark.

    >>> rubric_score({"depth": 12, "tact": 15, "style": 3}, ("depth", "tact"))
    67.5
    """
    for name, mark in marks.items():
        if not 0.0 <= mark <= HIGHEST_MARK:
            raise InputError(f"the mark of {name} is {mark}; expected a number from 0 to {HIGHEST_MARK:g}")
    found = [mark for name, mark in marks.items() if name in counted]
    if not found:
        raise InputError(f"no criterion that counts has a mark; expected one of {', '.join(sorted(counted)) or 'none'}")
    return 100.0 / HIGHEST_MARK * fmean(found)
