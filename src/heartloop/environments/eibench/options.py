"""Options of EIBench."""

from __future__ import annotations

from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "RELATION_WEIGHT", "EIBenchOptions"]

MAX_TURNS = 8
"""Policy replies in a dialogue (EIBench section 4)."""
RELATION_WEIGHT = 0.5
"""lambda of the outcome (EIBench Eq. 2)."""


class EIBenchOptions(Options):
    """As the paper measures by default."""

    preset: str = option("paper", affects="score", choices=("paper", "released"))
    """Rules: `paper` re-asks a change outside ±10, then the dialogue is unscored; `released` clamps and counts it."""
    variant: str = option("think", choices=("think", "direct"))
    """Form of the policy prompt: with a think block, or without."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="8")
    """Maximum number of policy replies."""
    relation_weight: float = option(RELATION_WEIGHT, affects="score", ge=0, le=1, paper="0.5 (lambda, Eq. 2)")
    """Weight of the relation in the outcome; the rest is the negative emotion's."""
