"""A mean with its interval over scenarios.

Pure: numbers in, numbers out. Does not cover how an interval is computed (`statistics`), nor how it is drawn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from heartloop.core.blocks import Estimate
from heartloop.scoring.statistics import mean_interval

__all__ = ["estimate"]


def estimate(
    values: Sequence[float], clusters: Sequence[Hashable], *, n: int | None = None, within: tuple[float, float] | None = None
) -> Estimate | None:
    """Mean and interval over clusters, which are scenarios; `None` without a value.

    Args:
        n: dialogues, where a value is a window and not a dialogue.
        within: lowest and highest possible value, to which the ends are moved.
    """
    if not len(values):
        return None
    mean, low, high, _ = mean_interval(values, clusters=clusters, within=within)
    without = low != low  # nan: one cluster
    return Estimate(len(values) if n is None else n, mean, None if without else low, None if without else high)
