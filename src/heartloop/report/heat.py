"""Tables of models against groups of scenarios: which groups there are, and the mean points of every model in each.

Pure: dialogues in, cells out. Covers the groups of an environment's scale, Does not cover how cells
look (`templates/macros.html`), nor groups with intervals (`scores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heartloop.core.blocks import ReportPanel, Shade, shade
from heartloop.core.dialogue import Transcript
from heartloop.environments.spec import Scale
from heartloop.evaluation.scores import ModelScore, group_of, in_group_order, points_of

__all__ = ["GroupColumn", "HeatColumn", "HeatRow", "group_columns", "heat"]


class GroupColumn(NamedTuple):
    """A group of scenarios, what it means where the dialogues say, and a word under its heading."""

    key: str
    text: str
    kind: str


class HeatColumn(NamedTuple):
    """The head of a shaded column: the entry that explains it, its name, and a line under it."""

    entry: str
    name: str
    under: str


HeatRow = tuple[ModelScore, list[Shade]]


def group_columns(scale: Scale, panel: ReportPanel, dialogues: Sequence[Transcript]) -> list[GroupColumn]:
    """The groups that occur, in the published order."""
    texts = {group: d.facts.get(panel.group_text, "") for d in dialogues if (group := group_of(d))}
    return [GroupColumn(key, texts[key], panel.group_kinds.get(key, "")) for key in in_group_order(scale, texts)]


def heat(
    rows: Sequence[ModelScore],
    basis: Mapping[str, Sequence[int]],
    columns: Sequence[set[int]],
    dialogues: Sequence[Transcript],
    scale: Scale,
) -> list[HeatRow]:
    """Mean points of every scored model in every column.

    Args:
        basis: by model, indices of the dialogues behind its number.
        columns: indices of the dialogues of each column, of all models.
    """

    def cell(row: ModelScore, column: set[int]) -> Shade:
        points = [p for i in basis[row.model] if i in column and (p := points_of(dialogues[i])) is not None]
        return shade(points, scale.low, scale.high)

    return [(row, [cell(row, column) for column in columns]) for row in rows if row.scored]
