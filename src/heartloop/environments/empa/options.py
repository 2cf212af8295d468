"""The options of EMPA."""

from __future__ import annotations

from heartloop.environments.empa.scoring import PRESETS
from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "VARIANTS", "EmpaOptions"]

VARIANTS = ("plain",)

MAX_TURNS = 45
"""Policy replies in a dialogue (EMPA released code)."""


class EmpaOptions(Options):
    """Options of EMPA; the defaults are those of the released code."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules of points, energy, success and EPM-Q: the authors' code, or the paper as printed."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="45 (released code)")
    """Maximum number of policy replies."""
    window: int = option(1, ge=1, paper="1 (K)")
    """Policy replies between two judgements."""
    to_the_end: bool = option(False)
    """Whether success and failure do not end a dialogue, so that all stored replies are judged."""
