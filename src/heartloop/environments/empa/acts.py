"""What the director of EMPA may do: a fixed set of functions, each call of which is logged (EMPA section 3.3).

Covers the functions, their arguments, and when a call cannot be carried out. Does not cover who decides (`director`,
`llm_user`), nor what the person makes of it. The director never speaks to the policy, and nobody is told what was not released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.environments.empa.scenario import SOURCES
from heartloop.environments.empa.scoring import AXES

__all__ = ["FUNCTIONS", "MEMORIES", "MIN_TURNS", "STAGES", "Act", "refused", "releases"]

MIN_TURNS = 12
"""Policy replies before which a dialogue cannot end (released code)."""

STAGES: tuple[str, ...] = tuple(source for source in SOURCES if source.startswith("stage") or source == "epilogue")
"""Pieces of the story, in order."""

MEMORIES: tuple[str, ...] = tuple(source for source in SOURCES if source not in ("opening", *STAGES))
"""Periods of life."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "reveal_stage": STAGES,
    "reveal_memory": MEMORIES,
    "adjust_focus": AXES,
    "advise": (),
    "wait": (),
    "end": (),
}
"""Functions by name with the arguments they take; one without any takes none.

The first two release a piece of the person's memory, `adjust_focus` says which axis they are to bring forward, `advise` tells
them how to go on without anything new, `wait` leaves them as they are, `end` lets them part.
"""


class Act(NamedTuple):
    """One call of a function."""

    function: str
    argument: str = ""
    note: str = ""
    """What the person is told to do with it, in words."""
    reason: str = ""


def releases(act: Act) -> bool:
    """Whether it adds to the person's memory."""
    return act.function in ("reveal_stage", "reveal_memory")


def refused(act: Act, *, released: Sequence[str], turns: int) -> str | None:
    """Why a call cannot be carried out after so many policy replies; `None` where it can.

    Stages come in order, nothing is released twice, and nothing ends before `MIN_TURNS` replies.

    >>> refused(Act("reveal_stage", "stage 3"), released=["opening", "stage 1"], turns=5)
    "'stage 3' would be told before 'stage 2'; the pieces of the story come in order"
    """
    if act.function not in FUNCTIONS:
        return f"there is no function {act.function!r}; expected one of {', '.join(FUNCTIONS)}"
    arguments = FUNCTIONS[act.function]
    if arguments and act.argument not in arguments:
        return f"{act.function} takes one of {', '.join(arguments)}, not {act.argument!r}"
    if not arguments and act.argument:
        return f"{act.function} takes no argument, not {act.argument!r}"
    if releases(act) and act.argument in released:
        return f"{act.argument!r} is released already"
    if act.function == "reveal_stage":
        missing = next((stage for stage in STAGES[: STAGES.index(act.argument)] if stage not in released), None)
        if missing is not None:
            return f"{act.argument!r} would be told before {missing!r}; the pieces of the story come in order"
    if act.function == "end" and turns < MIN_TURNS:
        return f"nothing ends before {MIN_TURNS} replies, and there were {turns}"
    return None
