"""Options of EQ-Bench3."""

from __future__ import annotations

from heartloop.environments.eqbench.scenario import VARIANTS
from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "PRESETS", "EQBenchOptions"]

PRESETS = ("released",)

MAX_TURNS = 12
"""Maximum number of answers in a dialogue, including the debrief; no released scenario has more than five."""


class EQBenchOptions(Options):
    """Options of EQ-Bench3."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules of the score."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """How prompt headers are read: as the released code does, or with malformed headers repaired."""
    max_turns: int = option(MAX_TURNS, ge=1)
    """Maximum number of answers, including the debrief; a scenario with more is refused."""
