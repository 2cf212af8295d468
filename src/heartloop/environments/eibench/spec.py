"""The spec of EIBench."""

from __future__ import annotations

from heartloop.environments.spec import DemoRun, EnvironmentSpec, Pilot, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="eibench",
    title="EIBench",
    about="Four scenes. State: negative emotion and relation. Score: final state between anchors for success and failure.",
    source="EIBench with CTC-GRPO",
    roles=(Role("user", "plays the user and appraises every reply"),),
    options="heartloop.environments.eibench.options:EIBenchOptions",
    scale="heartloop.environments.eibench.scale:SCALE",
    scenarios="heartloop.environments.eibench.listing:SCENARIOS",
    environment="heartloop.environments.eibench.environment:EIBench",
    embedded="heartloop.environments.eibench.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.eibench.llm_user:LLMUser",
    report="heartloop.environments.eibench.report.panel:PANEL",
    reading="heartloop.environments.eibench.reading:READING",
    stored="heartloop.environments.eibench.stored:STORED",
    demo=DemoRun("all", 12, place=2),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=1805.3, repeat=197.7, turns=8, tokens=4_423),
    briefing="heartloop.environments.eibench.environment:briefing",
    training="heartloop.environments.eibench.training:TRAINING",
    rankings={"Arena of people": "heartloop.environments.eibench.rankings:arena"},
    importers={
        "eibench-scenarios": "heartloop.environments.eibench.importers:SCENARIOS",
    },
    writing={"write": "heartloop.environments.eibench.writing:EIBenchWriting"},
)
