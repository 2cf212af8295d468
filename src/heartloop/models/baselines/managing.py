"""Four baselines for dialogues in which the policy has a role, limits and something to answer for (the failures of EIBench).

`pushover` gives in to every demand; `rigid` repeats the rule; `excuser` justifies itself; `interviewer` asks one question after
the other. The wording is in `phrases.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heartloop.models.baselines.general import fixed
from heartloop.models.baselines.text import Context, Pick

__all__ = ["MANAGING"]

MANAGING: Mapping[str, Callable[[Context, Pick], str]] = {
    name: fixed(name) for name in ("pushover", "rigid", "excuser", "interviewer")
}
"""By name."""
