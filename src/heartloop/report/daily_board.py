"""What a page has of its own where the environment is daily conversation: six metrics by model, and by kind of query.

Pure: the page's models and dialogues in, values out; all of it rests on the dialogues behind the leaderboard's numbers, in levels
of 1 to 5. Covers what memory did as far as the rules saw it, and an answer's grades for the browser. Does not cover the score
(`measures`), or markup (`templates/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from heartloop.core.blocks import Estimate
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import UseError
from heartloop.core.text import printable
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST, METRICS, average
from heartloop.evaluation.card import ModelScore
from heartloop.scoring.estimates import estimate

__all__ = ["AVERAGE", "DailyBoard", "Scale", "graded"]

AVERAGE = "Avg."
"""The mean of the six, as the paper names it."""


class Scale(NamedTuple):
    """Ends of a bar."""

    low: float = float(LOWEST)
    high: float = float(HIGHEST)


class DailyBoard:
    """Daily conversation's tables.

    Args:
        rows: the models, in the order of the leaderboard.
        basis: by model, the places of the dialogues behind its number.
        dialogues: all dialogues of the page.
    """

    scale = Scale()
    metrics = METRICS

    def __init__(self, rows: Sequence[ModelScore], basis: Mapping[str, Sequence[int]], dialogues: Sequence[Transcript]) -> None:
        self.members = [(number, row) for number, row in enumerate(rows)]
        self._behind = {
            row.model: [(d, levels) for i in basis[row.model] if (levels := _levels(d := dialogues[i]))] for row in rows
        }

    @cached_property
    def by_metric(self) -> dict[str, dict[str, Estimate | None]]:
        """By model and metric, the mean level over people; last the mean of the six."""
        return {model: self._means(found) for model, found in self._behind.items()}

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of query that occur, in the instances' order."""
        there = {d.facts.get("kind", "") for found in self._behind.values() for d, _ in found}
        return [kind for kind in KINDS if kind in there]

    def of_kind(self, row: ModelScore, kind: str) -> Estimate | None:
        """A model's mean of the six over the queries of a kind."""
        return self._means([(d, levels) for d, levels in self._behind[row.model] if d.facts.get("kind") == kind])[AVERAGE]

    @staticmethod
    def _means(found: Sequence[tuple[Transcript, Mapping[str, int]]]) -> dict[str, Estimate | None]:
        people = [d.scenario for d, _ in found]
        means = {name: estimate([float(levels[name]) for _, levels in found], people) for name in METRICS}
        return {**means, AVERAGE: estimate([average(levels) for _, levels in found], people)}


def graded(turn: Turn) -> dict[str, Any]:
    """An answer's grades as the browser shows them: name, level, reason and quote of each metric that has one."""
    told = {name: _mapping(turn.evidence.get(name)) for name in ("scores", "reasons", "quotes")}
    return {
        "grades": [
            [title, score, printable(str(told["reasons"].get(name, ""))), printable(str(told["quotes"].get(name, "")))]
            for name, title in METRICS.items()
            if isinstance(score := told["scores"].get(name), int)
        ]
    }


def _levels(dialogue: Transcript) -> dict[str, int]:
    """The six levels of a scored dialogue; empty where it keeps none, for a file may hold anything."""
    if dialogue.score is None or not dialogue.turns:
        return {}
    levels = _mapping(dialogue.turns[0].evidence.get("scores"))
    try:
        average(levels)
    except (UseError, TypeError):
        return {}
    return levels


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
