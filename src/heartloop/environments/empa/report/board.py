"""What a page has of its own where the environment is EMPA: every table and picture beside the leaderboard, as values.

Pure: the page's models and dialogues in, values out; each is worked out when a template first asks for it. All of it rests on
the dialogues behind the leaderboard's numbers. Does not cover how a value comes about (`measured`, `profiles`, `paths`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from heartloop.core.blocks import Estimate, ModelRow, PanelInput
from heartloop.environments.empa.report.measured import ENDINGS, FAILED, SUCCEEDED, Measured, measured
from heartloop.environments.empa.report.paths import (
    Drive,
    Facing,
    ModelPaths,
    PlaneFrame,
    drives,
    facing,
    frame_of,
    model_paths,
    steps_of,
)
from heartloop.environments.empa.report.profiles import (
    AXIS_NAMES,
    COMPONENTS,
    PROFILES,
    TIERS,
    BarPanel,
    Member,
    Profile,
    by_group,
    components_of,
    index_panels,
    profile_of,
)
from heartloop.environments.empa.scoring import AXES

__all__ = ["CaseCell", "CaseRow", "EmpaBoard", "Ending", "Endings"]

_FULL = 100.0
"""EPM-Q at which a cell is shaded whole."""


class Ending(NamedTuple):
    """A part of a model's bar of endings: key of `ENDINGS`, its words, `success`, `failure` or `else`, dialogues, share in %."""

    key: str
    words: str
    kind: str
    n: int
    percent: float


class Endings(NamedTuple):
    """How one model's dialogues ended, and in what share of them each condition held at the end, in %."""

    number: int
    score: ModelRow
    n: int
    parts: list[Ending]
    conditions: dict[str, float | None]
    """By the condition's field in `Success` and `Failure`; `None` where the preset does not know it."""


class CaseCell(NamedTuple):
    """One model with one case: its mean EPM-Q over so many dialogues, the first of them to open, how it ended."""

    mean: float
    n: int
    tint: float
    address: str
    ending: str


class CaseRow(NamedTuple):
    """A case over all models; `None` where a model has no scored dialogue of it."""

    title: str
    person: str
    facts: str
    difficulty: str
    cells: list[CaseCell | None]


