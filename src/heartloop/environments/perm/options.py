"""Options of PERM."""

from __future__ import annotations

from typing import Self

from pydantic import field_validator, model_validator

from heartloop.environments.perm.scoring import BYSTANDER_WEIGHT, PARTS, PRESETS, SWITCHES
from heartloop.environments.spec import Options, option

__all__ = ["MAX_TURNS", "VARIANTS", "PermOptions"]

VARIANTS = ("plain",)

MAX_TURNS = 1
"""Policy replies in a dialogue."""


class PermOptions(Options):
    """Options of PERM; defaults are those of the released code."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """How a grade of 1 to 5 becomes a share: `released`: grade / 5; `unit`: (grade - 1) / 4."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """Form of the policy prompt."""
    max_turns: int = option(MAX_TURNS, ge=1, le=MAX_TURNS, paper="1")
    """Number of policy replies."""
    bystander_weight: float = option(
        BYSTANDER_WEIGHT, affects="score", ge=0, allow_inf_nan=False, paper="0.5 (lambda_bys; Table 6: 0.1 to 1)"
    )
    """Weight of the bystander in the reward."""
    without: tuple[str, ...] = option((), affects="score", choices=SWITCHES, paper="none; Table 2 leaves out one at a time")
    """Parts left out of the reward."""

    @field_validator("without")
    @classmethod
    def _sorted(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in SWITCHES if name in value)

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if set(PARTS) <= set(self.without):
            raise ValueError(f"without is {', '.join(self.without)}; expected at least one of {', '.join(PARTS)} in the reward")
        return self
