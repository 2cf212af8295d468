"""EIBench: emotion management on four scenes, scored by anchors (paper: EIBench).

Does not cover turn credit for training (`scoring.credit`, with training).
"""

from heartloop.environments.eibench.embedded_user import EmbeddedUser
from heartloop.environments.eibench.environment import FORMS, MAX_TURNS, PRESETS, RELATION_WEIGHT, EIBench
from heartloop.environments.eibench.llm_user import LLMUser
from heartloop.environments.eibench.released import ReleasedScenario
from heartloop.environments.eibench.scenario import SCENES, Scenario, load_scenarios, pools, read_scenarios
from heartloop.environments.eibench.scenario_sets import SETS, load_people

__all__ = [
    "FORMS",
    "MAX_TURNS",
    "PRESETS",
    "RELATION_WEIGHT",
    "SCENES",
    "SETS",
    "EIBench",
    "EmbeddedUser",
    "LLMUser",
    "ReleasedScenario",
    "Scenario",
    "load_people",
    "load_scenarios",
    "pools",
    "read_scenarios",
]
