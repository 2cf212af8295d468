"""EMPA: from judged forms to a path through a space, and from the path to energy and EPM-Q.

Covers the IEDR form (what somebody lacks at the start). Does not cover who fills the forms (`environments.empa`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from heartloop.errors import InputError

__all__ = ["AXES", "DEFICIT_POINTS", "deficit"]

AXES = ("C", "A", "P")
"""Cognitive, affective and proactive empathy (EMPA Figure 4)."""

DEFICIT_POINTS: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {
        "C.1": (0, 2, 4, 6), "C.2": (0, 2, 4, 6), "C.3": (0, 3, 6, 9),
        "A.1": (0, 2, 4, 6), "A.2": (0, 4, 8, 12), "A.3": (0, 3, 6, 9),
        "P.1": (0, 2, 4, 6), "P.2": (0, 4, 8, 12), "P.3": (0, 3, 6, 9),
    }
)  # fmt: skip
"""Points of each IEDR indicator at levels 0 to 3 (released code; the paper does not print them)."""


def deficit(form: Mapping[str, int]) -> npt.NDArray[np.float64]:
    """P_0 of an IEDR form: shape (D,), one value an axis in the order of `form`, all at most 0 (EMPA section 3.4).

    Args:
        form: level 0 to 3 by indicator, keys "C.1" to "P.3".

    Raises:
        InputError: an unknown or missing indicator, or a level out of range.
    """
    if form.keys() != DEFICIT_POINTS.keys():
        odd = sorted(form.keys() ^ DEFICIT_POINTS.keys())
        raise InputError(f"the IEDR form is wrong at {', '.join(odd)}; expected {', '.join(DEFICIT_POINTS)}")
    found = dict.fromkeys(AXES, 0.0)
    for name, level in form.items():
        if isinstance(level, bool) or level not in (0, 1, 2, 3):
            raise InputError(f"level of {name} is {level!r}; expected 0, 1, 2 or 3")
        found[name[0]] -= DEFICIT_POINTS[name][level]
    return np.array([found[axis] for axis in AXES])
