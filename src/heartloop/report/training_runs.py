"""Training runs as values: settings and steps of each, and which of them are the same but for their seed.

Covers reading `settings.json` and `metrics.jsonl`, curves of a metric, and names for what differs. Does not cover training
(`heartloop.training`), smoothing (`curves`) or what stands on the page (`training_page`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import InputError
from heartloop.core.steps import read_steps
from heartloop.core.wording import amount
from heartloop.environments.registry import environment_names
from heartloop.environments.spec import Scale
from heartloop.evaluation.measures import scale_of

__all__ = ["Arm", "TrainingRun", "arms_of", "is_training_run", "read_training_run", "settings_lines"]

_UNDECISIVE = ("about", "watching", "machine", "variants")
"""Sections of a recipe that change no result, as its hash has it."""

_MOST_TOLD = 3
"""Settings that an arm's name tells; the page has a table of all that differ."""
_COUNTED = ("dialogue/counts/", "dialogue/stops/")
"""Metrics that are logged only where there is something to count."""


class TrainingRun(NamedTuple):
    """One run: what was to be done, and the steps that were made."""

    path: Path
    settings: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    raw: str
    """`settings.json` as text."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.settings["recipe"]
        return found

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
    def measure(self) -> Scale | None:
        """How its environment's score is read; `None` where it is unknown here."""
        name = str(_at(self.recipe, "dialogue.environment"))
        return scale_of(name) if name in environment_names() else None

    @property
    def logged(self) -> frozenset[str]:
        """Names of the metrics with a number in some step."""
        return frozenset(name for step in self.steps for name, value in step["data"].items() if _is_number(value))

    def curve(self, name: str, *, points: float = 1.0) -> dict[int, float]:
        """A metric by step, times `points`; steps without a finite number are left out.

        A count or a way to end that is not logged in a step with dialogues did not occur in it: 0.
        """
        found = {}
        for step in sorted(self.steps, key=lambda one: int(one["step"])):
            counted = name.startswith(_COUNTED) and "dialogue/scored" in step["data"]
            value = step["data"].get(name, 0.0 if counted else None)
            if _is_number(value):
                found[int(step["step"])] = float(value) * points
        return found

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
    """Runs that differ in nothing but their seed."""

    name: str
    """The recipe, and what tells it from the others."""
    runs: tuple[TrainingRun, ...]

    @property
    def first(self) -> TrainingRun:
        return self.runs[0]


def is_training_run(path: Path) -> bool:
    """Whether a folder is a training run's, and not an evaluation's: its settings hold a recipe."""
    try:
        settings = json.loads((path / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(settings, dict) and isinstance(settings.get("recipe"), dict)


def read_training_run(path: Path) -> TrainingRun:
    """A training run's folder; one that has made no step yet has no steps.

    Raises:
        InputError: it is no training run, or one of its files does not fit.
    """
    if not is_training_run(path):
        raise InputError(f"{path} is no training run; expected a settings.json with a recipe in it")
    raw = (path / "settings.json").read_text(encoding="utf-8")
    metrics = path / "metrics.jsonl"
    steps = read_steps(metrics) if metrics.is_file() else []
    return TrainingRun(path, json.loads(raw), tuple(steps), raw)


def arms_of(runs: Sequence[TrainingRun]) -> list[Arm]:
    """Runs put together that differ in their seed alone, in the order of their first appearance, each with a name of its own.

    Arms of one recipe are named by the variants they follow, and where that does not tell them apart by the settings in which
    they differ. Runs of one seed and the same settings are seeds of one arm, too: on a machine two runs are rarely alike.
    """
    groups: dict[str, list[TrainingRun]] = {}
    for run in runs:
        decisive = {name: value for name, value in run.recipe.items() if name not in (*_UNDECISIVE, "seed")}
        people = run.settings.get("people")
        groups.setdefault(json.dumps([decisive, people], sort_keys=True), []).append(run)
    members = list(groups.values())
    names = [_name(group[0]) for group in members]
    flats = [dict(_flat({n: v for n, v in g[0].recipe.items() if n not in (*_UNDECISIVE, "seed")})) for g in members]
    arms = []
    for group, name, mine in zip(members, names, flats, strict=True):
        rivals = [flat for other, flat in zip(names, flats, strict=True) if other == name]
        told = [
            f"{key} {_words(mine.get(key))}"
            for key in sorted({key for flat in rivals for key in flat})
            if len({_words(flat.get(key)) for flat in rivals}) > 1
        ]
        if len(told) > _MOST_TOLD:
            told[_MOST_TOLD:] = [amount(len(told) - _MOST_TOLD, "more setting")]
        arms.append(Arm(f"{name} ({', '.join(told)})" if told else name, tuple(group)))
    taken = [arm.name for arm in arms]
    return [arm._replace(name=f"{arm.name} · {arm.first.name}") if taken.count(arm.name) > 1 else arm for arm in arms]


def settings_lines(run: TrainingRun) -> list[tuple[str, str]]:
    """Every setting of its recipe by dotted name, variants left aside, as a reader may copy it."""
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
