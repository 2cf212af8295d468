"""Scores of other tasks in Inspect logs, for `integrations.harness`.

Covers reading a finished log by item and scorer. Does not cover our own tasks' logs, which `export` writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log

from heartloop.core.errors import InputError
from heartloop.integrations.harness import Item, TaskResult

__all__ = ["read_log"]

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Correct, incorrect, partial, no answer: the values of Inspect's scorers."""


def read_log(path: Path) -> list[TaskResult]:
    """A result for each scorer of a log, `scorer`, or `scorer/key` where its value has several.

    Raises:
        InputError: it cannot be read, is not finished, or holds no samples.
    """
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # pydantic, zip and JSON errors alike
        raise InputError(f"{path} cannot be read as an Inspect log ({type(error).__name__}: {error})") from error
    if log.status != "success":
        raise InputError(f"{path} has status {log.status!r}; expected a finished log, run its evaluation again")
    if not log.samples:
        raise InputError(f"{path} holds no samples; expected a log with them (inspect eval --log-samples)")
    by_metric: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = {str(sample.id) for sample in log.samples}
    for sample in log.samples:
        for metric, value in _values(sample.scores or {}):
            by_metric[metric][str(sample.id)].append(value)
    epochs = log.eval.config.epochs or 1
    results = []
    for metric, values in by_metric.items():
        items = {name: Item(sum(each), len(each), len(each)) for name, each in values.items() if len(each) == epochs}
        if items:
            mean = sum(item.rate for item in items.values()) / len(items)
            task = log.eval.task.rpartition("/")[2]
            unscored = len(names - items.keys())
            results.append(TaskResult("inspect", task, metric, mean, None, len(items), items, _settings(log), unscored, (path,)))
    if not results:
        raise InputError(f"{path} holds no score that is a number; expected scores of {log.eval.task}")
    return results


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for scorer, score in scores.items():
        parts = score.value.items() if isinstance(score.value, Mapping) else [("", score.value)]
        for key, value in parts:
            number = _LETTERS.get(value) if isinstance(value, str) else value
            if isinstance(number, (bool, int, float)) and number >= 0:
                yield (f"{scorer}/{key}" if key else scorer), float(number)


def _settings(log: EvalLog) -> dict[str, Any]:
    asked = {
        **log.eval.model_generate_config.model_dump(),
        **{k: v for k, v in log.plan.config.model_dump().items() if v is not None},
    }
    settings = {name: asked.get(name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
    settings |= {"version": log.eval.task_version, "limit": log.eval.config.limit}
    return {name: value for name, value in settings.items() if value is not None}
