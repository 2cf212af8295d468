"""What the learned reader knows of a SAGE scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.environments.reading import LearnedReading, unsaid
from heartloop.environments.sage.scenario import Brief
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["READING", "context_of"]


def context_of(scenario: Brief, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, what lifts the person and what hurts them."""
    background = scenario.background
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*unsaid(scenario.concerns, scenario.told, messages), *background.lifts),
        sore=tuple(background.sinks),
    )


READING = LearnedReading(
    "heartloop.environments.sage", context_of, (Output("emotion", -10.0, 10.0),), group=lambda scenario: str(scenario.intention)
)
"""The change of emotion; what does good depends on the hidden intention."""
