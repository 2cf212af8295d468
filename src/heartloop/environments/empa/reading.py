"""What the learned reader knows of an EMPA scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heartloop.appraisal.effect import Output
from heartloop.appraisal.features import Context
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.empa.scoring import AXES, DEFICIT_POINTS, deficit
from heartloop.environments.reading import LearnedReading, unsaid, with_cues

__all__ = ["READING", "context_of", "group_of"]

_MOST = deficit(dict.fromkeys(DEFICIT_POINTS, 3))


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, scenario.beats, messages),
        sore=with_cues(scenario.sores),
    )


def group_of(scenario: Scenario) -> str:
    """The axis with the largest deficit as a share of its maximum, by the IEDR form, which the persona flip changes.

    Of two axes alike the first; only a flipped scenario has such.
    """
    return AXES[int(np.argmax(np.array(scenario.start) / _MOST))]


READING = LearnedReading(
    "heartloop.environments.empa",
    context_of,
    tuple(Output(f"{axis}{sign}", *limits) for axis in "CAP" for sign, limits in (("+", (0.0, 2.0)), ("-", (-2.0, 0.0)))),
    group=group_of,
)
"""Progress and setback on each axis, as levels of the MDEP form; what does good depends on the axis of the largest deficit."""
