"""Training runs as values: settings, steps, runs that differ only in their seed, curves, and the metrics that are drawn.

Scores are in the points of the leaderboard. Metrics are those of verl and `heartloop.training`, and the terms that an environment
declares (`Training.metrics`).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.blocks import Point, Series
from heartloop.core.errors import InputError
from heartloop.core.system import read_steps
from heartloop.core.text import amount
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.training import TrainingMetric

_UNDECISIVE = ("about", "watching", "machine", "variants")
"""Sections of a recipe that change no result and are no part of its hash."""

_MOST_NAMED = 3
"""Settings in an arm's name; the page has a table of all that differ."""
_COUNTED = ("dialogue/counts/", "dialogue/stops/")
"""Metrics that are logged only where there is something to count."""


class TrainingRun(NamedTuple):
    """One run: its settings, and the steps that were made."""

    path: Path
    settings: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    raw: str
    """`settings.json` as text."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        recipe: Mapping[str, Any] = self.settings["recipe"]
        return recipe

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def seed(self) -> object:
        return self.recipe.get("seed")

    @property
    def last(self) -> int:
        """The last step that was made."""
        return max((int(step["step"]) for step in self.steps), default=0)

    @property
    def planned(self) -> int | None:
        """Steps that the recipe asks for."""
        found = _at(self.recipe, "batch.steps")
        return found if type(found) is int else None

    @property
    def saved_every(self) -> int:
        """Steps between two checkpoints; 0 where only the last step has one."""
        found = _at(self.recipe, "watching.save_every")
        return found if type(found) is int and found > 0 else 0

    @property
    def environment(self) -> str:
        """Name of its environment; empty where the settings have none."""
        return str(_at(self.recipe, "environment.name") or "")

    @property
    def spec(self) -> EnvironmentSpec | None:
        """Its environment; `None` where it is not installed."""
        return load_environment(self.environment) if self.environment in environment_names() else None

    @property
    def scenarios(self) -> Mapping[str, Mapping[str, str]]:
        """Fingerprints by scenario id of each split."""
        splits = self.settings.get("scenarios")
        if not isinstance(splits, Mapping):
            return {}
        return {str(split): found for split, found in splits.items() if isinstance(found, Mapping)}

    @property
    def logged(self) -> frozenset[str]:
        """Names of the metrics with a number in some step."""
        return frozenset(name for step in self.steps for name, value in step["data"].items() if _is_number(value))

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
        """A metric in sum over all steps."""
        return math.fsum(self.curve(name).values())

    @property
    def not_finite(self) -> dict[str, int]:
        """Metrics that became nan or infinite, with the first step where."""
        found: dict[str, int] = {}
        for step in self.steps:
            for name, value in step["data"].items():
                if isinstance(value, float) and not math.isfinite(value):
                    found.setdefault(name, int(step["step"]))
        return found


class Arm(NamedTuple):
    """Runs that differ only in their seed."""

    name: str
    """The recipe, and what distinguishes it from the others."""
    runs: tuple[TrainingRun, ...]

    @property
    def first(self) -> TrainingRun:
        return self.runs[0]


def is_training_run(path: Path) -> bool:
    """Whether a folder holds a training run and not an evaluation: its settings have a recipe."""
    try:
        settings = json.loads((path / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(settings, dict) and isinstance(settings.get("recipe"), dict)


def read_training_run(path: Path) -> TrainingRun:
    """A training run; one that has made no step yet has no steps."""
    if not is_training_run(path):
        raise InputError(f"{path} is no training run; expected a settings.json with a recipe")
    raw = (path / "settings.json").read_text(encoding="utf-8")
    metrics = path / "metrics.jsonl"
    steps = read_steps(metrics) if metrics.is_file() else []
    return TrainingRun(path, json.loads(raw), tuple(steps), raw)


def arms_of(runs: Sequence[TrainingRun]) -> list[Arm]:
    """Runs grouped by all settings but the seed, in the order of their first appearance, each group with its own name.

    Arms of one recipe are named by the variants whose settings they have; where that is ambiguous, by the settings in which
    they differ. Runs of one seed and the same settings belong to one arm, too: two runs are rarely identical.
    """
    groups: dict[str, list[TrainingRun]] = {}
    for run in runs:
        decisive = {name: value for name, value in run.recipe.items() if name not in (*_UNDECISIVE, "seed")}
        groups.setdefault(json.dumps([decisive, run.scenarios], sort_keys=True), []).append(run)
    members = list(groups.values())
    names = [_name(group[0]) for group in members]
    flats = [dict(_flat({n: v for n, v in g[0].recipe.items() if n not in (*_UNDECISIVE, "seed")})) for g in members]
    arms = []
    for group, name, mine in zip(members, names, flats, strict=True):
        rivals = [flat for other, flat in zip(names, flats, strict=True) if other == name]
        differ = [
            f"{key} {_words(mine.get(key))}"
            for key in sorted({key for flat in rivals for key in flat})
            if len({_words(flat.get(key)) for flat in rivals}) > 1
        ]
        if len(differ) > _MOST_NAMED:
            differ[_MOST_NAMED:] = [amount(len(differ) - _MOST_NAMED, "more setting")]
        arms.append(Arm(f"{name} ({', '.join(differ)})" if differ else name, tuple(group)))
    taken = [arm.name for arm in arms]
    return [arm._replace(name=f"{arm.name} · {arm.first.name}") if taken.count(arm.name) > 1 else arm for arm in arms]


def settings_lines(run: TrainingRun) -> list[tuple[str, str]]:
    """Every setting of its recipe by dotted name, without the variants, as text to copy."""
    return [(name, _words(value)) for name, value in _flat({n: v for n, v in run.recipe.items() if n != "variants"})]


def _name(run: TrainingRun) -> str:
    """The recipe's name, and the variants whose settings it has."""
    variants = run.recipe.get("variants")
    followed = [
        name
        for name, changes in (variants.items() if isinstance(variants, Mapping) else ())
        if isinstance(changes, Mapping) and changes and all(_at(run.recipe, key) == value for key, value in changes.items())
    ]
    return " ".join([str(run.recipe.get("name", run.name)), *followed])


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _at(values: Mapping[str, Any], name: str) -> Any:
    """A value by its dotted name; `None` where there is none."""
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def _words(value: object) -> str:
    if value is None or value in ([], {}, ""):
        return "–"
    if isinstance(value, str):
        return value
    if type(value) is float:
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300  # type: ignore[operator]


