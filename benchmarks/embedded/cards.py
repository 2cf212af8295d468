"""What a judge learns of a person: who they are, what they want and do not say, what helps and what hurts, how they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.embedded.examples import scenarios_by_id


def card_of(context: Mapping[str, Any]) -> str:
    """The card of a context's person, as Markdown."""
    return _CARDS[context["environment"]](scenarios_by_id(context["set"])[context["scenario"]], context)


def _spoken(context: Mapping[str, Any]) -> str:
    return " ".join(context["messages"])


def _unsaid(scenario: Any, context: Mapping[str, Any]) -> str:
    spoken = _spoken(context)
    told = {beat.concern for beat in scenario.beats if beat.text in spoken}
    return "; ".join(concern.text.rstrip(".") for concern in scenario.concerns if concern.key not in told) or "nothing more"


def _sage(s: Any, context: Mapping[str, Any]) -> str:
    p = s.persona
    return (
        f"{p.name}, {p.age}, {p.occupation}, {p.place}. Speaks: {p.speaking_style} Temperament: {p.temperament}.\n"
        f"Happened: {s.background.event}\nHidden wish ({s.intention}): {s.intention_text} {s.goal}\n"
        f"Unsaid so far: {_unsaid(s, context)}.\n"
        f"Lifts: {'; '.join(s.background.lifts)}. Sinks: {'; '.join(s.background.sinks)}.\n"
        f"Mood now: {context['state']['emotion']:g} of 100."
    )


def _eibench(s: Any, context: Mapping[str, Any]) -> str:
    u, state = s.user, context["state"]
    parts = [
        f"Scene: {s.scene}. THEM is {u.name}, {u.age}, {u.role}. {u.background}",
        f"Speaks: {u.speaking_style} Rules: {' '.join(u.rules)} Goal: {u.goal}",
        f"YOU is {s.model.name}, {s.model.role}. Knows: {' '.join(s.model.knows)} Limits: {' '.join(s.model.limits)}",
        f"Unsaid so far: {_unsaid(s, context)}.",
    ]
    if s.demand is not None:
        parts.append(f"Demands: {s.demand.text} Ways that are allowed: {'; '.join(w.text for w in s.ways)}")
    if s.wrongs:
        parts.append(
            f"The deed of YOU, and what it cost: {'; '.join(w.text for w in s.wrongs)} "
            f"Would help: {'; '.join(w.text for w in s.ways)}"
        )
    if s.sores:
        parts.append(f"Sore: {'; '.join(m.text for m in s.sores)}")
    parts.append(f"State now: negative emotion {state['a']:g} of 100, relation {state['t']:g} of 100.")
    return "\n".join(parts)


def _empa(s: Any, context: Mapping[str, Any]) -> str:
    p = s.person
    return (
        f"{p.name}, {p.age}, {p.occupation}. {p.inner}\nSpeaks: {p.speaking_style}\nReceptive: {s.receptive}\n"
        f"Needs: {s.needs.vent} Hopes: {s.needs.hopes} {s.needs.constraints}\n"
        + "".join(
            f"{name}: {getattr(s.priorities, name).level} ({getattr(s.priorities, name).why})\n"
            for name in ("cognitive", "affective", "motivational")
        )
        + f"Unsaid so far: {_unsaid(s, context)}.\nSore: {'; '.join(m.text for m in s.sores)}"
    )


def _perm(s: Any, context: Mapping[str, Any]) -> str:
    p = s.persona
    return (
        f"{p.name}, {p.age}, {p.occupation}. {s.scenario}\nFeels: {', '.join(s.feelings)}. Not: {', '.join(s.misreadings)}. "
        f"Cause: {s.cause.text} Need, unsaid: {s.need.text} Wants: {s.want}.\n"
        f"Would touch: {'; '.join(m.text for m in s.touches)}. Sore: {'; '.join(m.text for m in s.sores)}"
    )


def _daily(s: Any, context: Mapping[str, Any]) -> str:
    p = s.persona
    memories = "; ".join(f"{m.on}: {m.text} [{m.bearing}]" for m in (*s.dialogue_memory, *s.event_memory))
    values = ""
    if s.values is not None:
        values = f"\nA question of values: sides {'; '.join(m.text for m in s.values.sides)}; "
        values += f"slanted would be {'; '.join(m.text for m in s.values.slants)}"
    return (
        f"{p.name}, {p.age}, {p.occupation}. {s.about} Today {s.today}. Notes (what they have to do with it): {memories}\n"
        f"Feels: {', '.join(s.feelings)}. Not: {', '.join(s.misreadings)}. "
        f"Asks for: {s.asked.text} Unsaid: {s.implied.text} Wants: {s.want}.\n"
        f"Openings: {'; '.join(m.text for m in s.openings)}. Sore: {'; '.join(m.text for m in s.sores)}{values}"
    )


_CARDS: Mapping[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "sage": _sage, "eibench": _eibench, "empa": _empa, "perm": _perm, "daily": _daily,
}  # fmt: skip
