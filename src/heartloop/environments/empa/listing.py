"""EMPA: scenarios as text, the checks of a set, and which files are EMPA scenarios.

Covers the sections of the published card (EMPA App. D) and the parts of the story that the director releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heartloop.environments.cues import written_lines
from heartloop.environments.empa.scenario import SETS, Brief, Scenario, load_any, problems_of
from heartloop.environments.spec import Scenarios

__all__ = ["SCENARIOS", "render_card", "render_released", "render_scenario", "source_text"]

_PRIORITIES = (("affective", "A"), ("motivational", "P"), ("cognitive", "C"))


def render_card(scenario: Brief) -> str:
    """The card: person and needs, without the story and the memories."""
    p, needs, now = scenario.person, scenario.needs, scenario.situation
    priorities = [
        f"- {name} ({axis}): {priority.level}. {priority.why}"
        for name, axis in _PRIORITIES
        if (priority := getattr(scenario.priorities, name))
    ]
    return "\n".join(
        (
            f"{scenario.who}, {p.gender}. {scenario.place}.",
            f"With others: {p.social}",
            f"Inside: {p.inner}",
            f"Speaks: {p.speaking_style}",
            f"Takes empathy ({scenario.threshold} threshold): {scenario.receptive}",
            f"Wants to talk about: {scenario.topic}",
            f"What they want to pour out: {needs.vent}",
            f"What they hope somebody sees: {needs.hopes}",
            f"What closes them: {needs.constraints}",
            "Which kind of empathy they need now:",
            *priorities,
            f"How they live: {now.circumstances}",
            f"After: {now.goal}",
            f"What they would like to be: {now.vision}",
            *_of_ours("What weighs on them", [c.text for c in scenario.concerns if c.depth != "core"]),
            *_of_ours("Tried in vain", [a.text for a in scenario.attempts]),
            *_of_ours("Hurts them", [s.text for s in scenario.sores]),
        )
    )


def _of_ours(title: str, texts: Sequence[str]) -> list[str]:
    """A line of the card, which the short form may lack."""
    return [f"{title}: {' '.join(texts)}"] if texts else []


def source_text(scenario: Brief, source: str) -> str:
    """The text of one source, that is one part of the story or of the past; `opening` is the trigger."""
    story, past = scenario.story, scenario.past
    if source == "opening":
        return f"What made them come: {story.trigger} {story.outcome}"
    if source == "epilogue":
        return f"What comes up late: {story.epilogue}"
    if source.startswith("stage"):
        stage = story.stages[int(source.split()[1]) - 1]
        return f"{stage.title}: {stage.text}"
    return f"From their {source}: {getattr(past, source.replace(' ', '_'))}"


def render_released(scenario: Brief, released: Sequence[str]) -> str:
    """The released sources as text, in order of release."""
    return "\n".join(source_text(scenario, source) for source in released)


def render_scenario(scenario: Brief) -> str:
    """The whole scenario as text."""
    c, a, p = scenario.start
    story = [source_text(scenario, f"stage {n}") for n in (1, 2, 3, 4)]
    parts = [
        f"{scenario.title} ({scenario.id}; {scenario.domain}; {scenario.difficulty}; {' '.join(scenario.tags)})",
        f"Lacks at the start: C {c:g}, A {a:g}, P {p:g}; distance {scenario.distance:.1f}.",
        render_card(scenario),
        "\n".join(source_text(scenario, period) for period in ("childhood", "adolescence", "young adulthood")),
        f"What became of it: {scenario.past.arc}",
        "\n".join([source_text(scenario, "opening"), *story, source_text(scenario, "epilogue")]),
        "\n".join(f"{name} {line.level}: {line.reason} “{line.evidence}”" for name, line in scenario.iedr.items()),
        f"Opening: {scenario.opening}",
        "\n".join(f"  {beat.source:15} {beat.kind:8} {beat.text}" for beat in scenario.told),
    ]
    return "\n\n".join(parts)


def _line(s: Any) -> str:
    return f"{s.id:22} {s.axis} {s.difficulty:8} {s.who}: {s.domain} [{' '.join(s.tags)}]"


def _story(s: Any) -> str:
    return " ".join([s.opening, s.story.trigger, *(stage.text for stage in s.story.stages), *(beat.text for beat in s.told)])


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    load=load_any,
    template=__package__,
    owns=lambda path, record: "iedr" in record,
    line=_line,
    text=render_scenario,
    problems=problems_of,
    identity=lambda s: (s.person.name, s.person.occupation),
    lines=lambda s: written_lines(s.lines) if isinstance(s, Scenario) else (),
    story=_story,
)
