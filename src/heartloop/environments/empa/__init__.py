"""EMPA: long dialogues in which what somebody lacks is a vector (arXiv paper in the README's list)."""

from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import MAX_TURNS, VARIANTS, Empa
from heartloop.environments.empa.llm_user import LLMUser
from heartloop.environments.empa.scenario import Scenario, load_scenarios, read_scenarios

__all__ = ["MAX_TURNS", "VARIANTS", "EmbeddedUser", "Empa", "LLMUser", "Scenario", "load_scenarios", "read_scenarios"]
