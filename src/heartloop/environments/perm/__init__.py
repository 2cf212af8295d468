"""PERM: one answer to one person, judged from both ends of the empathy cycle and by a bystander (paper: PERM)."""

from heartloop.environments.perm.drawn import FORM, DrawnSample, load_people
from heartloop.environments.perm.embedded_user import EmbeddedUser
from heartloop.environments.perm.environment import Perm
from heartloop.environments.perm.llm_user import LLMUser
from heartloop.environments.perm.options import MAX_TURNS, VARIANTS, PermOptions
from heartloop.environments.perm.scenario import SETS, Scenario, load_scenarios
from heartloop.environments.perm.scoring import PRESETS, SWITCHES

__all__ = [
    "FORM",
    "MAX_TURNS",
    "PRESETS",
    "SETS",
    "SWITCHES",
    "VARIANTS",
    "DrawnSample",
    "EmbeddedUser",
    "LLMUser",
    "Perm",
    "PermOptions",
    "Scenario",
    "load_people",
    "load_scenarios",
]
