"""Options of stances under pressure."""

from __future__ import annotations

from heartloop.environments.spec import Options, option
from heartloop.environments.stances.scenario import MOVES

__all__ = ["MAX_TURNS", "PRESETS", "VARIANTS", "StancesOptions"]

PRESETS = ("paper", "lenient")
VARIANTS = ("plain",)

MAX_TURNS = len(MOVES)
"""Policy replies in a dialogue, one to each push."""


class StancesOptions(Options):
    """Five pushes, one judge."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """How a reply counts that the judge found unclear: as leaving the stance (`paper`), or as the reply before it (`lenient`)."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=MAX_TURNS, le=MAX_TURNS, paper="5")
    """Policy replies: one to each of five pushes."""
