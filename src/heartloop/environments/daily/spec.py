"""The specification of daily conversation, `SPEC`."""

from __future__ import annotations

from heartloop.environments.spec import EnvironmentSpec, Pilot, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="daily",
    title="Daily",
    about="One answer of a companion with a memory, graded by six metrics.",
    source="PERM, section 3.4",
    roles=(Role("judge", "grades six metrics"),),
    options="heartloop.environments.daily.options:DailyOptions",
    scale="heartloop.environments.daily.scale:SCALE",
    scenarios="heartloop.environments.daily.scenario:SCENARIOS",
    environment="heartloop.environments.daily.environment:Daily",
    embedded="heartloop.environments.daily.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.daily.llm_user:LLMUser",
    report="heartloop.environments.daily.report.panel:PANEL",
    reading="heartloop.environments.daily.reading:READING",
    stored="heartloop.environments.daily.environment:STORED",
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=292.7, repeat=55.6, turns=1, tokens=330),
)
