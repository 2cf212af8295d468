"""PERM's dialogues, computed once for all tables: the grades of each answer, its reward, what was wrong with its form.

Pure: transcripts in, values out. Covers one dialogue at a time. Does not cover sums over several (`board`, `ablation`,
`pairs`), nor how an answer looks when it is opened (`answers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.perm.environment import JUDGES, reward_of, rules_of
from heartloop.environments.perm.format import BROKEN
from heartloop.environments.perm.llm_user import DIMENSIONS
from heartloop.environments.perm.scale import SCALE
from heartloop.environments.perm.scoring import PermReward

__all__ = ["Graded", "broken_words", "graded", "marks_of"]


class Graded(NamedTuple):
    """A scored dialogue; `place` is where it stands among the dialogues of its page."""

    place: int
    dialogue: Transcript
    points: float
    """The reward times 100 as it was scored."""
    broken: str
    """What was wrong with the form; then there are no grades. Empty where it was right."""
    scores: Mapping[str, float]
    """By judge, 1 to 5, the bystander's 0 to 100."""
    marks: Mapping[str, float]
    """The bystander's five, 0 to 20 each; empty where its judge gave the sum alone."""
    tokens: int
    """Of the response."""
    reward: PermReward | None
    """`None` where the form was broken."""

    @property
    def weight(self) -> float:
        """The bystander's, as it was played with."""
        return rules_of(self.dialogue).weight

    def fact(self, name: str) -> str:
        """A fact of its sample; empty where it has none."""
        return self.dialogue.facts.get(name, "")


def graded(place: int, dialogue: Transcript) -> Graded | None:
    """The dialogue by its own preset and weight; `None` where it is unscored or keeps no grades."""
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
    """The bystander's five marks among what the judges saw; nothing unless all five are there."""
    beside = seen.get("bystander") if isinstance(seen, Mapping) else None
    if not isinstance(beside, Mapping):
        return {}
    marks = {name: mark for name in DIMENSIONS if isinstance(mark := beside.get(name), (int, float)) and 0 <= mark <= 20}
    return {name: float(mark) for name, mark in marks.items()} if len(marks) == len(DIMENSIONS) else {}


def broken_words(kind: str) -> str:
    """What was wrong with a form, in words; a kind that is not known here as it is written."""
    return BROKEN.get(kind, kind)
