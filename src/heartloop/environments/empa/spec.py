"""The `EnvironmentSpec` of EMPA."""

from __future__ import annotations

from heartloop.environments.spec import DemoRun, EnvironmentSpec, Pilot, Role

__all__ = ["SPEC"]

SPEC = EnvironmentSpec(
    name="empa",
    title="EMPA",
    about="Long dialogues with a user whose deficit is a vector of three axes; the score is EPM-Q.",
    source="EMPA",
    roles=(
        Role("user", "plays the user"),
        Role("judge", "rates progress and regress on every axis, with quotes"),
        Role("director", "releases parts of the story"),
    ),
    options="heartloop.environments.empa.options:EmpaOptions",
    scale="heartloop.environments.empa.scale:SCALE",
    scenarios="heartloop.environments.empa.listing:SCENARIOS",
    environment="heartloop.environments.empa.environment:Empa",
    embedded="heartloop.environments.empa.embedded_user:EmbeddedUser",
    simulator="heartloop.environments.empa.llm_user:LLMUser",
    players="heartloop.environments.empa.roles:players",
    report="heartloop.environments.empa.report.panel:PANEL",
    reading="heartloop.environments.empa.reading:READING",
    stored="heartloop.environments.empa.stored:STORED",
    demo=DemoRun("general", 3, place=3),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=149.0, repeat=85.3, turns=27.4, tokens=33_634),
    training="heartloop.environments.empa.training:TRAINING",
    suites={"perturbation": "heartloop.environments.empa.perturbation_suite:SUITE"},
    importers={
        "empa-results": "heartloop.environments.empa.importers:RESULTS",
    },
    writing={"distil": "heartloop.environments.empa.distilling:EmpaDistilling"},
)
