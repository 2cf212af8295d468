"""What the learned reader knows of an EIBench scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.reading import LearnedReading, unsaid, with_cues
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["READING", "context_of"]


def context_of(scenario: AnyScenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, what was not told yet, and the scene: what the policy knows, must not give, could offer, and did.

    Of a released record, the dialogue alone.
    """
    if isinstance(scenario, ReleasedScenario):
        return Context(tuple(messages), tuple(replies))
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, scenario.told, messages),
        sore=with_cues(scenario.sores),
        known=tuple(scenario.model.knows),
        demand=(scenario.demand.text,) if scenario.demand is not None else (),
        ways=tuple(way.text for way in scenario.ways),
        wrongs=tuple(wrong.text for wrong in scenario.wrongs),
    )


READING = LearnedReading(
    "heartloop.environments.eibench",
    context_of,
    (Output("a", -10.0, 10.0, better=-1), Output("t", -10.0, 10.0)),
    group=lambda scenario: str(scenario.scene),
)
"""The changes of negative emotion and of relation; what does good depends on the scene."""
