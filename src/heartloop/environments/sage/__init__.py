"""SAGE: a person whose emotion moves after every reply (papers: SAGE, RLVER).

Does not cover training rewards from it (`scoring.credit`, with training).
"""

from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.intentions import INTENTIONS, Intention
from heartloop.environments.sage.llm_user import LLMUser
from heartloop.environments.sage.options import MAX_TURNS, PRESETS, VARIANTS, SageOptions
from heartloop.environments.sage.released import ReleasedScenario, load_people
from heartloop.environments.sage.scenario import SETS, Scenario, load_scenarios

__all__ = [
    "INTENTIONS",
    "MAX_TURNS",
    "PRESETS",
    "SETS",
    "VARIANTS",
    "EmbeddedUser",
    "Intention",
    "LLMUser",
    "ReleasedScenario",
    "Sage",
    "SageOptions",
    "Scenario",
    "load_people",
    "load_scenarios",
]
