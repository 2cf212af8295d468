"""Daily conversation: one answer of a companion that remembers, judged by six metrics (paper: PERM, section 3.4)."""

from heartloop.environments.daily.embedded_user import EmbeddedUser
from heartloop.environments.daily.environment import Daily
from heartloop.environments.daily.llm_user import LLMUser
from heartloop.environments.daily.options import MAX_TURNS, PRESETS, VARIANTS, DailyOptions
from heartloop.environments.daily.scenario import SETS, Scenario, load_scenarios

__all__ = [
    "MAX_TURNS",
    "PRESETS",
    "SETS",
    "VARIANTS",
    "Daily",
    "DailyOptions",
    "EmbeddedUser",
    "LLMUser",
    "Scenario",
    "load_scenarios",
]
