"""EMPA: long dialogues in which what somebody lacks is a vector, and every turn a step in a direction (paper: EMPA)."""

from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import Empa
from heartloop.environments.empa.llm_user import LLMUser
from heartloop.environments.empa.options import MAX_TURNS, VARIANTS, EmpaOptions
from heartloop.environments.empa.scenario import SETS, Scenario, load_scenarios
from heartloop.environments.empa.scoring import PRESETS

__all__ = [
    "MAX_TURNS",
    "PRESETS",
    "SETS",
    "VARIANTS",
    "EmbeddedUser",
    "Empa",
    "EmpaOptions",
    "LLMUser",
    "Scenario",
    "load_scenarios",
]
