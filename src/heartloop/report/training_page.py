"""Training runs for readers: results in a line each, warnings, and the page with curves, length of replies by turn and settings.

The page and the terminal show the same summary.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from heartloop.core.blocks import Chart, Point, Series
from heartloop.core.chat import is_embedded
from heartloop.core.text import amount
from heartloop.evaluation.leaderboard import terminal_table
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.report.drawing import PALETTE, dashes_of
from heartloop.report.training import (
    HELD_OUT,
    SCORE,
    SMOOTHING,
    Arm,
    Metric,
    MetricGroup,
    TrainingRun,
    arms_of,
    band_of,
    band_series,
    groups_of,
    is_training_run,
    logged_metrics,
    read_training_run,
    settings_lines,
    turn_lengths,
)

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Spread(NamedTuple):
    """A number over seeds: the mean, the lowest, the highest."""

    mean: float
    low: float
    high: float
    n: int


class Course(NamedTuple):
    """A metric at the first and the last step, over the seeds that logged it."""

    first: Spread
    last: Spread
    change: Spread


class Summary(NamedTuple):
    """One arm in a line; `None`: not logged."""

    arm: Arm
    steps: str
    held_out: Course | None
    """In points, at the first and the last evaluation."""
    score: Course | None
    """In points, smoothed."""
    reply_tokens: Course | None
    entropy: Course | None
    failed: int
    dialogues: int
    """Training dialogues that were started."""
    calls: float
    """Of the models beside the policy, over all runs."""
    tokens: float
    cost: float | None
    hours: float | None
    """Wall-clock time, the mean of a run."""

    @property
    def failed_share(self) -> float:
        return self.failed / self.dialogues if self.dialogues else 0.0


def summary_of(arm: Arm) -> Summary:
    """The results of an arm."""
    runs = arm.runs
    points = spec.scale.points if (spec := arm.first.spec) else 1.0
    lasts = sorted({run.last for run in runs})
    planned = max((run.planned or 0 for run in runs), default=0)
    made = f"{lasts[0]}" if len(lasts) == 1 else f"{lasts[0]} to {lasts[-1]}"
    costs = [run.total("user/cost") for run in runs if run.curve("user/cost")]
    times = [seconds for run in runs if (seconds := run.total("timing_s/step"))]
    failed = sum(int(run.total("dialogue/failed")) for run in runs)
    return Summary(
        arm=arm,
        steps=made if lasts == [planned] or not planned else f"{made} of {planned}",
        held_out=_course(runs, HELD_OUT, points, unsmoothed=True),
        score=_course(runs, SCORE, points),
        reply_tokens=_course(runs, "dialogue/reply_tokens", 1.0),
        entropy=_course(runs, "actor/entropy", 1.0),
        failed=failed,
        dialogues=failed + sum(int(run.total("dialogue/scored")) for run in runs),
        calls=sum(run.total("user/calls") for run in runs),
        tokens=sum(run.total(f"user/{kind}_tokens") for run in runs for kind in ("prompt", "completion")),
        cost=sum(costs) if len(costs) == len(runs) else None,
        hours=statistics.fmean(times) / 3600.0 if times else None,
    )


def notes_of(arms: Sequence[Arm]) -> list[str]:
    """Warnings that precede every number: unfinished runs, failures, values that are not finite, other held-out scenarios."""
    notes = []
    for arm in arms:
        for run in arm.runs:
            if found := _notes_of_run(run):
                notes.append(f"{run.name}: {' '.join(found)}")
    held_out = {str(sorted(run.scenarios.get("held_out", {}).items())) for arm in arms for run in arm.runs}
    if len(held_out) > 1:
        notes.append("The runs hold out different scenarios, so their held-out scores do not compare.")
    return notes


def _notes_of_run(run: TrainingRun) -> list[str]:
    if not run.steps:
        return ["no step was made yet; the log is in attempts/."]
    notes = []
    if run.planned is not None and run.last < run.planned:
        notes.append(
            f"{run.last} of {amount(run.planned, 'step')} made; rerun the same command to resume from the last checkpoint."
        )
    failed, scored = run.total("dialogue/failed"), run.total("dialogue/scored")
    if failed:
        share = failed / (failed + scored)
        more = f", more than the {ALLOWED_UNSCORED:.0%} allowed" if share > ALLOWED_UNSCORED else ""
        notes.append(f"{failed:,.0f} of {amount(int(failed + scored), 'training dialogue')} failed ({share:.1%}{more}).")
    if skipped := run.total("training/skipped_updates"):
        notes.append(f"{amount(int(skipped), 'step')} without an update: no group had two rollouts.")
    for name, step in run.not_finite.items():
        notes.append(f"{name} is not finite from step {step} on; do not rely on results after it.")
    return notes


def _course(runs: Sequence[TrainingRun], name: str, points: float, *, unsmoothed: bool = False) -> Course | None:
    bands = [band for run in runs if (band := band_of([run.curve(name, points=points)], unsmoothed=unsmoothed))]
    if not bands:
        return None
    ends = [(values[0], values[-1]) for band in bands if (values := list(band.mean.values()))]
    return Course(
        _spread([first for first, _ in ends]),
        _spread([last for _, last in ends]),
        _spread([last - first for first, last in ends]),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.fmean(values), min(values), max(values), len(values))


ARCH_STEPS = 5
"""Steps that a line of lengths is the mean of; a single step has few dialogues."""
_MOST_LINES = 6
"""Lines of lengths in one chart."""


class CurvePanel(NamedTuple):
    """One metric of all arms that logged it, smoothed where the metric is."""

    metric: Metric
    chart: Chart
    rows: list[tuple[int, float, float, float, float]]
    """By arm its place, and the first, last, lowest and highest value of its curve."""


class ArchLine(NamedTuple):
    """Mean tokens of the first, second, ... reply around one step."""

    step: int
    tokens: list[float]


class Arch(NamedTuple):
    """Lengths by turn of one arm."""

    arm: Arm
    chart: Chart
    lines: list[ArchLine]

    @property
    def turns(self) -> int:
        """Most replies."""
        return max(len(line.tokens) for line in self.lines)


class TrainingPage:
    """Runs of one environment."""

    smoothing = SMOOTHING
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
    def groups(self) -> list[tuple[MetricGroup, list[CurvePanel]]]:
        """The curves that were logged, by group."""
        logged = logged_metrics(self.declared, (name for run in self.runs for name in run.logged))
        drawn = [(group, [panel for metric in metrics if (panel := self._panel(metric))]) for group, metrics in logged]
        return [(group, panels) for group, panels in drawn if panels]

    def _panel(self, metric: Metric) -> CurvePanel | None:
        points = self.points if metric.score else 1.0
        bands = []
        for place, arm in enumerate(self.arms):
            curves = [curve for run in arm.runs if (curve := run.curve(metric.name, points=points))]
            if band := band_of(curves, unsmoothed=metric.unsmoothed):
                bands.append((place, band))
        if not bands or (metric.quiet and not any(value for _, band in bands for value in band.raw.values())):
            return None
        values = [value for _, band in bands for curve in (band.raw, band.low, band.high) for value in curve.values()]
        series = tuple(band_series(self.arms[place].name, band, place % PALETTE) for place, band in bands)
        low, high = min(values), max(values)
        zero = 0.0 if low < 0.0 < high else None
        chart = Chart(metric.title, "lines", series, "", metric.unit, low, high, x_low=0, x_high=self.last, line=zero, bands=True)
        means = [(place, list(band.mean.values())) for place, band in bands]
        return CurvePanel(metric, chart, [(place, mean[0], mean[-1], min(mean), max(mean)) for place, mean in means])

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
    series = tuple(
        Series(
            f"step {end}",
            tuple(Point(turn, tokens) for turn, tokens in enumerate(curves[end], start=1)),
            place % PALETTE,
            opacity=0.45 + 0.55 * n / max(1, len(ends) - 1) if n + 1 < len(ends) else 1.0,
        )
        for n, end in enumerate(ends)
    )
    values = [tokens for curve in curves.values() for tokens in curve]
    chart = Chart(arm.name, "lines", series, "", "tokens", low=min(values), high=max(values))
    return Arch(arm, chart, [ArchLine(end, curves[end]) for end in ends])


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


def training_tables(runs: Sequence[Path]) -> list[RichTable]:
    """A table for the terminal, 80 columns wide, for each environment that was trained on, with a line for each arm. Folders of
    evaluations are left out.
    """
    return [_table(page) for page in pages_of([read_training_run(run) for run in runs if is_training_run(run)])]


def _table(page: TrainingPage) -> RichTable:
    from rich.text import Text

    scale = f", points from {page.scale.low:g} to {page.scale.high:g}" if page.scale else ""
    title = f"Training on {page.environment or 'an unknown environment'}{scale}"
    table = terminal_table(title, "\n".join(_caption(page.summaries, page.notes)))
    table.add_column("recipe", overflow="fold", min_width=12)
    for head in ("seeds", "steps", "held out", "change", "training", "tokens\na reply", "failed"):
        table.add_column(head, justify="right", no_wrap=True, style="bold" if head == "change" else None)
    for row in page.summaries:
        table.add_row(*map(Text, _cells(row)))
    return table


def _cells(row: Summary) -> tuple[str, ...]:
    held_out = row.held_out
    change = "–"
    if held_out is not None:
        change = f"{held_out.change.mean:+.1f}"
        if held_out.change.n > 1:
            change += f"\n{held_out.change.low:+.1f} to\n{held_out.change.high:+.1f}"
    return (
        row.arm.name,
        str(len(row.arm.runs)),
        row.steps.replace(" of", "\nof"),
        _way(held_out, 1),
        change,
        _way(row.score, 1),
        _way(row.reply_tokens, 0),
        f"{row.failed_share:.1%}" if row.failed else "0",
    )


def _way(course: Course | None, digits: int) -> str:
    return "–" if course is None else f"{course.first.mean:.{digits}f}\n→ {course.last.mean:.{digits}f}"


def _caption(rows: Sequence[Summary], notes: Sequence[str]) -> list[str]:
    several = any(len(row.arm.runs) > 1 for row in rows)
    lines = [
        "First → last; all but the held-out score are smoothed." + (" Mean over seeds, lowest to highest." if several else "")
    ]
    calls, tokens = sum(row.calls for row in rows), sum(row.tokens for row in rows)
    if calls:
        costs = [row.cost for row in rows]
        cost = f", cost {sum(c for c in costs if c is not None):.2f}" if None not in costs else ""
        lines.append(f"User simulator and judges: {calls:,.0f} calls, {tokens:,.0f} tokens{cost}.")
    return [*lines, *notes]
