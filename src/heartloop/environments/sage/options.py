"""Options of SAGE."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from heartloop.environments.sage.scoring import FAILURE_BELOW, START, SUCCESS_AT
from heartloop.environments.spec import Options, option

__all__ = ["FORMS", "MAX_TURNS", "PRESETS", "VARIANTS", "SageOptions"]

PRESETS = ("corrected", "released")
VARIANTS = ("vanilla", "challenging")
FORMS = ("plain", "think", "direct")
"""Forms of the policy prompt: SAGE's, and RLVER's two training templates (App. A.5; our wording)."""

MAX_TURNS = 10
"""Maximum number of policy replies in a dialogue (SAGE released logs)."""


class SageOptions(Options):
    """Defaults as in the SAGE paper. RLVER's training changes `start`, `leaves_at` and `form`."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """Rules: `corrected` judges every reply and re-asks a change outside ±10; `released` follows the authors' code."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """`challenging` is a more reserved user (RLVER App. D)."""
    max_turns: int = option(MAX_TURNS, ge=1, paper="10 (released logs); 8 in RLVER's training")
    """Maximum number of policy replies."""
    start: float = option(START, ge=0, le=100, paper="40; 30 in RLVER's released training code")
    """Emotion before the first reply."""
    leaves_at: float | None = option(None, ge=0, le=100, paper="below 10; 0 in RLVER's training")
    """Emotion at or below which the user leaves; default: below 10."""
    form: str = option(FORMS[0], choices=FORMS, think=("think",), paper="think or direct in RLVER App. A.5")
    """Form of the policy prompt: the paper's, RLVER's with a think block before each reply, or RLVER's without."""
    success_at: float = option(SUCCESS_AT, affects="score", ge=0, le=100, paper="100")
    """Final emotion at or above which a dialogue counts as a success."""
    failure_below: float = option(FAILURE_BELOW, affects="score", ge=0, le=100, paper="10")
    """Final emotion below which a dialogue counts as a failure."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.failure_below > self.success_at:
            raise ValueError(f"failure_below is {self.failure_below:g}; expected at most success_at, {self.success_at:g}")
        return self