SMOOTHING = 0.8
"""Weight of the previous value (EIBench, Figure 4)."""

Curve = Mapping[int, float]
"""A value by step, in the order of the steps; steps without a number are missing."""


class Band(NamedTuple):
    """One metric of runs that differ only in their seed, at the steps that all of them have."""

    raw: Curve
    """Mean over the seeds."""
    mean: Curve
    """The same, smoothed."""
    low: Curve
    """Lowest of the seeds' smoothed curves."""
    high: Curve
    seeds: int


def smoothed(curve: Curve, weight: float = SMOOTHING) -> dict[int, float]:
    """The exponential moving average; it starts at the first value.

    >>> smoothed({1: 0.0, 2: 10.0, 4: 10.0})
    {1: 0.0, 2: 2.0, 4: 3.6}
    """
    values: dict[int, float] = {}
    last: float | None = None
    for step, value in curve.items():
        last = value if last is None else weight * last + (1.0 - weight) * value
        values[step] = round(last, 12)
    return values


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
    """A band as the series of a chart: the smoothed mean, the lowest and highest of several seeds, and the raw mean."""
    several = band.seeds > 1
    points = tuple(
        Point(step, value, band.low[step] if several else None, band.high[step] if several else None)
        for step, value in band.mean.items()
    )
    raw = () if band.raw == band.mean else tuple(Point(step, value) for step, value in band.raw.items())
    return Series(name, points, model, raw)


HELD_OUT = "held_out/score"
SCORE = "dialogue/score"
_TURN = "dialogue/reply_tokens/turn_"
_TERMS = "terms"
"""The group of the terms of the reward."""


class Metric(NamedTuple):
    """One curve."""

    name: str
    """As it is logged; the name of a family ends with `/`."""
    title: str
    unit: str
    """In words, at the axis; empty for a bare number."""
    about: str
    """What it tells, in a sentence or two."""
    source: str = "ours"
    score: bool = False
    """Whether it is a score, in points."""
    quiet: bool = False
    """A count of failures: drawn only where one occurred."""
    unsmoothed: bool = False
    """Drawn as logged: it rests on all held-out scenarios, or is set and not measured."""
    explained_as: str = ""
    """Whose entry of the page of meanings explains it, where that is not `name`."""

    @property
    def entry(self) -> str:
        """Id of its entry on the page of meanings; members of a family share one.

        >>> Metric("held_out/score", "Held-out score", "points", "").entry
        'train-held_out-score'
        """
        return "train-" + (self.explained_as or self.name).replace("/", "-")


