"""What the learned reader knows of a SAGE scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.appraisal.features import Context
from heartloop.environments.reading import unsaid
from heartloop.environments.sage.scenario import Scenario

__all__ = ["context_of"]


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, what lifts the person and what hurts them."""
    background = scenario.background
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*unsaid(scenario.concerns, scenario.beats, messages), *background.lifts),
        sore=tuple(background.sinks),
    )
