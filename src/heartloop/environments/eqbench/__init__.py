"""EQ-Bench3: written prompts, answers in sections, a debrief, a judge's rubric; all texts are read from the user's checkout."""

from heartloop.environments.eqbench.embedded_user import EmbeddedUser
from heartloop.environments.eqbench.environment import EQBench
from heartloop.environments.eqbench.llm_user import LLMUser
from heartloop.environments.eqbench.options import MAX_TURNS, PRESETS, EQBenchOptions
from heartloop.environments.eqbench.released import is_checkout, load_scenarios
from heartloop.environments.eqbench.scenario import KINDS, VARIANTS, Scenario, there

__all__ = [
    "KINDS",
    "MAX_TURNS",
    "PRESETS",
    "VARIANTS",
    "EQBench",
    "EQBenchOptions",
    "EmbeddedUser",
    "LLMUser",
    "Scenario",
    "is_checkout",
    "load_scenarios",
    "there",
]
