"""What the learned reader knows of a PERM scenario besides the query, and what an analysis is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from heartloop.environments.analyses import LearnedAnalysis
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.reading import LearnedReading, with_cues
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["MARKS", "READING", "RESONATION", "analysis_context", "context_of"]

MARKS = ("relevant", "clear", "concise", "sober", "accurate")
"""The bystander's marks, 0 to 20 each."""


def context_of(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The query, the unsaid need and the cause, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*with_cues((scenario.need,)), scenario.cause.text),
        sore=with_cues(scenario.sores),
    )


def analysis_context(scenario: Scenario) -> Context:
    """What was told, the need, feelings, misreadings, cause, touches and sores, the last five in fields that are free here."""
    return Context(
        (scenario.scenario, scenario.query),
        unsaid=with_cues((scenario.need,)),
        known=scenario.feelings,
        sore=scenario.misreadings,
        demand=with_cues((scenario.cause,)),
        ways=with_cues(scenario.touches),
        wrongs=with_cues(scenario.sores),
    )


RESONATION = LearnedAnalysis(Path(str(resources.files("heartloop.environments.perm") / "resonation.npz")), analysis_context)
"""The level of the analysis."""

READING = LearnedReading(
    "heartloop.environments.perm",
    context_of,
    (
        Output("expression", 1.0, 5.0, neutral=2.0),
        Output("reception", 1.0, 5.0, neutral=2.0),
        *(Output(name, 0.0, 20.0, neutral=10.0) for name in MARKS),
    ),
    group=lambda scenario: str(scenario.want),
    analysis=RESONATION,
)
"""The levels of both ends of the cycle, and the five marks of the bystander."""
