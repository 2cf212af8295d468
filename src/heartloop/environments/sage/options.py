"""Options of SAGE."""

from __future__ import annotations

from heartloop.environments.sage.scoring import FAILURE_BELOW, START, SUCCESS_AT
from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "SageOptions"]

MAX_TURNS = 10
"""Policy replies in a dialogue (SAGE released logs)."""


class SageOptions(Options):
    """As the paper measures by default; `start`, `leaves_at` and `form` are what RLVER's training changes."""

    preset: str = option("corrected", affects="score", choices=("corrected", "released"))
    """Rules: `corrected` judges every reply and re-asks a change outside ±10; `released` computes as the authors' code."""
    variant: str = option("vanilla", choices=("vanilla", "challenging"))
    """`challenging` is a more reserved person (RLVER App. D)."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="10 (released logs); 8 in RLVER's training")
    """Maximum number of policy replies."""
    start: float = option(START, ge=0, le=100, paper="40; 30 in RLVER's released training code")
    """Emotion before the first reply."""
    leaves_at: float | None = option(None, ge=0, le=100, paper="below 10; 0 in RLVER's training")
    """Emotion at or below which the person leaves; by default below 10."""
    form: str = option("plain", choices=("plain", "think", "direct"), paper="think or direct in RLVER App. A.5")
    """Form of the policy prompt."""
    success_at: float = option(SUCCESS_AT, affects="score", ge=0, le=100, paper="100")
    """Final emotion from which a dialogue counts as a success."""
    failure_below: float = option(FAILURE_BELOW, affects="score", ge=0, le=100, paper="10")
    """Final emotion below which a dialogue counts as a failure."""
