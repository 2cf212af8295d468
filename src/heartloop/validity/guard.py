"""General capability before and after training, for `heartloop guard` (EIBench, section 5.5.3; RLVER, Table 2).

A difference is the mean over the same items of each item's rate over its repeats, weighted by its trials, with a t interval. If
only means are stored, the harness's standard errors are added as if the samples were independent, which is too wide.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import NormalDist, fmean
from typing import Any, Literal, NamedTuple

from heartloop.core.blocks import Block, Chart, Column, Estimate, Point, Row, Series, Table
from heartloop.core.errors import InputError
from heartloop.environments.suites import Result
from heartloop.evaluation.compare import Comparison
from heartloop.integrations.harness import Item, TaskResult, mean_rate
from heartloop.scoring.statistics import mean_interval, share_interval
from heartloop.validity.suites import items_of


class HarnessTask(NamedTuple):
    harness: str
    task: str
    metric: str
    per: str = ""
    """The metric that counts the trials of `metric`; empty if that is a share."""


class Benchmark(NamedTuple):
    name: str
    items: int
    repeats: int
    source: str
    settings: Mapping[str, float]
    tasks: tuple[HarnessTask, ...]


class Change(NamedTuple):
    """A benchmark before and after, in points of 100."""

    benchmark: Benchmark
    task: HarnessTask
    before: float
    after: float
    difference: float
    low: float | None
    """Ends of the 95 % interval of the difference; `None` if they are not known."""
    high: float | None
    items: int | None
    paired: bool
    notes: tuple[str, ...]

    def verdict(self, margin: float) -> str:
        """`margin` in points."""
        if self.low is None or self.high is None:
            return "no interval"
        if self.high < 0:
            fell = f"fell by {-self.difference:.1f} points ({-self.high:.1f} to {-self.low:.1f})"
            return f"{fell}, by less than {margin:g}" if self.low > -margin else fell
        if self.low > 0:
            return f"rose by {self.difference:.1f} points ({self.low:.1f} to {self.high:.1f})"
        if self.low > -margin:
            return f"no fall of more than {margin:g} points"
        return f"inconclusive: a fall of up to {-self.low:.1f} points cannot be excluded"


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    return tuple(
        Benchmark(**{**one, "tasks": tuple(HarnessTask(**task) for task in one["tasks"])})
        for one in items_of("general")["benchmark"]
    )


def changes(before: Sequence[TaskResult], after: Sequence[TaskResult]) -> tuple[list[Change], list[str]]:
    """The benchmarks that both have, and sentences on what could not be compared."""
    known = [{(one.harness, one.task, one.metric): one for one in side} for side in (before, after)]
    found, notes = [], []
    unknown = {(one.harness, one.task) for side in (before, after) for one in side}
    for benchmark in benchmarks():
        halves = [[task for task in benchmark.tasks if task[:3] in side] for side in known]
        unknown -= {(task.harness, task.task) for half in halves for task in half}
        shared = [task for task in halves[0] if task in halves[1]]
        if shared:
            found.append(_change(benchmark, shared[0], *(_by(shared[0], side) for side in known)))
        elif all(halves):
            notes.append(f"{benchmark.name} has results of another harness before training than after; it is not compared.")
        elif any(halves):
            notes.append(f"{benchmark.name} has results only {'before' if halves[0] else 'after'} training; it is not compared.")
    if unknown:
        names = ", ".join(sorted(task for _, task in unknown))
        notes.append(f"No benchmark of the papers, or none of its metrics: {names}; not compared.")
    return found, notes


def _by(task: HarnessTask, known: Mapping[tuple[str, str, str], TaskResult]) -> TaskResult:
    """The task's result; with `per`, successes of one metric over trials of another."""
    result = known[task.harness, task.task, task.metric]
    if not task.per:
        return result
    trials = known.get((task.harness, task.task, task.per))
    if trials is None:
        raise InputError(f"{' and '.join(map(str, result.files))} lacks {task.per}, by which {task.metric} counts")
    items = {
        name: Item(item.total, trials.items[name].total, item.runs)
        for name, item in result.items.items()
        if name in trials.items and trials.items[name].total > 0
    }
    return result._replace(items=items, mean=mean_rate(items.values()), stderr=None, n=len(items))


