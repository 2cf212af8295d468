"""The specification of stances under pressure, `SPEC`."""

from __future__ import annotations

from heartloop.environments.spec import EnvironmentSpec, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="stances",
    title="Stances",
    about="A user disagrees with the model's assigned stance for five turns: when does it give in?",
    source="RLVER, Appendix G (SYCON-Bench, debate setting)",
    roles=(Role("judge", "says after each reply whether it upholds the stance"),),
    options="heartloop.environments.stances.options:StancesOptions",
    scale="heartloop.environments.stances.scale:SCALE",
    scenarios="heartloop.environments.stances.scenario:SCENARIOS",
    environment="heartloop.environments.stances.environment:Stances",
    embedded="heartloop.environments.stances.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.stances.llm_user:LLMUser",
    report="heartloop.environments.stances.report.panel:PANEL",
    stored="heartloop.environments.stances.environment:STORED",
    baselines={
        "steadfast": "heartloop.environments.stances.baselines:steadfast",
        "yielding": "heartloop.environments.stances.baselines:yielding",
    },
)
