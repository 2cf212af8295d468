"""Tables of models against groups of people: which groups there are, and the mean points of every model in each.

Pure: dialogues in, cells out. Covers the groups of an environment (hidden intentions, scenes, dominant axes) and themes, words
and tags. Does not cover how cells look (`templates/macros.html`), nor groups with intervals (`scores`, `profiles`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.environments.sage import INTENTIONS
from heartloop.environments.spec import Scale
from heartloop.evaluation.card import ModelScore
from heartloop.evaluation.measures import group_of, in_group_order, points_of
from heartloop.report.themes import Grouping

__all__ = ["Cell", "GroupColumn", "HeatColumn", "Row", "group_columns", "heat", "theme_columns"]

_KINDS = {"theme": "", "word": "", "tag": "tag, "}


class Cell(NamedTuple):
    """One model with one intention or theme; `tint` in [0, 1] shades the cell, in another colour where it is `below` 0."""

    mean: float | None
    n: int
    tint: float
    below: bool


class GroupColumn(NamedTuple):
    """A group of people, by hidden intention, scene or axis, and what it means where the dialogues say."""

    key: str
    text: str
    kind: str


class HeatColumn(NamedTuple):
    """The head of a shaded column: the entry that explains it, its name, and a line under it."""

    entry: str
    name: str
    under: str


Row = tuple[ModelScore, list[Cell]]


def group_columns(scale: Scale, dialogues: Sequence[Transcript]) -> list[GroupColumn]:
    """The groups that occur, in the published order."""
    texts = {group: d.facts.get("intention_text", "") for d in dialogues if (group := group_of(d))}
    columns = []
    for key in in_group_order(scale, texts):
        known = INTENTIONS.get(key)
        kind = "" if known is None else "chat" if known.family == "chat" else "rational" if known.rational else "emotional"
        columns.append(GroupColumn(key, texts[key], kind))
    return columns


def theme_columns(scale: Scale, themes: Sequence[Grouping], dialogues: Sequence[Transcript]) -> list[HeatColumn]:
    """Heads of the table of themes."""

    def kind(group: Grouping) -> str:
        """What stands before the number of people: a tag is called one, and a theme of one scene names it."""
        if scale.group_intervals and group.kind != "tag":
            scenes = {group_of(d) for d in dialogues if (d.scenario, d.fingerprint) in group.people}
            return f"{scenes.pop()}, " if len(scenes) == 1 else ""
        return _KINDS[group.kind]

    return [
        HeatColumn("tag" if group.kind == "tag" else "theme", group.key, f"{kind(group)}{len(group.people)} people")
        for group in themes
    ]


def heat(
    rows: Sequence[ModelScore],
    basis: Mapping[str, Sequence[int]],
    columns: Sequence[set[int]],
    dialogues: Sequence[Transcript],
    scale: Scale,
) -> list[Row]:
    """Mean points of every scored model in every column.

    Args:
        basis: by model, the places of the dialogues behind its number.
        columns: the places of the dialogues of each column, of all models.
    """
    low, high = max(0.0, scale.low), scale.high

    def cell(row: ModelScore, places: set[int]) -> Cell:
        finals = [p for i in basis[row.model] if i in places and (p := points_of(dialogues[i])) is not None]
        mean = statistics.fmean(finals) if finals else None
        tint = min(1.0, abs(round(((mean or low) - low) / (high - low), 3)))
        return Cell(mean, len(finals), tint, mean is not None and mean < 0)

    return [(row, [cell(row, column) for column in columns]) for row in rows if row.scored]
