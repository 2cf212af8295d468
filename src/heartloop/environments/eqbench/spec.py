"""The specification of EQ-Bench3, `SPEC`."""

from __future__ import annotations

from heartloop.core.dialogue import Sampling
from heartloop.environments.spec import EnvironmentSpec, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="eqbench",
    title="EQ-Bench3",
    about="Fixed prompts from your own checkout, answers in sections, a rubric.",
    source="EQ-Bench3 (released code)",
    roles=(Role("judge", "marks by the rubric"),),
    options="heartloop.environments.eqbench.options:EQBenchOptions",
    scale="heartloop.environments.eqbench.scale:SCALE",
    scenarios="heartloop.environments.eqbench.listing:SCENARIOS",
    environment="heartloop.environments.eqbench.environment:EQBench",
    embedded="heartloop.environments.eqbench.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.eqbench.llm_user:LLMUser",
    report="heartloop.environments.eqbench.report.panel:PANEL",
    stored="heartloop.environments.eqbench.environment:STORED",
    policy_sampling=Sampling(temperature=0.7, max_tokens=12000),  # as released
)
