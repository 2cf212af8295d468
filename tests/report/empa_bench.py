"""Dialogues of EMPA built value by value, for tests of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.core.dialogue import Failure, Transcript, Turn
from heartloop.environments.empa.environment import numbers_of
from heartloop.environments.empa.scoring import AXES, Case, epmq, form_keys, trace
from tests.report.sage_bench import transcript

__all__ = ["EMPA", "START", "empa_talk", "levels"]

EMPA: dict[str, Any] = {"environment": "empa", "preset": "released", "variant": "plain", "max_turns": 45}
"""Settings of a run."""
START = (-3.0, -4.0, 0.0)
"""|P_0| = 5; the right direction of `released` is (0.6, 0.8, 0)."""


def levels(**given: int) -> dict[str, int]:
    """`C=1` is progress, `A=-2` regress."""
    found = dict.fromkeys(form_keys(), 0)
    for axis, level in given.items():
        found[f"{axis}.{'Prog' if level > 0 else 'Neg'}"] = level
    return found


def empa_talk(
    model: str,
    scenario: str,
    forms: Sequence[Mapping[str, int] | None],
    *,
    start: Sequence[float] = START,
    stop: str = "goodbye",
    preset: str = "released",
    text: str = "",
    facts: Mapping[str, str] | None = None,
    failed: bool = False,
    **changed: Any,
) -> Transcript:
    """A dialogue with a form a window, `None` where it was not judged. A level quotes the whole reply, `text` if given."""
    judged: list[Mapping[str, int]] = []
    turns = []
    for index, form in enumerate(forms):
        reply = text or f"Reply number {index} of {model}."
        turn: dict[str, Any] = {"index": index, "reply": reply, "message": text or f"Answer {index}."}
        if form is not None:
            judged.append(form)
            path = trace(Case(start, judged), preset=preset)
            given = [key for key, level in form.items() if level]
            turn |= {
                "state": dict(zip(AXES, path.position[-1].tolist(), strict=True)),
                "change": dict(zip(AXES, path.increment[-1].tolist(), strict=True)),
                "thoughts": dict.fromkeys(AXES, "the judge's line"),
                "evidence": {
                    "levels": dict(form),
                    "quotes": dict.fromkeys(given, reply),
                    "reasons": dict.fromkeys(given, text or "It says so."),
                    "director": {
                        "function": "advise", "argument": "", "note": text or "Stay with it.", "reason": text or "a start",
                    },
                    **numbers_of(path),
                },
            }  # fmt: skip
        turns.append(Turn(**turn))
    fields: dict[str, Any] = {
        "preset": preset,
        "variant": "plain",
        "facts": {
            "axis": "C", "domain": "health", "theme": "health", "difficulty": "easy", "threshold": "low", "tags": "none",
            "title": text or f"Title of {scenario}", "person": "Ana, 40, baker", "window": "1", **(facts or {}),
        },
        "opening": text or "I have nothing to say.",
        "start": dict(zip(AXES, start, strict=True)),
        "turns": tuple(turns),
        "stop": stop,
        "failure": Failure(role="judge", kind="AnswerError", detail="no level") if failed else None,
        "score": epmq([Case(start, judged)], preset=preset).score,
        "rewards": tuple(map(float, trace(Case(start, judged), preset=preset).energy)),
    }  # fmt: skip
    return transcript("empa", model, scenario, **(fields | changed))
