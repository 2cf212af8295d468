"""What the learned reader knows of an EMPA scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.appraisal.features import Context
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.reading import unsaid, with_cues

__all__ = ["context_of"]


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, scenario.beats, messages),
        sore=with_cues(scenario.sores),
    )
