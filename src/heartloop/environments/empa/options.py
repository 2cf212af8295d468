"""Options of EMPA."""

from __future__ import annotations

from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "EmpaOptions"]

MAX_TURNS = 45
"""Policy replies in a dialogue (EMPA released code)."""


class EmpaOptions(Options):
    """As the released code computes by default."""

    preset: str = option("released", affects="score", choices=("released", "paper"))
    """Rules of points, energy, success and EPM-Q: the authors' code, or the paper as printed."""
    variant: str = option("plain", choices=("plain",))
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="45 (released code)")
    """Maximum number of policy replies."""
    window: int = option(1, ge=1, paper="1 (K)")
    """Policy replies between two judgements."""
    to_the_end: bool = option(False)
    """Whether neither success nor failure ends a dialogue, so that stored replies are judged to the last."""
