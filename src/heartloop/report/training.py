"""Training runs for readers: results in points, warnings, and the page with curves, length of replies by turn and settings."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from heartloop.core.blocks import Chart, Point, Series
from heartloop.core.chat import is_embedded
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.core.errors import InputError
from heartloop.core.system import packaged_table, read_steps
from heartloop.core.text import amount
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.report import mapping_of
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.training import TrainingMetric
from heartloop.evaluation.leaderboard import terminal_table, with_notes
from heartloop.evaluation.scores import ALLOWED_UNSCORED, points_of, score_card
from heartloop.evaluation.store import Measurement, StoredRun
from heartloop.report.drawing import PALETTE, dashes_of
from heartloop.report.page import Page
from heartloop.report.provenance import in_words

if TYPE_CHECKING:
    from rich.console import Group

_UNDECISIVE = ("about", "watching", "machine", "variants", "seed")  # sections of a recipe that decide no result of an arm
_MOST_NAMED = 3
_COUNTED = ("dialogue/counts/", "dialogue/stops/")  # metrics that are logged only where there is something to count


class TrainingRun(NamedTuple):
    path: Path
    settings: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    raw: str

    @property
    def recipe(self) -> Mapping[str, Any]:
        recipe: Mapping[str, Any] = self.settings["recipe"]
        return recipe

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def last(self) -> int:
        return max((int(step["step"]) for step in self.steps), default=0)

    @property
    def planned(self) -> int | None:
        steps = _at(self.recipe, "batch.steps")
        return steps if type(steps) is int else None

    @property
    def environment(self) -> str:
        return str(_at(self.recipe, "environment.name") or "")

    @property
    def spec(self) -> EnvironmentSpec | None:
        return load_environment(self.environment) if self.environment in environment_names() else None

    @property
    def scenarios(self) -> Mapping[str, Mapping[str, str]]:
        """Fingerprints by scenario id of each split."""
        splits = mapping_of(self.settings.get("scenarios"))
        return {str(split): by_id for split, by_id in splits.items() if isinstance(by_id, Mapping)}

    def curve(self, name: str, *, points: float = 1.0) -> dict[int, float]:
        """A metric by step, times `points`; steps without a finite number are left out.

        A count or a way to end that is not logged in a step with dialogues did not occur in it: 0.
        """
        values = {}
        for step in sorted(self.steps, key=lambda one: int(one["step"])):
            counted = name.startswith(_COUNTED) and "dialogue/scored" in step["data"]
            value = step["data"].get(name, 0.0 if counted else None)
            if _is_number(value):
                values[int(step["step"])] = float(value) * points
        return values

    def total(self, name: str) -> float:
        return math.fsum(self.curve(name).values())


class Arm(NamedTuple):
    name: str
    runs: tuple[TrainingRun, ...]


def is_training_run(path: Path) -> bool:
    try:
        return isinstance(json.loads((path / "settings.json").read_text(encoding="utf-8"))["recipe"], dict)
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return False


def read_training_run(path: Path) -> TrainingRun:
    if not is_training_run(path):
        raise InputError(f"{path} is no training run; expected a settings.json with a recipe")
    raw = (path / "settings.json").read_text(encoding="utf-8")
    metrics = path / "metrics.jsonl"
    return TrainingRun(path, json.loads(raw), tuple(read_steps(metrics) if metrics.is_file() else ()), raw)


def arms_of(runs: Sequence[TrainingRun]) -> list[Arm]:
    """Runs grouped by all settings but the seed; arms of one recipe are named by their variants, or by settings that differ."""
    groups: dict[str, list[TrainingRun]] = {}
    for run in runs:
        decisive = {name: value for name, value in run.recipe.items() if name not in _UNDECISIVE}
        groups.setdefault(json.dumps([decisive, run.scenarios], sort_keys=True), []).append(run)
    names = [_name(group[0]) for group in groups.values()]
    settings = [dict(_settings(group[0], _UNDECISIVE)) for group in groups.values()]
    arms = []
    for group, name, mine in zip(groups.values(), names, settings, strict=True):
        rivals = [values for other, values in zip(names, settings, strict=True) if other == name]
        differ = [
            f"{key} {mine.get(key, '–')}"
            for key in sorted({key for values in rivals for key in values})
            if len({values.get(key, "–") for values in rivals}) > 1
        ]
        if len(differ) > _MOST_NAMED:
            differ[_MOST_NAMED:] = [amount(len(differ) - _MOST_NAMED, "more setting")]
        arms.append(Arm(f"{name} ({', '.join(differ)})" if differ else name, tuple(group)))
    taken = [arm.name for arm in arms]
    return [arm._replace(name=f"{arm.name} · {arm.runs[0].name}") if taken.count(arm.name) > 1 else arm for arm in arms]


def _name(run: TrainingRun) -> str:
    followed = [
        name
        for name, changes in mapping_of(run.recipe.get("variants")).items()
        if isinstance(changes, Mapping) and changes and all(_at(run.recipe, key) == value for key, value in changes.items())
    ]
    return " ".join([str(run.recipe.get("name", run.name)), *followed])


def _settings(run: TrainingRun, without: Sequence[str] = ("variants",)) -> Iterator[tuple[str, str]]:
    return _flat({name: value for name, value in run.recipe.items() if name not in without})


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", in_words(value)


def _at(values: Any, name: str) -> Any:
    for part in name.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300  # type: ignore[operator]


SMOOTHING = 0.8
"""Weight of the previous value (EIBench, Figure 4)."""

Curve = Mapping[int, float]
"""A value by step, in the order of the steps; steps without a number are missing."""


class Band(NamedTuple):
    """One metric of runs that differ only in their seed, at the steps that all of them have."""

    raw: Curve
    mean: Curve
    low: Curve
    high: Curve
    seeds: int


def smoothed(curve: Curve, weight: float = SMOOTHING) -> dict[int, float]:
    """The exponential moving average; it starts at the first value.

    >>> smoothed({1: 0.0, 2: 10.0, 4: 10.0})
    {1: 0.0, 2: 2.0, 4: 3.6}
    """

    def blended(last: float, value: float) -> float:
        return weight * last + (1.0 - weight) * value

    return {step: round(value, 12) for step, value in zip(curve, accumulate(curve.values(), blended), strict=True)}


def band_of(curves: Sequence[Curve], *, unsmoothed: bool = False) -> Band | None:
    """The mean over seeds with their lowest and highest, a curve for each seed; `None` if they have no step in common."""
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    if not steps:
        return None
    shared = [{step: curve[step] for step in steps} for curve in curves]
    soft = [curve if unsmoothed else smoothed(curve) for curve in shared]

    def over(several: Sequence[Curve], work: Callable[[list[float]], float]) -> dict[int, float]:
        return {step: work([curve[step] for curve in several]) for step in steps}

    return Band(over(shared, statistics.fmean), over(soft, statistics.fmean), over(soft, min), over(soft, max), len(curves))


def band_series(name: str, band: Band, model: int | None = None) -> Series:
    several = band.seeds > 1
    points = tuple(
        Point(step, value, band.low[step] if several else None, band.high[step] if several else None)
        for step, value in band.mean.items()
    )
    raw = () if band.raw == band.mean else tuple(Point(step, value) for step, value in band.raw.items())
    return Series(name, points, model, raw)


HELD_OUT = "held_out/score"
SCORE = "dialogue/score"


class Metric(NamedTuple):
    name: str
    """As it is logged; the name of a family ends with `/`."""
    title: str
    about: str
    unit: str = ""
    source: str = "ours"
    quiet: bool = False
    """A count of failures: drawn only where one occurred."""
    unsmoothed: bool = False
    """Drawn as logged: it rests on all held-out scenarios, or is set and not measured."""
    explained_as: str = ""
    """Whose entry of the page of meanings explains it, where that is not `name`."""

    @property
    def entry(self) -> str:
        """Id of its entry on the page of meanings; members of a family share one.

        >>> Metric("held_out/score", "Held-out score", "").entry
        'train-held_out-score'
        """
        return "train-" + (self.explained_as or self.name).replace("/", "-")


class MetricGroup(NamedTuple):
    id: str
    title: str
    help: str
    metrics: tuple[Metric, ...]


GROUPS = tuple(
    MetricGroup(group["id"], group["title"], group["help"], tuple(Metric(**metric) for metric in group["metrics"]))
    for group in packaged_table(__package__, "metrics.toml")["group"]
)


def groups_of(environment: str, terms: Sequence[TrainingMetric]) -> list[MetricGroup]:
    declared = []
    for term in terms:
        for where, title, over in (("held_out", "Held out", "held-out scenarios"), ("dialogue", "Training", "step’s dialogues")):
            name = f"{where}/parts/{term.name}"
            words = f"{title}: {term.title}", f"{term.about} Mean over the {over}.", term.unit, term.source
            declared.append(Metric(name, *words, unsmoothed=where == "held_out", explained_as=f"{environment}/{name}"))
    return [group._replace(metrics=(*declared, *group.metrics)) if group.id == "terms" else group for group in GROUPS]


def logged_metrics(groups: Sequence[MetricGroup], logged: Iterable[str]) -> list[tuple[MetricGroup, list[Metric]]]:
    """By group the metrics that were logged; a family becomes one for each member, in the order of their names.

    >>> found = logged_metrics(GROUPS, ["held_out/score", "held_out/score/repair", "dialogue/score/charm"])
    >>> [metric.title for _, metrics in found for metric in metrics]
    ['Held-out score', 'Held out: repair', 'Training: charm']
    """
    names = sorted(set(logged))
    single = {metric.name for group in groups for metric in group.metrics}

    def members(metric: Metric) -> list[Metric]:
        if not metric.name.endswith("/"):
            return [metric] if metric.name in names else []
        return [
            metric._replace(
                name=name, title=f"{metric.title}: {name.removeprefix(metric.name).replace('_', ' ')}", explained_as=metric.name
            )
            for name in names
            if name.startswith(metric.name) and name not in single
        ]

    return [(group, [member for metric in group.metrics for member in members(metric)]) for group in groups]


class Spread(NamedTuple):
    mean: float
    low: float
    high: float
    n: int


Course = dict[str, Spread]
"""A metric at its `first` and `last` step, and its `change`, over the seeds that logged it."""


def summary_of(arm: Arm) -> dict[str, Any]:
    """Calls, tokens and cost are over all runs, the hours the mean of a run; what was not logged is `None`."""
    runs = arm.runs

    def course(name: str, *, score: bool = False, unsmoothed: bool = False) -> Course | None:
        points = spec.scale.points if score and (spec := runs[0].spec) else 1.0
        bands = [band for run in runs if (band := band_of([run.curve(name, points=points)], unsmoothed=unsmoothed))]
        curves = [list(band.mean.values()) for band in bands]
        ends = {
            "first": [curve[0] for curve in curves],
            "last": [curve[-1] for curve in curves],
            "change": [curve[-1] - curve[0] for curve in curves],
        }
        return {at: Spread(statistics.fmean(n), min(n), max(n), len(n)) for at, n in ends.items()} if curves else None

    lasts = sorted({run.last for run in runs})
    planned = max((run.planned or 0 for run in runs), default=0)
    made = f"{lasts[0]}" if len(lasts) == 1 else f"{lasts[0]} to {lasts[-1]}"
    costs = [run.total("user/cost") for run in runs if run.curve("user/cost")]
    times = [seconds for run in runs if (seconds := run.total("timing_s/step"))]
    failed = sum(int(run.total("dialogue/failed")) for run in runs)
    dialogues = failed + sum(int(run.total("dialogue/scored")) for run in runs)
    return {
        "arm": arm,
        "steps": made if lasts == [planned] or not planned else f"{made} of {planned}",
        "held_out": course(HELD_OUT, score=True, unsmoothed=True),
        "score": course(SCORE, score=True),
        "reply_tokens": course("dialogue/reply_tokens"),
        "entropy": course("actor/entropy"),
        "failed": failed,
        "dialogues": dialogues,
        "failed_share": failed / dialogues if dialogues else 0.0,
        "calls": sum(run.total("user/calls") for run in runs),
        "tokens": sum(run.total(f"user/{kind}_tokens") for run in runs for kind in ("prompt", "completion")),
        "cost": sum(costs) if len(costs) == len(runs) else None,
        "hours": statistics.fmean(times) / 3600.0 if times else None,
    }


def notes_of(runs: Sequence[TrainingRun]) -> list[str]:
    notes = [f"{run.name}: {' '.join(found)}" for run in runs if (found := _notes_of_run(run))]
    if len({str(sorted(run.scenarios.get("held_out", {}).items())) for run in runs}) > 1:
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
    if failed := run.total("dialogue/failed"):
        dialogues = failed + run.total("dialogue/scored")
        share = failed / dialogues
        more = f", more than the {ALLOWED_UNSCORED:.0%} allowed" if share > ALLOWED_UNSCORED else ""
        notes.append(f"{failed:,.0f} of {amount(int(dialogues), 'training dialogue')} failed ({share:.1%}{more}).")
    if skipped := run.total("training/skipped_updates"):
        notes.append(f"{amount(int(skipped), 'step')} without an update: no group had two rollouts.")
    not_finite: dict[str, int] = {}
    for step in run.steps:
        for name, value in step["data"].items():
            if isinstance(value, float) and not math.isfinite(value):
                not_finite.setdefault(name, int(step["step"]))
    return notes + [
        f"{name} is not finite from step {step} on; do not rely on results after it." for name, step in not_finite.items()
    ]


class Pair(NamedTuple):
    """A held-out scenario at the first and at the last evaluation of a run, and by how many points its score rose."""

    change: float
    first: Transcript
    last: Transcript


def held_out_pairs(run: TrainingRun, name: str = "") -> list[Pair]:
    """The scenarios that were scored at both ends, from the largest loss to the largest gain.

    The dialogues' model is the step, after the `name` of the run if there are several; of a step made twice the later counts.
    Every step plays with seeds of its own; here all have the recipe's, by which pages find the same scenario.
    """
    steps: dict[int, dict[tuple[str, str], Transcript]] = {}
    files = sorted(run.path.glob("transcripts/held_out-*.jsonl"), key=lambda file: file.stat().st_mtime)
    numbers = [int(file.name.split("-")[1]) for file in files]
    for step, file in zip(numbers, files, strict=True):
        if step in (min(numbers), max(numbers)):
            named = {"model": f"{name}step {step}", "seed": run.recipe.get("seed", 0)}
            played = (one.model_copy(update=named) for one in read_transcripts(file) if one.scored)
            steps.setdefault(step, {}).update({(one.scenario, one.fingerprint): one for one in played})
    if len(steps) < 2:
        return []
    first, last = steps[min(numbers)], steps[max(numbers)]
    both = [(one, last[key]) for key, one in first.items() if key in last]
    pairs = [Pair((points_of(b) or 0.0) - (points_of(a) or 0.0), a, b) for a, b in both]
    return sorted(pairs, key=lambda pair: (pair.change, pair.first.scenario))


ARCH_STEPS = 5
"""Steps that a line of lengths is the mean of; a single step has few dialogues."""
_MOST_LINES = 6


class TrainingPage:
    smoothing = SMOOTHING
    arch_steps = ARCH_STEPS
    dashes = staticmethod(dashes_of)

    def __init__(self, runs: Sequence[TrainingRun], number: int = 1, measurements: int = 0) -> None:
        self.number = number
        self.folder = measurements + number  # of its dialogues' data, after those of the report's measurements
        self.runs = list(runs)
        self.arms = arms_of(runs)
        spec = runs[0].spec
        self.environment = spec.title if spec else runs[0].environment
        self.scale = spec.scale if spec else None
        terms = spec.training.metrics if spec and spec.training else ()
        self.declared = groups_of(runs[0].environment, terms)
        self.notes = notes_of(runs)
        self.last = max(run.last for run in self.runs)
        self.learned = sorted(filter(is_embedded, {str(run.recipe.get("dialogue", {}).get("user")) for run in runs}))
        self.seeds = max(len(arm.runs) for arm in self.arms)
        self.summaries = [summary_of(arm) for arm in self.arms]

    @cached_property
    def groups(self) -> list[tuple[MetricGroup, list[tuple[Metric, Chart]]]]:
        steps = [step["data"] for run in self.runs for step in run.steps]
        logged = logged_metrics(self.declared, {name for data in steps for name, value in data.items() if _is_number(value)})
        drawn = [(group, [(metric, chart) for metric in some if (chart := self._chart(metric))]) for group, some in logged]
        return [(group, panels) for group, panels in drawn if panels]

    def _chart(self, metric: Metric) -> Chart | None:
        points = self.scale.points if self.scale and metric.name.startswith((HELD_OUT, SCORE)) else 1.0
        curves = [[curve for run in arm.runs if (curve := run.curve(metric.name, points=points))] for arm in self.arms]
        found = [band_of(several, unsmoothed=metric.unsmoothed) for several in curves]
        bands = [(place, band) for place, band in enumerate(found) if band]
        if not bands or (metric.quiet and not any(value for _, band in bands for value in band.raw.values())):
            return None
        values = [value for _, band in bands for curve in (band.raw, band.low, band.high) for value in curve.values()]
        series = tuple(band_series(self.arms[place].name, band, place % PALETTE) for place, band in bands)
        low, high = min(values), max(values)
        zero = 0.0 if low < 0.0 < high else None
        return Chart(metric.title, "lines", series, "", metric.unit, low, high, x_low=0, x_high=self.last, line=zero, bands=True)

    @cached_property
    def arches(self) -> list[Chart]:
        return [arch for place, arm in enumerate(self.arms) if (arch := _arch(place, arm))]

    @cached_property
    def differences(self) -> list[tuple[str, list[str]]]:
        settings = [dict(_settings(arm.runs[0])) for arm in self.arms]
        names = list(dict.fromkeys(name for values in settings for name in values if name != "seed"))
        rows = [(name, [values.get(name, "–") for values in settings]) for name in names]
        return [(name, values) for name, values in rows if len(set(values)) > 1]

    @cached_property
    def _pairs(self) -> dict[Path, list[Pair]]:
        found = {run.path: held_out_pairs(run, f"{run.path}/" if self.runs[1:] else "") for run in self.runs if run.spec}
        return {path: pairs for path, pairs in found.items() if pairs}

    @cached_property
    def held_out(self) -> Page | None:
        """The dialogues of all pairs as an evaluation whose models are the steps; `None` if none were written."""
        if not (dialogues := [one for pairs in self._pairs.values() for pair in pairs for one in pair[1:]]):
            return None
        run = StoredRun.of(self.runs[0].path, {"options": _at(self.runs[0].recipe, "environment.options")}, dialogues)
        card = score_card(run.digests, run.settings)
        return Page(Measurement((run,), run.settings, run.digests), card, self.folder, most_shown=len(dialogues))

    @property
    def examples(self) -> list[tuple[str, list[Pair], list[tuple[str, Pair, str]]]]:
        """By arm its name, the pairs of its first run that has any, and those to show, with the addresses of their dialogues.

        They are the best, the median (of an even number the lower) and the worst change.
        """
        shown = []
        for arm in self.arms:
            if self.held_out and (pairs := next((self._pairs[run.path] for run in arm.runs if run.path in self._pairs), None)):
                address = {id(one.read()): id_ for one, id_ in zip(self.held_out.dialogues, self.held_out.ids, strict=True)}
                chosen = {"Best": pairs[-1], "Median": pairs[(len(pairs) - 1) // 2], "Worst": pairs[0]}
                both = [(name, pair, f"{address[id(pair.first)]} {address[id(pair.last)]}") for name, pair in chosen.items()]
                shown.append((arm.name, pairs, both))
        return shown

    @property
    def provenance(self) -> list[tuple[TrainingRun, list[tuple[str, str]], list[tuple[str, str]]]]:
        return [(run, _facts(run), list(_settings(run))) for run in self.runs]


def pages_of(runs: Sequence[TrainingRun], measurements: int = 0) -> list[TrainingPage]:
    groups: dict[str, list[TrainingRun]] = {}
    for run in runs:
        groups.setdefault(run.environment, []).append(run)
    return [TrainingPage(group, number, measurements) for number, group in enumerate(groups.values(), start=1)]


def _arch(place: int, arm: Arm) -> Chart | None:
    """Lines at the first step, at checkpoints and at the last step, each the mean over some steps and all seeds (EIBench Fig. 5).

    In characters, as there, or in tokens where a run logged no other.
    """
    by_step: dict[int, list[list[float]]] = {}
    unit = "characters" if any("dialogue/reply_characters/turn_1" in s["data"] for r in arm.runs for s in r.steps) else "tokens"
    for run in arm.runs:
        for step in run.steps:
            lengths: list[float] = []
            while (name := f"dialogue/reply_{unit}/turn_{len(lengths) + 1}") in step["data"]:
                lengths.append(step["data"][name])
            if lengths:
                by_step.setdefault(int(step["step"]), []).append(lengths)
    if not by_step:
        return None
    steps = sorted(by_step)
    saved_every = _at(arm.runs[0].recipe, "watching.save_every")
    ends = _ends(steps, saved_every if type(saved_every) is int else 0)
    series = []
    for n, end in enumerate(ends):
        first = max(0, min(steps.index(end) - ARCH_STEPS + 1, len(steps) - ARCH_STEPS))
        near = [lengths for step in steps[first : first + ARCH_STEPS] for lengths in by_step[step]]
        means = [
            statistics.fmean(lengths[turn] for lengths in near if turn < len(lengths)) for turn in range(max(map(len, near)))
        ]
        points = tuple(Point(turn, length) for turn, length in enumerate(means, start=1))
        opacity = 0.45 + 0.55 * n / max(1, len(ends) - 1) if n + 1 < len(ends) else 1.0
        series.append(Series(f"step {end}", points, place % PALETTE, opacity=opacity))
    values = [point.y for one in series for point in one.points]
    return Chart(arm.name, "lines", tuple(series), "", unit, low=min(values), high=max(values))


def _ends(steps: Sequence[int], saved_every: int) -> list[int]:
    """The first step, the last, and checkpoints evenly between; no step is in two lines.

    >>> _ends(range(1, 61), 20), _ends(range(1, 251), 10), _ends(range(1, 4), 1)
    ([1, 20, 40, 60], [1, 50, 100, 150, 200, 250], [3])
    """
    if len(steps) < 2 * ARCH_STEPS:
        return [steps[-1]]
    between = [step for step in steps if saved_every > 0 and step % saved_every == 0]
    apart = [step for step in between if steps[0] + 2 * ARCH_STEPS <= step + 1 and step + ARCH_STEPS <= steps[-1]]
    stride = -(-(len(apart) + 1) // (_MOST_LINES - 1))
    return [steps[0], *apart[stride - 1 :: stride], steps[-1]]


def _facts(run: TrainingRun) -> list[tuple[str, str]]:
    counts = {split: len(scenarios) for split, scenarios in run.scenarios.items()}
    attempts = len({str(step.get("attempt")) for step in run.steps})
    facts = [
        ("Seed", str(run.recipe.get("seed"))),
        ("Steps", f"{run.last}" + (f" of {run.planned}" if run.planned not in (None, run.last) else "")),
        ("Trained on", f"{counts['train']:,} scenarios" if "train" in counts else ""),
        ("Held out", f"{counts['held_out']:,} scenarios" if "held_out" in counts else ""),
        ("Started", f"{attempts} times" if attempts > 1 else ""),
        ("Hash of the settings", str(run.settings.get("hash") or "")),
        ("heartloop", str(run.settings.get("heartloop") or "")),
    ]
    return [(name, value) for name, value in facts if value]


def training_tables(runs: Sequence[Path]) -> list[Group]:
    """A table for the terminal for each environment that was trained on; folders of evaluations are left out."""
    return [_table(page) for page in pages_of([read_training_run(run) for run in runs if is_training_run(run)])]


def _table(page: TrainingPage) -> Group:
    from rich.text import Text

    def way(course: Course | None, digits: int) -> str:
        return "–" if course is None else f"{course['first'].mean:.{digits}f}\n→ {course['last'].mean:.{digits}f}"

    scale = f", points from {page.scale.low:g} to {page.scale.high:g}" if page.scale else ""
    lines = [f"First → last; all but the held-out score are smoothed.{' Mean over seeds, lowest to highest.' * (page.seeds > 1)}"]
    if calls := sum(row["calls"] for row in page.summaries):
        costs = [row["cost"] for row in page.summaries if row["cost"] is not None]
        cost = f", cost {sum(costs):.2f}" if len(costs) == len(page.summaries) else ""
        tokens = sum(row["tokens"] for row in page.summaries)
        lines.append(f"User simulator and judges: {calls:,.0f} calls, {tokens:,.0f} tokens{cost}.")
    title = f"Training on {page.environment or 'an unknown environment'}{scale}"
    table = terminal_table()
    table.add_column("recipe", overflow="fold", min_width=12)
    for head in ("seeds", "steps", "held out", "change", "training", "tokens\na reply", "failed"):
        table.add_column(head, justify="right", no_wrap=True, style="bold" if head == "change" else None)
    for row in page.summaries:
        change = row["held_out"] and row["held_out"]["change"]
        ends = f"\n{change.low:+.1f} to\n{change.high:+.1f}" if change and change.n > 1 else ""
        cells = (
            row["arm"].name,
            str(len(row["arm"].runs)),
            row["steps"].replace(" of", "\nof"),
            way(row["held_out"], 1),
            f"{change.mean:+.1f}{ends}" if change else "–",
            way(row["score"], 1),
            way(row["reply_tokens"], 0),
            f"{row['failed_share']:.1%}" if row["failed"] else "0",
        )
        table.add_row(*map(Text, cells))
    return with_notes(title, table, [*lines, *page.notes])