class MetricGroup(NamedTuple):
    """Curves that belong together."""

    id: str
    title: str
    help: str
    metrics: tuple[Metric, ...]


GROUPS: tuple[MetricGroup, ...] = (
    MetricGroup("learned", "What is learned",
        "Held-out scenarios are never trained on. The training score also varies with the scenarios that a step draws.",
        (
            Metric(HELD_OUT, "Held-out score", "points",
                "Mean score over the held-out scenarios, each played once, with the policy sampled as in training.", score=True,
                unsmoothed=True),
            Metric(SCORE, "Training score", "points", "Mean score of the step’s training dialogues.", score=True),
            Metric("dialogue/return", "Reward", "",
                "Return of a rollout for the optimiser: the outcome reward, the sum of the turn rewards, or the mean of both.",
                "CTC-GRPO paper, Eq. 4; RLVER, Section 2.1 and Appendix H"),
        ),
    ),
    MetricGroup("groups", "By group of scenarios",
        "The same scores by group of the scenarios. A step draws few scenarios of each, so single steps vary widely.",
        (
            Metric("held_out/score/", "Held out", "points", "Held-out score of the scenarios of one group.", score=True,
                unsmoothed=True),
            Metric("dialogue/score/", "Training", "points", "Training score of the scenarios of one group.", score=True),
        ),
    ),
    MetricGroup(_TERMS, "Terms of the reward",
        "A reward can rise by one term alone. A term that falls while the reward rises was traded for it.",
        (
            Metric("held_out/parts/", "Held-out term", "", "Mean over the held-out scenarios.", unsmoothed=True),
            Metric("dialogue/parts/", "Training term", "", "Mean over the step’s training dialogues."),
        ),
    ),
    MetricGroup("talks", "Dialogues",
        "Rising length with a flat score is the most common way to satisfy a rule without a better reply.",
        (
            Metric("dialogue/turns", "Replies a dialogue", "replies", "Mean number of policy replies in a dialogue."),
            Metric("dialogue/reply_tokens", "Tokens a reply", "tokens",
                "Tokens sampled for a reply, thinking included; the mean over all replies of a step."),
            Metric("dialogue/said_to_others", "Said to others", "share",
                "Share of a step’s replies that were said word for word in another scenario too. Near 1: the policy has found "
                "one reply that pays with everybody."),
            Metric("dialogue/said_before", "Said before", "share",
                "Share of a step’s replies that the same dialogue has already."),
            Metric("dialogue/stops/", "Ended by", "share",
                "Share of a step’s dialogues with this end: success, failure, goodbye, or the turn limit."),
            Metric("dialogue/counts/silences", "Silences", "a step",
                "Replies that reached the user empty. They are scored as silence.", quiet=True),
            Metric("dialogue/counts/truncated", "Truncated replies", "a step", "Replies that reached the token limit of a reply.",
                quiet=True),
            Metric("dialogue/counts/broken_format", "Broken format", "a step",
                "Dialogues with a reply that is not thinking followed by text, where the recipe requires it. They have the "
                "lowest reward.", "RLVER, Appendix A.5", quiet=True),
        ),
    ),
    MetricGroup("optimiser", "Optimiser",
        "Entropy near 0: the policy repeats one reply. A jump of the KL: the updates are too large. A group spread near 0: "
        "there is nothing to learn from.",
        (
            Metric("dialogue/group_std", "Spread within a group", "",
                "Standard deviation of the rewards of one scenario’s rollouts, the mean over the scenarios of a step: what GRPO "
                "and CTC-GRPO compare. Below the floor sigma_min the floor is used.", "CTC-GRPO paper, Eq. 5"),
            Metric("actor/entropy", "Entropy", "nats", "Of the policy’s next-token distribution, mean over its tokens.", "verl"),
            Metric("actor/ppo_kl", "KL within a step", "nats",
                "Divergence of the policy after the updates of a step from the one that sampled the replies.", "verl"),
            Metric("actor/kl_loss", "KL from the reference", "nats",
                "Divergence of the policy from the one before training; only where the recipe weighs it (algorithm.kl).", "verl"),
            Metric("actor/pg_clipfrac", "Tokens clipped", "share",
                "Share of tokens whose importance ratio left the clip range; they add no further gradient.", "verl"),
            Metric("actor/grad_norm", "Gradient norm", "", "Of the policy, before it is scaled down to the maximum.", "verl"),
            Metric("actor/lr", "Learning rate", "", "Of the policy, by the schedule.", "verl", unsmoothed=True),
            Metric("critic/vf_loss", "Critic’s loss", "", "Squared error of the critic’s values. PPO only.", "verl"),
            Metric("critic/vf_explained_var", "Critic’s explained variance", "",
                "1: the critic predicts the returns exactly; 0: it predicts nothing. PPO only.", "verl"),
        ),
    ),
    MetricGroup("failures", "Failures",
        "A failed dialogue is left out of its group; it never counts as zero. Counts that are 0 throughout are not drawn.",
        (
            Metric("dialogue/failed", "Failed dialogues", "a step",
                "Dialogues in which the user simulator, a judge or the connection failed.", quiet=True),
            Metric("dialogue/lone_groups", "Groups of one", "a step",
                "Scenarios with a single rollout left: nothing to compare, no gradient.", quiet=True),
            Metric("training/skipped_updates", "Steps without an update", "a step",
                "1 where no scenario of a step had two rollouts, so that the policy was not updated.", quiet=True),
            Metric("dialogue/counts/clamped_changes", "Clamped changes", "a step",
                "Changes of a state beyond the largest that a turn may make; they were cut to it.", quiet=True),
            Metric("dialogue/counts/", "Counted", "a step",
                "Further counts of an environment or the rollouts: states at their limit, prompts that grew too long "
                "(overflows), answers that were asked for again (re-asks), replies encoded again.", quiet=True),
        ),
    ),
    MetricGroup("spent", "Cost",
        "Calls of the user simulator and the judges are those of the training dialogues, without held-out evaluations.",
        (
            Metric("user/calls", "Calls", "a step", "Calls to the models that play the roles beside the policy.", quiet=True),
            Metric("user/prompt_tokens", "Prompt tokens", "a step", "Tokens sent to those models.", quiet=True),
            Metric("user/completion_tokens", "Completion tokens", "a step", "Tokens of their answers.", quiet=True),
            Metric("user/cost", "Cost", "a step", "In the currency of watching.prices, where the recipe has them.", quiet=True),
            Metric("perf/reply_tokens_per_second", "Reply tokens per second", "tokens/s",
                "Tokens sampled from the policy, by the seconds in which the step’s dialogues were played."),
            Metric("perf/throughput", "Tokens per second and device", "tokens/s",
                "Prompts and replies of all samples, by the seconds of the whole step, for one device.", "verl"),
            Metric("timing_s/step", "Seconds a step", "s", "Wall-clock time, checkpoints and evaluations included.", "verl"),
            Metric("timing_s/gen", "Seconds of rollouts", "s", "Wall-clock time of the step’s dialogues.", "verl"),
            Metric("timing_s/update_actor", "Seconds of updates", "s", "Wall-clock time of the policy’s updates.", "verl"),
        ),
    ),
)  # fmt: skip
"""In the order of the page."""


