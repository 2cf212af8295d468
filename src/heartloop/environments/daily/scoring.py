"""Daily conversation: six metrics, 1 to 5 each, and their mean (PERM section 3.4 and Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from heartloop.core.errors import UseError

METRICS: Mapping[str, str] = {
    "empathy": "Empathy",
    "topic": "Topic guidance",
    "value": "Value guidance",
    "intention": "Intention following",
    "fluency": "Fluency",
    "colloquial": "Colloquial expression",
}
"""Published names of the metrics, in the paper's order (section 3.4)."""

LOWEST, HIGHEST = 1, 5
"""Bounds of every metric."""


def average(levels: Mapping[str, int]) -> float:
    """The mean of the six levels, 1 to 5; the paper's "Avg.".

    >>> average({"empathy": 4, "topic": 3, "value": 3, "intention": 5, "fluency": 4, "colloquial": 5})
    4.0
    """
    if levels.keys() != METRICS.keys():
        raise UseError(f"levels of {', '.join(sorted(levels)) or 'nothing'}; expected {', '.join(METRICS)}")
    for name, level in levels.items():
        if not LOWEST <= level <= HIGHEST:
            raise UseError(f"{name} is {level}; expected {LOWEST} to {HIGHEST}")
    return fmean(levels.values())
