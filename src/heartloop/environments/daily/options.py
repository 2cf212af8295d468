"""Options of daily conversation."""

from __future__ import annotations

from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "PRESETS", "VARIANTS", "DailyOptions"]

PRESETS = ("paper",)
VARIANTS = ("plain",)

MAX_TURNS = 1
"""Policy replies in a dialogue."""


class DailyOptions(Options):
    """One answer, six judges."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules of the score."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=1, le=MAX_TURNS, paper="1")
    """Policy replies: one answer."""
