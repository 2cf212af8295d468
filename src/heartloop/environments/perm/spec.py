"""The spec of PERM."""

from __future__ import annotations

from heartloop.environments.spec import DemoRun, EnvironmentSpec, Pilot, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="perm",
    title="PERM",
    about="One answer to one message, graded for resonation, expression, reception and by a bystander; the score is the reward.",
    source="PERM",
    roles=(Role("judge", "grades resonation, expression, reception and bystander"),),
    options="heartloop.environments.perm.options:PermOptions",
    scale="heartloop.environments.perm.scale:SCALE",
    scenarios="heartloop.environments.perm.listing:SCENARIOS",
    environment="heartloop.environments.perm.environment:Perm",
    embedded="heartloop.environments.perm.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.perm.llm_user:LLMUser",
    report="heartloop.environments.perm.report.panel:PANEL",
    reading="heartloop.environments.perm.reading:READING",
    stored="heartloop.environments.perm.stored:STORED",
    demo=DemoRun("general", 24, place=4),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=413.5, repeat=121.7, turns=1, tokens=389),
    training="heartloop.environments.perm.training:TRAINING",
    importers={
        "perm-samples": "heartloop.environments.perm.importers:SAMPLES",
    },
    writing={"enrich": "heartloop.environments.perm.enriching:enriching"},
)
