"""How far an analysis that comes before an answer understands the person: a level from 1 to 5, by a small linear model.

Covers features, applying the weights, and the level. Which weights and texts an environment has is in its own `reading` module;
fitting is `heartloop.fitting.analyses`.

The model has two outputs. `level` is a ridge on n-grams and counts of the analysis. By itself it knows depth by its manner, and
gives an analysis of somebody else the same level. `about` tells from overlaps with the scenario whether an analysis is about this
person. The level counts as far as it is: 1 + about * (level - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.environments.grading import whole
from heartloop.reader.features import Context, FeatureLayout, features_of
from heartloop.reader.linear import SHIPPED, LinearModel

__all__ = ["LAYOUT", "OVERLAPS", "LearnedAnalysis", "combined"]

LAYOUT = FeatureLayout(bits=13, words=(1, 2), characters=(3, 4))
OVERLAPS = ("story_overlap", "unsaid_overlap", "known_overlap", "demand_overlap", "ways_overlap")
"""The counts that tell whether an analysis is about this person."""
_LOWEST, _HIGHEST = 1.0, 5.0


class LearnedAnalysis(NamedTuple):
    """How an environment's analyses are read."""

    weights: Path
    context: Callable[[Any], Context]
    """`context(scenario)`: what an analysis is compared with."""

    @property
    def model(self) -> LinearModel:
        """The shipped weights.

        Raises:
            InputError: they cannot be read.
        """
        return _loaded(self.weights)

    def level(self, scenario: Any, analysis: str) -> tuple[int, Mapping[str, float]]:
        """The level of an analysis, and the numbers behind it; 1 if it has no words."""
        features = features_of(analysis, self.context(scenario), LAYOUT)
        if not features.tokens:
            return whole(_LOWEST), {}
        level, about = map(float, self.model.apply(features))
        value = combined(level, about)
        return whole(value), {"value": round(value, 2), "about": round(min(1.0, max(0.0, about)), 2)}


def combined(level: float, about: float) -> float:
    """The level of an analysis that is `about` this person as far as that, in [1, 5].

    >>> combined(4.0, 1.0), combined(4.0, -0.3), combined(6.0, 0.5)
    (4.0, 1.0, 3.0)
    """
    within = min(_HIGHEST, max(_LOWEST, level))
    return _LOWEST + min(1.0, max(0.0, about)) * (within - _LOWEST)


@cache
def _loaded(path: Path) -> LinearModel:
    return LinearModel.load(path, SHIPPED)
