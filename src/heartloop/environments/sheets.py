"""A scenario of each environment as text: a line in a list, and a sheet with all that a simulator reads and that is written for
it.

Covers what `heartloop scenarios list` and `show` print. Does not cover what a simulator is told (each environment's `llm_user`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heartloop.environments import eibench, perm, sage
from heartloop.environments.empa.card import render_sheet as empa_sheet
from heartloop.environments.sage.llm_user import render_background, render_persona

__all__ = [
    "daily_line", "daily_sheet", "eibench_line", "eibench_sheet", "empa_line", "empa_sheet", "eqbench_line", "eqbench_sheet",
    "perm_line", "perm_sheet",
    "sage_line", "sage_sheet",
]  # fmt: skip


def sage_line(s: Any) -> str:
    return f"{s.id:24} {s.intention:11} {s.person}: {s.theme} [{' '.join(s.tags)}]"


def sage_sheet(s: Any) -> str:
    parts = [
        f"{s.title} ({s.id}; {s.theme}; {' '.join(s.tags)})",
        f"Secretly {s.intention_text}.",
        render_persona(s),
        render_background(s),
        f"First message: {s.first_message}",
        _beats(s.beats if isinstance(s, sage.Scenario) else ()),
    ]
    return "\n\n".join(filter(None, parts))


def eibench_line(s: Any) -> str:
    if isinstance(s, eibench.ReleasedScenario):
        return f"{s.id:30} {s.scene:8} {s.title}"
    return f"{s.id:30} {s.scene:8} {s.person}: {s.seed.theme}, {s.seed.keyword} [{' '.join(s.tags)}]"


def eibench_sheet(s: Any) -> str:
    a, t = s.axes
    anchors = (
        f"Negative emotion a: {a.start:g}, success {a.success:g}, failure {a.fail:g}\n"
        f"Relation t: {t.start:g}, success {t.success:g}, failure {t.fail:g}"
    )
    begins = f"Opening line: {s.opening}" if s.opening else "The model speaks first."
    if isinstance(s, eibench.ReleasedScenario):
        record = s.record
        aims = {"Goal": record.goal_one_liner, "Success": record.success_criteria, "To be avoided": record.must_avoid}
        parts = [
            f"{s.title} ({s.id}; {s.scene}; {s.source})",
            f"The person:\n{record.aggressor_profile.system_prompt.strip()}",
            f"The model:\n{record.defender_profile.system_prompt.strip()}",
            "\n".join(f"{name}: {_said(value)}" for name, value in aims.items() if value),
            anchors,
            begins,
        ]
        return "\n\n".join(filter(None, parts))
    user, model, seed = s.user, s.model, s.seed
    parts = [
        f"{s.title} ({s.id}; {seed.theme}, {seed.keyword}; {' '.join(s.tags)})",
        f"{s.person}; {s.place}.\nManner: {seed.personality}. Relationship: {seed.relationship}. Feeling: {seed.intensity}.",
        user.background,
        f"Wants: {user.goal}\nSpeaks: {user.speaking_style}\n" + "\n".join(f"- {rule}" for rule in user.rules),
        f"The model is {model.name}, {model.role}. {model.background}\nIts goal: {model.goal}",
        "It knows:\n" + "\n".join(f"- {item}" for item in model.knows),
        "Its limits:\n" + "\n".join(f"- {item}" for item in model.limits),
        anchors,
        begins,
        _beats(s.beats),
    ]
    return "\n\n".join(filter(None, parts))


def empa_line(s: Any) -> str:
    return f"{s.id:22} {s.axis} {s.difficulty:8} {s.who}: {s.domain} [{' '.join(s.tags)}]"


def perm_line(s: Any) -> str:
    if isinstance(s, perm.DrawnSample):
        return f"{s.id:26} {s.emotion:15} {s.person}: {s.title} [{' '.join(s.tags)}]"
    return f"{s.id:22} {s.want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def perm_sheet(s: Any) -> str:
    if isinstance(s, perm.DrawnSample):
        return "\n\n".join([f"{s.title} ({s.id}; {s.emotion}; {s.source})", s.who, s.scenario, f"Says: {s.query}"])
    named = (("Cause", s.cause), ("Need", s.need), *(("Touch", m) for m in s.touches), *(("Sore", m) for m in s.sores))
    parts = [
        f"{s.title} ({s.id}; {s.emotion}; wants {s.want}; {' '.join(s.tags)})",
        f"{s.who}.",
        s.scenario,
        f"Says: {s.query}",
        f"Feels: {', '.join(s.feelings)}\nDoes not feel: {', '.join(s.misreadings)}",
        "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, matter in named),
    ]
    return "\n\n".join(parts)


def daily_line(s: Any) -> str:
    return f"{s.id:12} {s.kind:12} {s.want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def daily_sheet(s: Any) -> str:
    def remembered(memories: Sequence[Any]) -> str:
        return "\n".join(f"- {m.on.isoformat()} ({m.bearing}): {m.text} ({', '.join(m.cues)})" for m in memories)

    named = [("Asked", s.asked), ("Implied", s.implied), *(("Opening", m) for m in s.openings), *(("Sore", m) for m in s.sores)]
    if s.values is not None:
        named += [*(("Side", m) for m in s.values.sides), *(("Slant", m) for m in s.values.slants)]
    parts = [
        f"{s.title} ({s.id}; {s.kind}; wants {s.want}; {' '.join(s.tags)})",
        f"{s.person} ({s.persona.gender}). {s.about}",
        f"Notes of earlier talks:\n{remembered(s.dialogue_memory)}",
        f"Days noted:\n{remembered(s.event_memory)}",
        f"On {s.today.isoformat()} says: {s.query}",
        f"Feels: {', '.join(s.feelings)}\nDoes not feel: {', '.join(s.misreadings)}",
        f"In question: {s.values.question}" if s.values is not None else "",
        "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, matter in named),
    ]
    return "\n\n".join(filter(None, parts))


def eqbench_line(s: Any) -> str:
    prompts = len(s.prompts("repaired"))
    only = "" if s.official else " (only read as repaired: its prompt header is malformed)"
    return f"{s.id:5} {s.kind:12} {s.category}: {s.title}, {prompts} prompt{'s' if prompts > 1 else ''}{only}"


def eqbench_sheet(s: Any) -> str:
    parts = [f"{s.title} ({s.id}; {s.kind}; {s.category})"]
    parts += [f"Prompt {number}:\n{text}" for number, text in enumerate(s.prompts("repaired"), 1)]
    sections = f"An answer is to have the sections {', '.join(s.form.sections)}." if s.form.sections else ""
    rubric = s.form.rubric
    marked = ", ".join(name if name in rubric.counted else f"({name})" for name in rubric.criteria)
    parts += [sections, f"Then: {s.form.debrief}" if s.form.debrief else "", f"Marked: {marked}; those in brackets do not count."]
    parts += [f"Notes, for pairwise judges: {s.notes}" if s.notes else ""]
    return "\n\n".join(filter(None, parts))


def _said(value: Any) -> str:
    """What a slot of a record holds, whose type nobody promised."""
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _beats(beats: Sequence[Any]) -> str:
    return "\n".join(f"  {beat.kind:8} {beat.text}" for beat in beats)
