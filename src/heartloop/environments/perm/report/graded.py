"""Grades, reward and form of one PERM dialogue, as input of all tables (`board`, `ablation`, `pairs`, `samples`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, SCALE, reward_of, rules_of
from heartloop.environments.perm.scenario import BROKEN
from heartloop.environments.perm.scoring import PermReward

__all__ = ["Graded", "broken_words", "graded", "marks_of"]


class Graded(NamedTuple):
    """A scored dialogue; `place` is its index among the dialogues of the page."""

    place: int
    dialogue: Transcript
    points: float
    """The reward times 100, as scored."""
    broken: str
    """The kind of invalid form (then there are no grades), or empty."""
    scores: Mapping[str, float]
    """Grades by judge: 1 to 5, bystander 0 to 100."""
    marks: Mapping[str, float]
    """The bystander's five marks, 0 to 20 each; empty if there is only their sum."""
    tokens: int
    """Number of tokens of the response."""
    reward: PermReward | None
    """`None` if the form is invalid."""

    @property
    def weight(self) -> float:
        """The bystander's effective weight, as scored."""
        return rules_of(self.dialogue).weight

    def fact(self, name: str) -> str:
        """A fact of the transcript; empty if missing."""
        return self.dialogue.facts.get(name, "")


def graded(place: int, dialogue: Transcript) -> Graded | None:
    """The dialogue with its own preset and rules; `None` if it is unscored or has no grades."""
    if dialogue.score is None or not dialogue.turns:
        return None
    points, evidence = SCALE.points * dialogue.score, dialogue.turns[0].evidence
    broken = evidence.get("format", "")
    if broken:
        return Graded(place, dialogue, points, str(broken), {}, {}, 0, None)
    try:
        reward = reward_of(dialogue, preset=dialogue.preset)
        scores = {judge: float(evidence["scores"][judge]) for judge in JUDGES}
    except InputError:
        return None
    seen = evidence.get("seen")
    return Graded(place, dialogue, points, "", scores, marks_of(seen), int(evidence["tokens"]), reward)


def marks_of(seen: object) -> dict[str, float]:
    """The bystander's five marks in the judges' evidence; empty unless all five are there."""
    evidence = seen.get("bystander") if isinstance(seen, Mapping) else None
    if not isinstance(evidence, Mapping):
        return {}
    marks = {name: mark for name in DIMENSIONS if isinstance(mark := evidence.get(name), (int, float)) and 0 <= mark <= 20}
    return {name: float(mark) for name, mark in marks.items()} if len(marks) == len(DIMENSIONS) else {}


def broken_words(kind: str) -> str:
    """The description of a kind of invalid form; an unknown kind is returned unchanged."""
    return BROKEN.get(kind, kind)
