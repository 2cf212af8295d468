"""What the learned reader knows of a daily scenario besides the query."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.environments.daily.scenario import Scenario
from heartloop.environments.reading import LearnedReading, with_cues
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["READING", "context_of"]


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The query, what it implies, the notes that bear on it, and what hurts: sore topics and notes that do not belong here."""
    notes = (*scenario.dialogue_memory, *scenario.event_memory)
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=with_cues((scenario.implied,)),
        sore=(*with_cues(scenario.sores), *(note.text for note in notes if note.bearing != "bears")),
        known=tuple(note.text for note in notes if note.bearing == "bears"),
    )


READING = LearnedReading(
    "heartloop.environments.daily",
    context_of,
    tuple(Output(name, 1.0, 5.0, neutral=2.0) for name in ("empathy", "topic", "value", "intention", "fluency", "colloquial")),
    group=lambda scenario: str(scenario.want),
)
"""The levels of the six metrics."""
