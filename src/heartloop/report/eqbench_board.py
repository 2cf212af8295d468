"""What a page has of its own where the environment is EQ-Bench3: the marks of every criterion.

Pure: the page's models and dialogues in, values out; all of it rests on the dialogues behind the leaderboard's numbers. Marks
are the judge's, 0 to 20, whether they count or describe a style. Does not cover the score (`measures`), or markup
(`templates/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from heartloop.core.blocks import Estimate, Range
from heartloop.core.dialogue import Transcript
from heartloop.environments.eqbench.report.tables import marks, mean_mark
from heartloop.evaluation.card import ModelScore
from heartloop.scoring.estimates import estimate

__all__ = ["Criterion", "EQBenchBoard"]


class Criterion(NamedTuple):
    """A criterion over all models: its name, whether it enters the score, and each model's mean mark, in the models' order."""

    key: str
    counts: bool
    seen: list[Estimate | None]

    @property
    def name(self) -> str:
        """In words."""
        return self.key.replace("_", " ")


class EQBenchBoard:
    """EQ-Bench3's tables.

    Args:
        rows: the models, in the order of the leaderboard.
        basis: by model, the places of the dialogues behind its number.
        dialogues: all dialogues of the page.
    """

    scale = Range(0.0, 20.0, 0.0)

    def __init__(self, rows: Sequence[ModelScore], basis: Mapping[str, Sequence[int]], dialogues: Sequence[Transcript]) -> None:
        self.members = [(number, row) for number, row in enumerate(rows)]
        self._behind = {row.model: [dialogues[i] for i in basis[row.model]] for row in rows}
        self.lost = {row.model: sum(d.counts.get("missing sections", 0) for d in self._behind[row.model]) for row in rows}
        """By model, sections that were not found and so were shown to the judge empty."""

    @cached_property
    def criteria(self) -> list[Criterion]:
        """Every criterion that has a mark: those that count first, each part in the judges' order."""
        counts: dict[str, bool] = {}
        for dialogues in self._behind.values():
            for dialogue in dialogues:
                counts.update((name, counted) for name, counted, _ in marks(dialogue) if counted or name not in counts)
        ordered = sorted(counts, key=lambda name: not counts[name])
        return [Criterion(name, counts[name], [self._mean(row.model, name) for _, row in self.members]) for name in ordered]

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of scenario that occur, by the order of their groups."""
        return list(dict.fromkeys(group.key for _, row in self.members for group in row.groups))

    def kind_of(self, row: ModelScore, kind: str) -> Estimate | None:
        """A model's mean score over the scenarios of a kind."""
        mine = [(d.score, d.scenario) for d in self._behind[row.model] if d.facts.get("kind") == kind]
        return estimate([score for score, _ in mine if score is not None], [who for score, who in mine if score is not None])

    def _mean(self, model: str, criterion: str) -> Estimate | None:
        return mean_mark(self._behind[model], criterion)
