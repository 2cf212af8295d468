"""What the learned reader knows of an EMPA scenario besides the dialogue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heartloop.core.dialogue import Turn
from heartloop.environments.empa.scenario import Brief
from heartloop.environments.empa.scoring import AXES, DEFICIT_POINTS, deficit, form_keys
from heartloop.environments.reading import LearnedReading, unsaid, with_cues
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["READING", "context_of", "group_of", "judged_of", "output_of"]

_MOST = deficit(dict.fromkeys(DEFICIT_POINTS, 3))


def context_of(scenario: Brief, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, scenario.told, messages),
        sore=with_cues(scenario.sores),
    )


def group_of(scenario: Brief) -> str:
    """The axis with the largest deficit as a share of its maximum, by the IEDR form, which the persona flip changes.

    Of two axes alike the first; only a flipped scenario has such.
    """
    return AXES[int(np.argmax(np.array(scenario.start) / _MOST))]


def output_of(key: str) -> str:
    """The output for a key of the MDEP form.

    >>> output_of("C.Prog"), output_of("A.Neg")
    ('C+', 'A-')
    """
    axis, side = key.split(".")
    return axis + ("+" if side == "Prog" else "-")


def judged_of(turn: Turn) -> dict[str, float] | None:
    """The levels of a judged window, by output."""
    levels = turn.evidence.get("levels")
    return None if levels is None else {output_of(key): float(levels[key]) for key in form_keys()}


READING = LearnedReading(
    "heartloop.environments.empa",
    context_of,
    tuple(Output(f"{axis}{sign}", *limits) for axis in "CAP" for sign, limits in (("+", (0.0, 2.0)), ("-", (-2.0, 0.0)))),
    group=group_of,
    judged=judged_of,
)
"""Progress and setback on each axis, as levels of the MDEP form; what does good depends on the axis of the largest deficit."""
