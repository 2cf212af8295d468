"""What the learned reader knows of an EMPA scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.appraisal.effect import Output
from heartloop.appraisal.features import Context
from heartloop.environments.empa.scenario import Scenario, dominant_axis
from heartloop.environments.reading import LearnedReading, unsaid, with_cues

__all__ = ["READING", "context_of"]


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, scenario.beats, messages),
        sore=with_cues(scenario.sores),
    )


READING = LearnedReading(
    "heartloop.environments.empa",
    context_of,
    tuple(Output(f"{axis}{sign}", *limits) for axis in "CAP" for sign, limits in (("+", (0.0, 2.0)), ("-", (-2.0, 0.0)))),
    group=lambda scenario: dominant_axis(scenario.iedr) or scenario.axis,
)
"""Progress and setback on each axis, as levels of the MDEP form.

What does good depends on the axis of the largest deficit by the IEDR form, which the persona flip changes.
"""
