"""Options of EQ-Bench3."""

from __future__ import annotations

from heartloop.environments.eqbench.scenario import VARIANTS
from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "EQBenchOptions"]

MAX_TURNS = 12
"""Most answers that a scenario may ask for."""


class EQBenchOptions(Options):
    """As the released code plays and marks."""

    preset: str = option("released", affects="score", choices=("released",))
    """Rules of the score."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """How prompt headers are read: as the released code does, or with malformed headers repaired."""
    max_turns: int = option(MAX_TURNS, ge=1)
    """Most answers that a scenario may ask for; none is cut short."""
