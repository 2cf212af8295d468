"""A page of training runs as values: their summary, the curves, the length of replies by turn, the settings.

Pure: arms in, values out. Does not cover files (`site`), what a metric means (`training_metrics`) or markup (`templates/`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from heartloop.core.chat import is_embedded
from heartloop.report.curves import SMOOTHING, Band, Chart, Curve, band_of, chart_of
from heartloop.report.lengths import COLOURS, dashes_of
from heartloop.report.training_metrics import Group, Metric, groups_of, logged_metrics, turn_lengths
from heartloop.report.training_runs import Arm, TrainingRun, arms_of, settings_lines
from heartloop.report.training_summary import Summary, notes_of, summary_of

__all__ = ["ARCH_STEPS", "Arch", "ArchLine", "Panel", "Row", "TrainingPage", "metrics_of", "pages_of"]

ARCH_STEPS = 5
"""Steps that a line of lengths is the mean of; a single step has few dialogues."""
_MOST_LINES = 6
"""Lines of lengths in one chart."""


class Row(NamedTuple):
    """A curve in numbers, smoothed where the curve is."""

    place: int
    first: float
    last: float
    low: float
    high: float


class Panel(NamedTuple):
    """One metric of all arms that logged it."""

    metric: Metric
    chart: Chart
    rows: list[Row]
    bands: list[tuple[int, Band]]


class ArchLine(NamedTuple):
    """Mean tokens of the first, second, ... reply around one step; `age` is 0 for the first line and 1 for the last."""

    step: int
    age: float
    path: str
    tokens: list[float]


class Arch(NamedTuple):
    """Lengths by turn of one arm."""

    place: int
    arm: Arm
    chart: Chart
    turns: int
    lines: list[ArchLine]


class TrainingPage:
    """Runs of one environment."""

    smoothing = SMOOTHING
    colours = COLOURS
    arch_steps = ARCH_STEPS
    dashes = staticmethod(dashes_of)

    def __init__(self, runs: Sequence[TrainingRun], number: int = 1) -> None:
        self.number = number
        self.runs = list(runs)
        self.arms = arms_of(runs)
        spec = runs[0].spec
        self.environment = spec.title if spec else runs[0].environment
        self.scale = spec.scale if spec else None
        """How scores are read; `None` where the environment is not installed."""
        self.points = self.scale.points if self.scale else 1.0
        terms = spec.training.metrics if spec and spec.training else ()
        self.declared = groups_of(runs[0].environment, terms)
        """Every metric that may be drawn."""
        self.notes = notes_of(self.arms)
        self.last = max(run.last for run in self.runs)

    @property
    def learned(self) -> list[str]:
        """The learned readers that played the user in any of the runs."""
        users = {str(run.recipe.get("dialogue", {}).get("user")) for run in self.runs}
        return sorted(filter(is_embedded, users))

    @property
    def seeds(self) -> int:
        """Most seeds of an arm."""
        return max(len(arm.runs) for arm in self.arms)

    @cached_property
    def summaries(self) -> list[Summary]:
        """The results of each arm."""
        return [summary_of(arm) for arm in self.arms]

    @cached_property
    def groups(self) -> list[tuple[Group, list[Panel]]]:
        """The curves that were logged, by group."""
        logged = logged_metrics(self.declared, (name for run in self.runs for name in run.logged))
        drawn = [(group, [panel for metric in metrics if (panel := self._panel(metric))]) for group, metrics in logged]
        return [(group, panels) for group, panels in drawn if panels]

    def _panel(self, metric: Metric) -> Panel | None:
        points = self.points if metric.score else 1.0
        bands = []
        for place, arm in enumerate(self.arms):
            curves = [curve for run in arm.runs if (curve := run.curve(metric.name, points=points))]
            if band := band_of(curves, unsmoothed=metric.unsmoothed):
                bands.append((place, band))
        if not bands or (metric.quiet and not any(value for _, band in bands for value in band.raw.values())):
            return None
        rows = [_row(place, band.mean) for place, band in bands]
        return Panel(metric, chart_of(bands, last=self.last), rows, bands)

    @cached_property
    def arches(self) -> list[Arch]:
        """Lengths by turn, one for each arm."""
        return [arch for place, arm in enumerate(self.arms) if (arch := _arch(place, arm))]

    @cached_property
    def differences(self) -> list[tuple[str, list[str]]]:
        """Settings in which the arms differ, with a value for each arm."""
        flats = [dict(settings_lines(arm.first)) for arm in self.arms]
        names = list(dict.fromkeys(name for flat in flats for name in flat))
        rows = [(name, [flat.get(name, "–") for flat in flats]) for name in names if name != "seed"]
        return [(name, values) for name, values in rows if len(set(values)) > 1]

    @cached_property
    def provenance(self) -> list[tuple[TrainingRun, list[tuple[str, str]], list[tuple[str, str]]]]:
        """Each run with its facts and its settings."""
        return [(run, _facts(run), settings_lines(run)) for run in self.runs]

    def data(self) -> dict[str, Any]:
        """The curves for the interactive chart."""
        metrics = [
            {
                "name": panel.metric.name,
                "title": panel.metric.title,
                "unit": panel.metric.unit,
                "bands": [_drawn(place, band) for place, band in panel.bands],
            }
            for _, panels in self.groups
            for panel in panels
        ]
        return {"arms": [arm.name for arm in self.arms], "metrics": metrics}


def pages_of(runs: Sequence[TrainingRun]) -> list[TrainingPage]:
    """A page for each environment, since their scores do not compare, in the order of their first appearance."""
    groups: dict[str, list[TrainingRun]] = {}
    for run in runs:
        groups.setdefault(run.environment, []).append(run)
    return [TrainingPage(group, number) for number, group in enumerate(groups.values(), start=1)]


def metrics_of(pages: Sequence[TrainingPage]) -> list[Metric]:
    """Every metric that the page of meanings explains, once for each entry."""
    metrics = {metric.entry: metric for page in pages for group in page.declared for metric in group.metrics}
    return list(metrics.values())


def _row(place: int, curve: Curve) -> Row:
    values = list(curve.values())
    return Row(place, values[0], values[-1], min(values), max(values))


def _arch(place: int, arm: Arm) -> Arch | None:
    """Lines at the first step, at checkpoints and at the last step, each the mean over some steps and all seeds."""
    by_step: dict[int, list[Sequence[float]]] = {}
    for run in arm.runs:
        for step in run.steps:
            if lengths := turn_lengths(step["data"]):
                by_step.setdefault(int(step["step"]), []).append(lengths)
    if not by_step:
        return None
    steps = sorted(by_step)
    ends = _ends(steps, arm.first.saved_every)
    curves = {end: _mean_lengths([by_step[step] for step in _around(steps, end)]) for end in ends}
    turns = max(len(curve) for curve in curves.values())
    bands = [(n, _plain(dict(enumerate(curve, start=1)))) for n, curve in enumerate(curves.values())]
    chart = chart_of(bands, first=1, last=turns)
    lines = [
        ArchLine(end, n / max(1, len(ends) - 1), path, list(curves[end]))
        for n, (end, (_, _, path, _, _)) in enumerate(zip(ends, chart.lines, strict=True))
    ]
    return Arch(place, arm, chart, turns, lines)


def _ends(steps: Sequence[int], saved_every: int) -> list[int]:
    """The first step, the last, and checkpoints evenly between; no step is in two lines.

    >>> _ends(range(1, 61), 20), _ends(range(1, 251), 10), _ends(range(1, 4), 1)
    ([1, 20, 40, 60], [1, 50, 100, 150, 200, 250], [3])
    """
    if len(steps) < 2 * ARCH_STEPS:
        return [steps[-1]]
    between = [step for step in steps if saved_every and step % saved_every == 0]
    apart = [step for step in between if steps[0] + 2 * ARCH_STEPS <= step + 1 and step + ARCH_STEPS <= steps[-1]]
    stride = -(-(len(apart) + 1) // (_MOST_LINES - 1))
    return [steps[0], *apart[stride - 1 :: stride], steps[-1]]


def _around(steps: Sequence[int], end: int) -> list[int]:
    """The steps up to one, or after it at the start of the run."""
    at = steps.index(end)
    first = max(0, min(at - ARCH_STEPS + 1, len(steps) - ARCH_STEPS))
    return list(steps[first : first + ARCH_STEPS])


def _mean_lengths(steps: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """By turn, over all dialogues that reached it."""
    all_lengths = [lengths for step in steps for lengths in step]
    turns = max(map(len, all_lengths))
    columns = [[lengths[turn] for lengths in all_lengths if turn < len(lengths)] for turn in range(turns)]
    return [math.fsum(column) / len(column) for column in columns]


def _plain(curve: Curve) -> Band:
    return Band(curve, curve, curve, curve, 1)


def _facts(run: TrainingRun) -> list[tuple[str, str]]:
    counts = {split: len(scenarios) for split, scenarios in run.scenarios.items()}
    attempts = len({str(step.get("attempt")) for step in run.steps})
    facts = [
        ("Seed", str(run.seed)),
        ("Steps", f"{run.last}" + (f" of {run.planned}" if run.planned not in (None, run.last) else "")),
        ("Trained on", f"{counts['train']:,} scenarios" if "train" in counts else ""),
        ("Held out", f"{counts['held_out']:,} scenarios" if "held_out" in counts else ""),
        ("Started", f"{attempts} times" if attempts > 1 else ""),
        ("Hash of the settings", str(run.settings.get("hash") or "")),
        ("heartloop", str(run.settings.get("heartloop") or "")),
    ]
    return [(name, value) for name, value in facts if value]


def _drawn(place: int, band: Band) -> dict[str, Any]:
    found = {name: [_short(value) for value in getattr(band, name).values()] for name in ("raw", "mean", "low", "high")}
    return {"arm": place, "steps": list(band.mean), "seeds": band.seeds, **found}


def _short(value: float) -> float:
    """Five digits: more than a screen can resolve."""
    return float(f"{value:.5g}")
