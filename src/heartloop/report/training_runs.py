"""Training runs as values: settings and steps of each, and which of them differ only in their seed.

Covers reading `settings.json` and `metrics.jsonl`, curves of a metric, and names for what differs. Does not cover training
(`heartloop.training`), smoothing (`curves`) or the page (`training_page`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import InputError
from heartloop.core.system import read_steps
from heartloop.core.text import amount
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.spec import EnvironmentSpec

__all__ = ["Arm", "TrainingRun", "arms_of", "is_training_run", "read_training_run", "settings_lines"]

_UNDECISIVE = ("about", "watching", "machine", "variants")
"""Sections of a recipe that change no result and are no part of its hash."""

_RENAMED = {"simulator/": "user/"}
"""Prefixes of metric names in runs of earlier versions, and the present ones."""

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
    def environment(self) -> str:
        """Name of its environment; empty where the settings have none."""
        earlier = _at(self.recipe, "dialogue.environment")
        return str(_at(self.recipe, "environment.name") or earlier or "")

    @property
    def spec(self) -> EnvironmentSpec | None:
        """Its environment; `None` where it is not installed."""
        return load_environment(self.environment) if self.environment in environment_names() else None

    @property
    def scenarios(self) -> Mapping[str, Mapping[str, str]]:
        """Fingerprints by scenario id of each split."""
        splits = self.settings.get("scenarios", self.settings.get("people"))  # the latter in runs of earlier versions
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
    """A training run; one that has made no step yet has no steps. Metrics of earlier versions take their present names.

    Raises:
        InputError: it is no training run, or one of its files does not fit.
    """
    if not is_training_run(path):
        raise InputError(f"{path} is no training run; expected a settings.json with a recipe")
    raw = (path / "settings.json").read_text(encoding="utf-8")
    metrics = path / "metrics.jsonl"
    steps = read_steps(metrics) if metrics.is_file() else []
    renamed = ({**step, "data": {_present(name): value for name, value in step["data"].items()}} for step in steps)
    return TrainingRun(path, json.loads(raw), tuple(renamed), raw)


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


def _present(name: str) -> str:
    """The present name of a metric.

    >>> _present("simulator/calls"), _present("user/calls")
    ('user/calls', 'user/calls')
    """
    return next((new + name.removeprefix(old) for old, new in _RENAMED.items() if name.startswith(old)), name)


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