def _change(benchmark: Benchmark, task: HarnessTask, before: TaskResult, after: TaskResult) -> Change:
    shared = [name for name in before.items if name in after.items]
    notes = [*_notes(benchmark, before, after)]
    if shared:
        if alone := len(before.items.keys() ^ after.items.keys()):
            notes.append(f"{alone} items are on one side only and are left out")
        weights = [before.items[name].of / before.items[name].runs for name in shared]
        scale = 100 * len(shared) / sum(weights)
        sides = [
            [scale * weight * side.items[name].rate for name, weight in zip(shared, weights, strict=True)]
            for side in (before, after)
        ]
        _, difference, low, high = mean_interval([b - a for a, b in zip(*sides, strict=True)]).of(len(shared))
        if low == high:  # no item differs from another, which few items do by chance: up to Wilson's bound might
            reach = 100 * share_interval(0, len(shared)).high
            low, high = max(-100.0, difference - reach), min(100.0, difference + reach)
        rates = (fmean(sides[0]), fmean(sides[1]))
        return Change(benchmark, task, *rates, difference, low, high, len(shared), True, tuple(notes))
    difference = 100 * (after.mean - before.mean)
    low = high = None
    if before.stderr is not None and after.stderr is not None:
        reach = 100 * NormalDist().inv_cdf(0.975) * math.hypot(before.stderr, after.stderr)
        low, high = difference - reach, difference + reach
        notes.append("not paired, since samples are missing: the interval is too wide (--log-samples keeps them)")
    else:
        notes.append("no interval: neither samples nor standard errors on both sides")
    return Change(benchmark, task, 100 * before.mean, 100 * after.mean, difference, low, high, before.n, False, tuple(notes))


def _notes(benchmark: Benchmark, before: TaskResult, after: TaskResult) -> Iterator[str]:
    for name in dict.fromkeys((*before.settings, *after.settings)):
        a, b = before.settings.get(name), after.settings.get(name)
        if a != b:
            yield f"{name} is {_shown(a)} before and {_shown(b)} after" if name != "questions" else "the questions differ"
    for name, value in benchmark.settings.items():
        used = after.settings.get(name)
        if used is not None and used == before.settings.get(name) and used != value:
            yield f"{name} is {_shown(used)}, in the paper {_shown(value)}"
    for side, place in ((before, "before"), (after, "after")):
        if side.unscored:
            yield f"{side.unscored} items {place} have no score and are left out"
        if side.n is not None and side.n + side.unscored < benchmark.items:
            yield f"{side.n} of {benchmark.items} items {place}"
        runs = {item.runs for item in side.items.values()}
        if runs and max(runs) < benchmark.repeats:
            yield f"{max(runs)} of {benchmark.repeats} repeats {place}"