_SPLITS = (("held_out", "Held out", "the held-out scenarios"), ("dialogue", "Training", "the step’s dialogues"))


def groups_of(environment: str, terms: Sequence[TrainingMetric]) -> list[MetricGroup]:
    """The groups with the terms that an environment declares, held out and in training side by side."""
    declared = []
    for term in terms:
        for where, title, over in _SPLITS:
            name = f"{where}/parts/{term.name}"
            about = f"{term.about} Mean over {over}."
            words = f"{title}: {term.title}", term.unit, about, term.source
            declared.append(Metric(name, *words, unsmoothed=where == "held_out", explained_as=f"{environment}/{name}"))
    return [group._replace(metrics=(*declared, *group.metrics)) if group.id == _TERMS else group for group in GROUPS]


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


def turn_lengths(data: Mapping[str, float]) -> Sequence[float]:
    """Mean tokens of the first, second, ... reply of a step's dialogues.

    >>> turn_lengths({"dialogue/reply_tokens/turn_2": 8.0, "dialogue/reply_tokens/turn_1": 9.0, "dialogue/turns": 2.0})
    [9.0, 8.0]
    """
    lengths: list[float] = []
    while (name := f"{_TURN}{len(lengths) + 1}") in data:
        lengths.append(data[name])
    return lengths
