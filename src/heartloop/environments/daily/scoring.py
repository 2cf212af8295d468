"""Daily conversation: six metrics, 1 to 5 each, and their mean (PERM section 3.4 and Figure 3).

Covers the numbers. Does not cover how a metric is judged (`heartloop.environments.daily`).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from heartloop.core.errors import UseError

__all__ = ["HIGHEST", "LOWEST", "METRICS", "average"]

METRICS: Mapping[str, str] = {
    "empathy": "Empathy",
    "topic": "Topic guidance",
    "value": "Value guidance",
    "intention": "Intention following",
    "fluency": "Fluency",
    "colloquial": "Colloquial expression",
}
"""The metrics in the paper's order (section 3.4), each with its published name."""

LOWEST, HIGHEST = 1, 5
"""The ends of every metric's scale."""


def average(levels: Mapping[str, int]) -> float:
    """The mean of the six, 1 to 5; the paper's "Avg.".

    Raises:
        UseError: a metric is missing, unknown, or outside the scale: nothing is imputed.

    >>> average({"empathy": 4, "topic": 3, "value": 3, "intention": 5, "fluency": 4, "colloquial": 5})
    4.0
    """
    if levels.keys() != METRICS.keys():
        raise UseError(f"levels of {', '.join(sorted(levels)) or 'nothing'}; expected {', '.join(METRICS)}")
    for name, level in levels.items():
        if not LOWEST <= level <= HIGHEST:
            raise UseError(f"{name} is {level}; expected {LOWEST} to {HIGHEST}")
    return fmean(levels.values())
