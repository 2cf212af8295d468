"""Values of all EMPA tables and charts of a report page.

Computed on first use, from the dialogues behind the leaderboard.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from heartloop.core.blocks import Estimate, ModelRow, PanelInput
from heartloop.environments.empa.report.measured import ENDINGS, FAILED, SUCCEEDED, Measured, measured
from heartloop.environments.empa.report.paths import (
    ModelPaths,
    PlaneFrame,
    StepMeans,
    StepPlot,
    frame_of,
    model_paths,
    step_means,
    step_plot,
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

__all__ = ["EmpaBoard", "Ending", "Endings", "ScenarioCell", "ScenarioRow"]

_FULL = 100.0
"""EPM-Q at which a cell has the full tint."""


class Ending(NamedTuple):
    """A cause of the end for one model: key and label of `ENDINGS`, `success`, `failure` or `else`, dialogues, share in %."""

    key: str
    words: str
    kind: str
    n: int
    percent: float


class Endings(NamedTuple):
    """Causes of the ends of a model's dialogues, and the share in which each condition held at the end, in %."""

    number: int
    score: ModelRow
    n: int
    parts: list[Ending]
    conditions: dict[str, float | None]
    """By the condition's field in `Success` and `Failure`; `None` if the preset does not have it."""


class ScenarioCell(NamedTuple):
    """One model with one scenario: mean EPM-Q over `n` dialogues; address and cause of the end of the first one."""

    mean: float
    n: int
    tint: float
    address: str
    ending: str


class ScenarioRow(NamedTuple):
    """A scenario with all models; `None` if a model has no scored dialogue of it."""

    title: str
    person: str
    facts: str
    difficulty: str
    cells: list[ScenarioCell | None]


