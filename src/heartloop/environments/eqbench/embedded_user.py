"""The embedded judge of EQ-Bench3: marks by rules, on top of `appraisal`, for those criteria that words alone show something of.

Deterministic. Five criteria are read (`READ`): whether feelings are taken up and tied to what was told, how far the words
belong to this case, how much is named that nobody said, how many feelings are told apart, and what goes wrong in the words.
Every other criterion, style among them, gets no mark, and the score is the mean over those that have one: it does not compare
with a model's. Weights: `needs.toml`. They are not tuned, and no order of models or supporters is claimed.

A stand-in for a judge model, for tests and to try a checkout without a key; every report that used it says so. Does not cover the
score (`environment`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from heartloop.appraisal import Appraisal, Story, appraise
from heartloop.appraisal.lexicon import classes_of
from heartloop.appraisal.words import words_of
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import Answer, Marked, View
from heartloop.environments.eqbench.scenario import Scenario
from heartloop.environments.eqbench.scoring import HIGHEST_MARK
from heartloop.environments.reacting import check_english, rule_hashes, weights_of

__all__ = ["READ", "EmbeddedUser"]

READ: tuple[str, ...] = (
    "demonstrated_empathy", "message_tailoring", "depth_of_insight", "emotional_reasoning", "social_dexterity",
)  # fmt: skip
"""Criteria that the rules mark."""

_FELT = frozenset({"B", "C", "D"})
"""Groups of strategies that take a feeling up, say it back or share it (SAGE Table 4)."""


class EmbeddedUser:
    """The judge by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"judge": "embedded"}, "prompts": rule_hashes(__package__)}

    def admit(self, scenario: Scenario) -> None:
        """Refuses a scenario that is not in English, or of whose criteria none that counts is read.

        Raises:
            InputError: says so.
        """
        check_english(scenario.id, scenario.repaired)
        if not scenario.form.rubric.counted & frozenset(READ):
            raise InputError(
                f"scenario {scenario.id!r} is marked by no criterion that the embedded judge reads; use --judge MODEL"
            )

    async def mark(self, view: View, log: CallLog) -> Marked:
        prompts = view.scenario.prompts("repaired")
        seen = [_of_answer(answer, prompts[: number + 1]) for number, answer in enumerate(view.answers)]
        criteria = [name for name in READ if name in view.scenario.form.rubric.criteria]
        marks = {name: round(fmean(marks[name] for marks in seen), 1) for name in criteria}
        shown = ", ".join(f"{name.replace('_', ' ')} {mark:g}" for name, mark in marks.items())
        return Marked(marks, f"By rules, over {len(seen)} answers: {shown}.")


def _of_answer(answer: Answer, told: Sequence[str]) -> dict[str, float]:
    """The marks of one answer by criterion."""
    table = weights_of(__package__)
    *thinking, response = answer.sections.values() if answer.sections else [answer.said]
    appraisal = appraise(response, Story(tuple(told)))
    if appraisal.silent:
        return dict.fromkeys(READ, table["marks"]["silent"])
    bounds = [s.bound if s.related and not s.broken else 0.0 for s in appraisal.sentences] or [0.0]
    felt = [s.bound for s in appraisal.sentences if any(name[0] in _FELT for name, _ in s.strategies)] or [0.0]
    insights = sum(s.insight is not None for s in appraisal.sentences)
    feelings = _feelings(" ".join(thinking) or response)
    empathy, tailoring, depth, reasoning, tact = (table[name] for name in READ)
    start = table["marks"]["start"]
    points = {
        "demonstrated_empathy": start + empathy["best"] * max(felt) + empathy["mean"] * fmean(felt),
        "message_tailoring": start + tailoring["best"] * max(bounds) + tailoring["mean"] * fmean(bounds),
        "depth_of_insight": start + depth["each"] * min(depth["most"], insights) + depth["tied"] * max(bounds),
        "emotional_reasoning": start + reasoning["each"] * min(reasoning["most"], feelings),
        "social_dexterity": tact["start"] - tact["flaw"] * _flaws(appraisal) + (HIGHEST_MARK - tact["start"]) * max(bounds),
    }
    return {name: min(HIGHEST_MARK, max(0.0, value)) for name, value in points.items()}


def _flaws(appraisal: Appraisal) -> float:
    return sum(flaw.severity for flaw in appraisal.flaws) + appraisal.broken


def _feelings(text: str) -> int:
    """How many different words of feeling stand in a text."""
    return len({word for word in words_of(text) if classes_of(word) & {"distress", "warmth"}})
