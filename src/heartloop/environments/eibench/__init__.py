"""EIBench: emotion management on four scenes, scored by anchors (paper: EIBench).

Does not cover turn credit for training (`scoring.credit`, with training).
"""

from heartloop.environments.eibench.embedded_user import EmbeddedUser
from heartloop.environments.eibench.environment import EIBench
from heartloop.environments.eibench.listing import SETS, load_people
from heartloop.environments.eibench.llm_user import LLMUser
from heartloop.environments.eibench.options import MAX_TURNS, PRESETS, RELATION_WEIGHT, VARIANTS, EIBenchOptions
from heartloop.environments.eibench.released import ReleasedScenario
from heartloop.environments.eibench.scenario import SCENES, Scenario, load_scenarios, pools

__all__ = [
    "MAX_TURNS",
    "PRESETS",
    "RELATION_WEIGHT",
    "SCENES",
    "SETS",
    "VARIANTS",
    "EIBench",
    "EIBenchOptions",
    "EmbeddedUser",
    "LLMUser",
    "ReleasedScenario",
    "Scenario",
    "load_people",
    "load_scenarios",
    "pools",
]
