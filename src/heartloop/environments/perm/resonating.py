"""How far an analysis understands the person: the level of resonation, by a small linear model.

Covers the features, the shipped weights (`resonation.npz`) and the level. Does not cover fitting
(`heartloop.fitting.resonation`).

The model has two outputs. `level` is a ridge on n-grams and counts of the analysis. By itself it knows depth by its manner, and
gives an analysis of somebody else the same level. `about` tells from overlaps with the scenario (what was told, cause, need,
feelings, touches) whether an analysis is about this person. The level counts as far as it is: 1 + about * (level - 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from heartloop.appraisal.features import Context, Layout, features_of
from heartloop.appraisal.linear import LinearModel
from heartloop.environments.answer_grades import whole
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.reading import with_cues

__all__ = ["LAYOUT", "OVERLAPS", "WEIGHTS", "analysis_context", "combined", "resonation_level", "resonation_weights"]

LAYOUT = Layout(bits=13, words=(1, 2), characters=(3, 4))
OVERLAPS = ("story_overlap", "unsaid_overlap", "known_overlap", "demand_overlap", "ways_overlap")
"""The counts that tell whether an analysis is about this person."""
WEIGHTS = Path(str(resources.files("heartloop.environments.perm") / "resonation.npz"))
"""The shipped weights."""
LOWEST, HIGHEST = 1.0, 5.0


def analysis_context(scenario: Scenario) -> Context:
    """What an analysis is compared with; feelings, misreadings, cause and touches take the place of other things known."""
    return Context(
        (scenario.scenario, scenario.query),
        unsaid=with_cues((scenario.need,)),
        sore=scenario.misreadings,
        known=scenario.feelings,
        demand=with_cues((scenario.cause,)),
        ways=with_cues(scenario.touches),
        wrongs=with_cues(scenario.sores),
    )


@cache
def resonation_weights() -> LinearModel:
    """The shipped weights.

    Raises:
        InputError: they cannot be read.
    """
    return LinearModel.load(WEIGHTS)


def combined(level: float, about: float) -> float:
    """The level of an analysis that is `about` this person as far as that, in [1, 5].

    >>> combined(4.0, 1.0), combined(4.0, -0.3), combined(6.0, 0.5)
    (4.0, 1.0, 3.0)
    """
    within = min(HIGHEST, max(LOWEST, level))
    return LOWEST + min(1.0, max(0.0, about)) * (within - LOWEST)


def resonation_level(scenario: Scenario, analysis: str) -> tuple[int, Mapping[str, Any]]:
    """The level of an analysis, 1 to 5, and the numbers behind it; 1 if it has no words."""
    features = features_of(analysis, analysis_context(scenario), LAYOUT)
    if not features.tokens:
        return whole(LOWEST), {}
    level, about = map(float, resonation_weights().apply(features))
    value = combined(level, about)
    return whole(value), {"value": round(value, 2), "about": round(min(1.0, max(0.0, about)), 2)}
