"""What the learned reader knows of a PERM scenario besides the query."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.appraisal.features import Context
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.reading import with_cues

__all__ = ["context_of"]


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The query, the unsaid need and the cause, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*with_cues((scenario.need,)), scenario.cause.text),
        sore=with_cues(scenario.sores),
    )
