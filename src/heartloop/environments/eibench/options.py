"""Options of EIBench."""

from __future__ import annotations

from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "PRESETS", "RELATION_WEIGHT", "VARIANTS", "EIBenchOptions"]

PRESETS = ("paper", "released")
VARIANTS = ("think", "direct")
"""Forms of the policy prompt: with a think block before each reply (the paper's), or without (ours)."""

MAX_TURNS = 8
"""Policy replies in a dialogue (EIBench Table 10)."""
RELATION_WEIGHT = 0.5
"""lambda of the outcome (EIBench Eq. 2)."""


class EIBenchOptions(Options):
    """Options of EIBench; defaults are the paper's."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """A change outside ±10: `paper` re-asks once, then the dialogue is unscored; `released` clamps and counts it."""
    variant: str = option(VARIANTS[0], choices=VARIANTS, think=("think",))
    """Form of the policy prompt: with a think block, or without."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="8")
    """Maximum number of policy replies."""
    relation_weight: float = option(RELATION_WEIGHT, affects="score", ge=0, le=1, paper="0.5 (lambda, Eq. 2)")
    """Weight of the relation in the outcome; negative emotion has the remaining weight."""
