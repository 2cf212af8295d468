"""Results of training runs in a line each, and the warnings a reader must see first.

Pure: arms in, values out; the page and the terminal show the same. Does not cover curves (`curves`) or markup (`templates/`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.text import amount
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.report.curves import band_of
from heartloop.report.training_metrics import HELD_OUT, SCORE
from heartloop.report.training_runs import Arm, TrainingRun

__all__ = ["Course", "Spread", "Summary", "notes_of", "summary_of"]


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
