"""Answers of PERM built grade by grade, for tests of its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Failure, Transcript, Turn
from heartloop.environments.perm.scoring import BROKEN_FORMAT, perm_reward
from tests.report.sage_bench import transcript

__all__ = ["PERM", "perm_talk"]

PERM: dict[str, Any] = {"environment": "perm", "preset": "released", "variant": "plain", "max_turns": 1}
"""Settings of a run."""


def perm_talk(
    model: str,
    scenario: str,
    grades: tuple[int, int, int, int] | None,
    *,
    broken: str = "",
    tokens: int = 100,
    preset: str = "released",
    weight: float = 0.5,
    text: str = "",
    emotion: str = "proud",
    want: str = "gladness",
    seen: Mapping[str, Any] | None = None,
    **changed: Any,
) -> Transcript:
    """An answer with its grades: resonation, expression, reception, bystander. Without any it is broken, or else unscored.

    `text` stands for all that a model, a judge or a sample could write; every judge quotes the first words of its part.
    """
    analysis = text or f"{model} sees that it matters."
    response = text or f"So {model} says something warm."
    reply = response if broken else f"# Analysis\n{analysis}\n\n# Response\n{response}"
    evidence: dict[str, Any] = {"format": broken}
    score: float | None = BROKEN_FORMAT if broken else None
    if grades is not None:
        names = ("resonation", "expression", "reception", "bystander")
        reward = perm_reward(*grades, tokens, preset=preset, bystander_weight=weight)
        score = reward.total
        fifth = grades[3] // 5
        fifths = [fifth] * 4 + [grades[3] - 4 * fifth]
        marks = dict(zip(("relevant", "clear", "concise", "sober", "accurate"), fifths, strict=True))
        evidence |= {
            "scores": dict(zip(names, grades, strict=True)),
            "reward": reward._asdict(),
            "tokens": tokens,
            "tokens_estimated": True,
            "reasons": {name: text or f"The {name} judge has a reason." for name in names},
            "quotes": {name: analysis if name == "resonation" else response for name in names},
            "seen": {"resonation": {"feelings": [text or "pride"], "need": False}, "bystander": marks, **(seen or {})},
        }
    failed = score is None
    fields: dict[str, Any] = {
        "preset": preset,
        "variant": "plain",
        "facts": {
            "emotion": emotion, "want": want, "theme": emotion, "title": text or f"Title of {scenario}", "tags": "none",
            "person": "Ana, 40, baker", "situation": text or "She opened the shop.", "bystander_weight": f"{weight:g}",
        },
        "opening": text or "I did it!",
        "start": {},
        "turns": () if failed else (Turn(index=0, reply=reply, evidence=evidence, state={}, change={}),),
        "failure": Failure(role="reception judge", kind="AnswerError", detail="two scores") if failed else None,
        "score": score,
        "rewards": () if score is None else (score,),
    }  # fmt: skip
    return transcript("perm", model, scenario, **(fields | changed))