class EmpaBoard:
    """EMPA's tables and charts.

    Args:
        page: models and dialogues of the page.
    """

    axis_names = AXIS_NAMES
    components = COMPONENTS
    tiers = TIERS

    def __init__(self, page: PanelInput) -> None:
        self._ids = page.addresses
        self.all: list[Measured | None] = [measured(place, dialogue) for place, dialogue in enumerate(page.dialogues)]
        """By index on the page; `None` if nothing could be computed."""
        self.members: list[Member] = [
            (number, row, [m for i in page.basis[row.model] if (m := self.all[i]) is not None])
            for number, row in enumerate(page.models)
        ]
        self._measured = [m for *_, mine in self.members for m in mine]
        self.preset = next((m.dialogue.preset for m in self._measured), "")

    @cached_property
    def parts(self) -> dict[str, dict[str, Estimate]]:
        """Outcome, efficiency and stability by model."""
        return components_of(self.members)

    @cached_property
    def by_axis(self) -> dict[str, dict[str, Estimate]]:
        """EPM-Q of each dominant axis by model."""
        return {row.model: by_group(mine, AXES, lambda m: m.fact("axis")) for _, row, mine in self.members}

    @cached_property
    def by_tier(self) -> dict[str, dict[str, Estimate]]:
        """EPM-Q of each difficulty by model."""
        return {row.model: by_group(mine, TIERS, lambda m: m.fact("difficulty")) for _, row, mine in self.members}

    @cached_property
    def windows(self) -> dict[str, tuple[int, int]]:
        """Numbers of judged and of unjudged windows by model."""
        return {
            row.model: (sum(len(m.path.judged) for m in mine), sum(len(m.path.unjudged) for m in mine))
            for _, row, mine in self.members
        }

    @property
    def unjudged(self) -> int:
        """Number of unjudged windows of all models."""
        return sum(without for _, without in self.windows.values())

    @cached_property
    def indices(self) -> list[tuple[str, list[BarPanel]]]:
        """The nine index panels by component."""
        return index_panels([member for member in self.members if member[2]])

    @cached_property
    def profiles(self) -> list[Profile]:
        """The profiles with enough groups."""
        shown = [member for member in self.members if member[2]]
        return [profile for key in PROFILES if (profile := profile_of(key, shown)) is not None]

    @cached_property
    def endings(self) -> list[Endings]:
        """Causes of the ends, for each model with a scored dialogue."""
        rows = []
        for number, row, mine in self.members:
            counts = Counter(m.ending for m in mine)
            parts = [
                Ending(key, label, _kind(key), counts[key], 100.0 * counts[key] / len(mine))
                for key, label in ENDINGS.items()
                if counts[key]
            ]
            if mine:
                rows.append(Endings(number, row, len(mine), parts, _conditions(mine)))
        return rows

    @property
    def endings_met(self) -> list[Ending]:
        """The causes that occur, for the legend."""
        keys = {part.key for line in self.endings for part in line.parts}
        return [Ending(key, label, _kind(key), 0, 0.0) for key, label in ENDINGS.items() if key in keys]

    @cached_property
    def frame(self) -> PlaneFrame:
        """The frame of all planes."""
        return frame_of(self._measured)

    @cached_property
    def paths(self) -> list[ModelPaths]:
        """The paths by model."""
        return model_paths(self.members, self.frame)

    @cached_property
    def step_means(self) -> list[StepMeans]:
        """Mean size and alignment of the steps by model."""
        return step_means(self.members)

    @cached_property
    def step_plots(self) -> tuple[StepPlot, StepPlot]:
        """The chart of `step_means` for a wide and for a narrow window."""
        return (step_plot(self.step_means), step_plot(self.step_means, width=360.0, height=320.0))

    @cached_property
    def scenarios(self) -> list[tuple[str, list[ScenarioRow]]]:
        """Scenarios by difficulty, from easy to extreme, then by falling mean score."""
        by_scenario: dict[tuple[str, str], dict[str, list[Measured]]] = {}
        for m in self._measured:
            key = (m.dialogue.scenario, m.dialogue.fingerprint)
            by_scenario.setdefault(key, {}).setdefault(m.dialogue.model, []).append(m)
        rows = []
        for by_model in by_scenario.values():
            first = next(iter(by_model.values()))[0]
            facts = " · ".join(filter(None, (first.fact("axis"), first.fact("domain"), _threshold(first))))
            cells = [self._cell(by_model.get(row.model, [])) for _, row, mine in self.members if mine]
            person = first.fact("person")
            title = first.fact("title") or first.dialogue.scenario
            rows.append(ScenarioRow(title, person if person != title else "", facts, first.fact("difficulty"), cells))

        def order(row: ScenarioRow) -> tuple[float, str]:
            return -statistics.fmean(cell.mean for cell in row.cells if cell is not None), row.title

        tiers: list[str] = [*TIERS, *sorted({row.difficulty for row in rows} - {*TIERS})]
        table = [(tier, sorted((row for row in rows if row.difficulty == tier), key=order)) for tier in tiers]
        return [(tier, lines) for tier, lines in table if lines]

    def _cell(self, mine: Sequence[Measured]) -> ScenarioCell | None:
        if not mine:
            return None
        mean = statistics.fmean(m.epmq.score for m in mine)
        tint = round(min(1.0, max(0.0, mean / _FULL)), 3)
        return ScenarioCell(mean, len(mine), tint, self._ids[mine[0].place], ENDINGS[mine[0].ending])

    def data(self) -> dict[str, Any]:
        """Data of the chart in space: axes, difficulties, zone, and the steps of each dialogue by index on the page."""
        return {"axes": list(AXES), "tiers": list(TIERS), "zone": -1, "rows": steps_of(self.all)}


def _kind(ending: str) -> str:
    return "success" if ending in SUCCEEDED else "failure" if ending in FAILED else "else"


def _threshold(m: Measured) -> str:
    threshold = m.fact("threshold")
    return f"{threshold} threshold" if threshold else ""


def _conditions(mine: Sequence[Measured]) -> dict[str, float | None]:
    """Share of the dialogues, in %, in which each condition held at the end."""
    conditions: dict[str, list[bool | None]] = {}
    for m in mine:
        for name, value in {**m.success._asdict(), **m.failure._asdict()}.items():
            conditions.setdefault(name, []).append(value)
    return {
        name: None if any(value is None for value in values) else 100.0 * sum(map(bool, values)) / len(values)
        for name, values in conditions.items()
    }