class EmpaBoard:
    """EMPA's tables and pictures.

    Args:
        page: models and dialogues of the page.
    """

    axis_names = AXIS_NAMES
    components = COMPONENTS
    tiers = TIERS

    def __init__(self, page: PanelInput) -> None:
        self._ids = page.addresses
        self.all: list[Measured | None] = [measured(place, dialogue) for place, dialogue in enumerate(page.dialogues)]
        """By place on the page; `None` where nothing could be computed."""
        self.members: list[Member] = [
            (number, row, [m for i in page.basis[row.model] if (m := self.all[i]) is not None])
            for number, row in enumerate(page.models)
        ]
        self._found = [m for *_, found in self.members for m in found]
        self.preset = next((m.dialogue.preset for m in self._found), "")

    @cached_property
    def parts(self) -> dict[str, dict[str, Estimate]]:
        """By model, outcome, efficiency and stability."""
        return components_of(self.members)

    @cached_property
    def by_axis(self) -> dict[str, dict[str, Estimate]]:
        """By model, EPM-Q of each dominant axis."""
        return {row.model: by_group(found, AXES, lambda m: m.fact("axis")) for _, row, found in self.members}

    @cached_property
    def by_tier(self) -> dict[str, dict[str, Estimate]]:
        """By model, EPM-Q of each difficulty."""
        return {row.model: by_group(found, TIERS, lambda m: m.fact("difficulty")) for _, row, found in self.members}

    @cached_property
    def windows(self) -> dict[str, tuple[int, int]]:
        """By model, judged windows and windows without a judgement, which enter no number."""
        return {
            row.model: (sum(len(m.path.judged) for m in found), sum(len(m.path.unjudged) for m in found))
            for _, row, found in self.members
        }

    @property
    def unjudged(self) -> int:
        """Windows without a judgement, over all models."""
        return sum(without for _, without in self.windows.values())

    @cached_property
    def indices(self) -> list[tuple[str, list[BarPanel]]]:
        """The nine panels, by component."""
        return index_panels([member for member in self.members if member[2]])

    @cached_property
    def profiles(self) -> list[Profile]:
        """Domain, mechanism, need; those with enough groups."""
        shown = [member for member in self.members if member[2]]
        return [profile for key in PROFILES if (profile := profile_of(key, shown)) is not None]

    @cached_property
    def endings(self) -> list[Endings]:
        """How dialogues ended, for every model with one."""
        found = []
        for number, row, mine in self.members:
            counts = Counter(m.ending for m in mine)
            parts = [
                Ending(key, words, _kind(key), counts[key], 100.0 * counts[key] / len(mine))
                for key, words in ENDINGS.items()
                if counts[key]
            ]
            if mine:
                found.append(Endings(number, row, len(mine), parts, _conditions(mine)))
        return found

    @property
    def endings_met(self) -> list[Ending]:
        """The kinds of endings that occur, for the key of the picture."""
        met = {part.key for line in self.endings for part in line.parts}
        return [Ending(key, words, _kind(key), 0, 0.0) for key, words in ENDINGS.items() if key in met]

    @cached_property
    def frame(self) -> PlaneFrame:
        """The frame of all planes."""
        return frame_of(self._found)

    @cached_property
    def paths(self) -> list[ModelPaths]:
        """The paths of every model."""
        return model_paths(self.members, self.frame)

    @cached_property
    def drives(self) -> list[Drive]:
        """Size and alignment of the steps of every model."""
        return drives(self.members)

    @cached_property
    def facings(self) -> tuple[Facing, Facing]:
        """Size against alignment, for a wide and for a narrow window."""
        drawn = partial(facing, self.drives)
        return (drawn(), drawn(width=360.0, height=320.0))

    @cached_property
    def cases(self) -> list[tuple[str, list[CaseRow]]]:
        """Cases by difficulty, from easy to extreme; within one those with the highest scores first."""
        met: dict[tuple[str, str], dict[str, list[Measured]]] = {}
        for m in self._found:
            person = (m.dialogue.scenario, m.dialogue.fingerprint)
            met.setdefault(person, {}).setdefault(m.dialogue.model, []).append(m)
        rows = []
        for mine in met.values():
            first = next(iter(mine.values()))[0]
            facts = " · ".join(filter(None, (first.fact("axis"), first.fact("domain"), _threshold(first))))
            cells = [self._cell(mine.get(row.model, [])) for _, row, found in self.members if found]
            who = first.fact("person")
            title = first.fact("title") or first.dialogue.scenario
            rows.append(CaseRow(title, who if who != title else "", facts, first.fact("difficulty"), cells))

        def order(row: CaseRow) -> tuple[float, str]:
            return -statistics.fmean(cell.mean for cell in row.cells if cell is not None), row.title

        tiers: list[str] = [*TIERS, *sorted({row.difficulty for row in rows} - {*TIERS})]
        table = [(tier, sorted((row for row in rows if row.difficulty == tier), key=order)) for tier in tiers]
        return [(tier, lines) for tier, lines in table if lines]

    def _cell(self, mine: Sequence[Measured]) -> CaseCell | None:
        if not mine:
            return None
        mean = statistics.fmean(m.epmq.score for m in mine)
        tint = round(min(1.0, max(0.0, mean / _FULL)), 3)
        return CaseCell(mean, len(mine), tint, self._ids[mine[0].place], ENDINGS[mine[0].ending])

    def data(self) -> dict[str, Any]:
        """For the picture in space: axes, frame, names of difficulties, and the steps of every dialogue by place."""
        return {"axes": list(AXES), "tiers": list(TIERS), "zone": -1, "rows": steps_of(self.all)}


def _kind(ending: str) -> str:
    return "success" if ending in SUCCEEDED else "failure" if ending in FAILED else "else"


def _threshold(m: Measured) -> str:
    threshold = m.fact("threshold")
    return f"{threshold} threshold" if threshold else ""


def _conditions(found: Sequence[Measured]) -> dict[str, float | None]:
    """Share of the dialogues, in %, in which each condition held at the end."""
    held: dict[str, list[bool | None]] = {}
    for m in found:
        for name, value in {**m.success._asdict(), **m.failure._asdict()}.items():
            held.setdefault(name, []).append(value)
    return {
        name: None if any(value is None for value in values) else 100.0 * sum(map(bool, values)) / len(values)
        for name, values in held.items()
    }
