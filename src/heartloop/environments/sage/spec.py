"""The `EnvironmentSpec` of SAGE."""

from __future__ import annotations

from heartloop.environments.spec import DemoRun, EnvironmentSpec, Pilot, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="sage",
    title="SAGE",
    about="A user simulator whose emotion, 0 to 100, changes after every reply; the score is the final emotion.",
    source="SAGE (Sentient Agent as a Judge); training as in RLVER",
    roles=(Role("user", "plays the user and judges every reply"),),
    options="heartloop.environments.sage.options:SageOptions",
    scale="heartloop.environments.sage.scale:SCALE",
    scenarios="heartloop.environments.sage.listing:SCENARIOS",
    environment="heartloop.environments.sage.environment:Sage",
    embedded="heartloop.environments.sage.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.sage.llm_user:LLMUser",
    report="heartloop.environments.sage.report.panel:PANEL",
    reading="heartloop.environments.sage.reading:READING",
    stored="heartloop.environments.sage.stored:STORED",
    demo=DemoRun("general", 24, place=1),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=62.5, repeat=11.3, turns=10, tokens=3_981),
    training="heartloop.environments.sage.training:TRAINING",
    rankings={"Chatbot Arena": "heartloop.environments.sage.rankings:arena"},
    importers={
        "sage-profiles": "heartloop.environments.sage.importers:PROFILES",
        "sage-logs": "heartloop.environments.sage.importers:LOGS",
    },
    writing={"write": "heartloop.environments.sage.writing:SageWriting"},
)