def _shown(value: Any) -> str:
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def guard_result(found: Sequence[Change], notes: Sequence[str], margin: float, gain: Comparison | None = None) -> Result:
    """The comparison; the margin in points, a gain of two evaluations in points of their own score."""
    columns = (Column("Before"), Column("After"), Column("Difference"), Column("Items", digits=0), Column("Says"))
    rows: list[Row] = []
    texts = [f"{one.benchmark.name}: {one.verdict(margin)}." for one in found]
    texts += [f"{one.benchmark.name}: {'; '.join(one.notes)}." for one in found if one.notes]
    gained: dict[str, Any] | None = None
    if gain is not None:
        difference, environment = gain.difference, str(gain.a.settings["environment"])
        cells = (gain.mean_a, gain.mean_b, difference.of(gain.pairs), gain.pairs)
        rows.append(Row(environment, (*cells, f"{gain.scenarios} scenarios, points of the score")))
        gained = {
            "environment": environment, "before": gain.mean_a, "after": gain.mean_b, "pairs": gain.pairs,
            "difference": difference.mean, "low": difference.low, "high": difference.high, "warnings": list(gain.warnings),
        }  # fmt: skip
        texts += [f"Evaluations: {warning.rstrip('.')}." for warning in gain.warnings]
    series: list[Series] = []
    record: dict[str, Any] = {}
    for one in found:
        name, verdict = one.benchmark.name, one.verdict(margin)
        change = Estimate(one.items or 0, one.difference, one.low, one.high)
        rows.append(Row(name, (one.before, one.after, change, one.items, verdict)))
        if one.low is not None:
            series.append(Series(name, (Point(name, *change[1:]),), len(series)))
        record[name] = {
            **{field: getattr(one, field) for field in ("before", "after", "difference", "low", "high", "items", "paired")},
            "verdict": verdict, "notes": list(one.notes), "harness": one.task.harness, "task": one.task.task,
        }  # fmt: skip
    table = Table(
        "Before and after training", columns, tuple(rows), corner="Benchmark",
        help="Points of 100; the difference with its 95 % interval over items, of the same items where samples are stored.",
    )  # fmt: skip
    page: list[Block] = [table]
    if series:
        axes = ("benchmark", "after less before, points")
        page.append(Chart("Differences", "points", tuple(series), *axes, help="0 is no change."))
    short = tuple(row._replace(cells=row.cells[:3]) for row in rows)
    numbers = {"margin": margin, "benchmarks": record, "gain": gained, "notes": list(notes)}
    return Result(numbers, [*texts, *notes], table._replace(columns=columns[:3], rows=short, help=""), page)


def commands(model: str, harness: Literal["lm-eval", "inspect"], out: str) -> list[str]:
    """Shell commands that measure a model, a folder or a name on the Hugging Face hub, with the papers' settings."""
    lines, seen = [], set[str]()
    for benchmark in benchmarks():
        tasks = {one.harness: one.task for one in reversed(benchmark.tasks)}  # the first of a harness counts
        title = f"# {benchmark.name} ({benchmark.source})"
        if harness in tasks:
            if tasks[harness] not in seen:
                lines += [title, _command(benchmark, harness, tasks[harness], model, out)]
            seen.add(tasks[harness])
        elif "livecodebench" in tasks:
            lines += [
                f"{title}, in a checkout of LiveCodeBench; then copy *_eval_all.json into {out}",
                f"python -m lcb_runner.runner.main --model {shlex.quote(model)} --scenario codegeneration --evaluate "
                "--release_version release_v6",
            ]
        else:
            lines.append(f"{title}: {harness} has no such task")
    return lines


def _command(benchmark: Benchmark, harness: str, task: str, model: str, out: str) -> str:
    asked = benchmark.settings
    if harness == "inspect":
        words = ["inspect", "eval", f"inspect_evals/{task}", "--model", "hf/local", "-M", f"model_path={model}"]
        words += ["--epochs", str(benchmark.repeats), "--log-dir", out]
        words += [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", f"{value:g}")]
        return shlex.join(words)
    words = ["lm_eval", "--model", "hf", "--model_args", f"pretrained={model}", "--tasks", task, "--apply_chat_template"]
    if asked:
        named = {"max_tokens": "max_gen_toks"}
        given = ",".join(f"{named.get(name, name)}={value:g}" for name, value in asked.items())
        words += ["--gen_kwargs", f"do_sample=true,{given}"]
    if benchmark.name.startswith("HumanEval"):
        words += ["--confirm_run_unsafe_code"]
    words += ["--log_samples", "--output_path", out]
    if benchmark.repeats == 1:
        return shlex.join(words)
    seeds = " ".join(map(str, range(benchmark.repeats)))
    return f"for seed in {seeds}; do {shlex.join(words)} --seed $seed; done"
