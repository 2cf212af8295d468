"""The functions that EMPA's director can call (EMPA section 3.3).

Covers the functions, their arguments, and the validation of calls. Does not cover the choice of a call (`director`, `llm_user`).
The director never speaks to the policy, and the user simulator knows only what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.environments.empa.scenario import SOURCES
from heartloop.environments.empa.scoring import AXES

__all__ = ["FUNCTIONS", "MEMORIES", "MIN_TURNS", "STAGES", "Act", "call_problem", "releases"]

MIN_TURNS = 12
"""Minimum number of policy replies before a dialogue can end (released code)."""

STAGES: tuple[str, ...] = tuple(source for source in SOURCES if source.startswith("stage") or source == "epilogue")
"""Parts of the story, in order."""

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
"""Functions by name, with the allowed arguments; an empty tuple means that the function takes no argument.

`reveal_stage` and `reveal_memory` release a source, `adjust_focus` sets the axis that the user emphasises, `advise` gives advice
without new information, `wait` changes nothing, `end` ends the dialogue.
"""


class Act(NamedTuple):
    """One call of a function."""

    function: str
    argument: str = ""
    note: str = ""
    """Instruction to the user simulator."""
    reason: str = ""


def releases(act: Act) -> bool:
    """Whether the call releases a source."""
    return act.function in ("reveal_stage", "reveal_memory")


def call_problem(act: Act, *, released: Sequence[str], turns: int) -> str | None:
    """Why a call is invalid after this number of policy replies; `None` if it is valid.

    Stages are released in order, no source is released twice, and a dialogue cannot end before `MIN_TURNS` replies.

    >>> call_problem(Act("reveal_stage", "stage 3"), released=["opening", "stage 1"], turns=5)
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
