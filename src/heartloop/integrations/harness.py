"""Results of evaluation harnesses: lm-evaluation-harness, LiveCodeBench's runner, and Inspect. Files of one task are its repeats.

lm-evaluation-harness writes `results_DATE.json`, and with `--log_samples` also `samples_TASK_DATE.jsonl`; without it there are
means and standard errors alone. An unreadable file is an error: without it, other items would be compared.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.errors import InputError

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # correct, incorrect, partial, no answer: the values of Inspect's scorers


class Item(NamedTuple):
    """Successes (`total`) and trials of an item of a task over all its repeats (`runs`)."""

    total: float
    of: float
    """Trials: repeats, or parts such as the instructions of a prompt."""
    runs: int = 1

    @property
    def rate(self) -> float:
        return self.total / self.of


class TaskResult(NamedTuple):
    harness: str
    """`lm-eval`, `inspect` or `livecodebench`."""
    task: str
    metric: str
    mean: float
    """From 0 to 1."""
    stderr: float | None
    n: int | None
    items: Mapping[str, Item]
    """By name; empty if only means are stored."""
    settings: Mapping[str, Any]
    """temperature, top_p, top_k, max_tokens, shots, version: those that are known."""
    unscored: int
    """Items of which some repeat has no score; they are left out."""
    files: tuple[Path, ...]


def read_results(path: Path) -> list[TaskResult]:
    """The results in a file, or in all files of a folder; repeats of a task are pooled."""
    patterns = ("results*.json", "*.eval", "*_eval_all.json")
    files = [path] if path.is_file() else sorted({file for name in patterns for file in path.rglob(name) if file.is_file()})
    found = [result for file in files for result in _read(file)]
    if not found:
        raise InputError(
            f"{path} {'has no result' if path.exists() else 'does not exist'}; expected results_*.json of "
            "lm-evaluation-harness, *.eval of Inspect, or *_eval_all.json of LiveCodeBench"
        )
    groups: dict[tuple[str, str, str], list[TaskResult]] = defaultdict(list)
    for one in found:
        groups[one.harness, one.task, one.metric].append(one)
    return [pooled(group) for group in groups.values()]


def pooled(repeats: Sequence[TaskResult]) -> TaskResult:
    """Repeats of one task as one result. Items that some repeat lacks are left out and counted as unscored.

    The standard error without items is the mean of the repeats': they share their items.
    """
    first = repeats[0]
    if len(repeats) == 1:
        return first
    every = set[str]().union(*(one.items for one in repeats))
    shared = [name for name in first.items if all(name in one.items for one in repeats)]
    items = {name: Item(*map(sum, zip(*(one.items[name] for one in repeats), strict=True))) for name in shared}
    errors = [one.stderr for one in repeats if one.stderr is not None]
    settings = {name: value for name, value in first.settings.items() if all(one.settings.get(name) == value for one in repeats)}
    return first._replace(
        mean=mean_rate(items.values()) if items else sum(one.mean for one in repeats) / len(repeats),
        stderr=sum(errors) / len(errors) if len(errors) == len(repeats) else None,
        n=len(items) or first.n,
        items=items,
        settings=settings,
        unscored=max(one.unscored for one in repeats) + len(every) - len(shared),
        files=tuple(file for one in repeats for file in one.files),
    )


def _read(path: Path) -> list[TaskResult]:
    try:
        if path.suffix == ".eval":
            return _inspect(path)
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, list):
            return _livecodebench(path, content)
        if isinstance(content, dict) and "eval" in content and "plan" in content:
            return _inspect(path)
        if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
            raise InputError(
                f"{path} has no results; expected a file of lm-evaluation-harness, Inspect or LiveCodeBench's runner"
            )
        return list(_lm_eval(path, content))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({type(error).__name__}: {error}); was its evaluation finished?") from error


def _inspect(path: Path) -> list[TaskResult]:
    """A result for each scorer of a log, `scorer`, or `scorer/key` where its value has several."""
    try:
        from inspect_ai.log import read_eval_log

        import heartloop.integrations.inspect  # noqa: F401 - says what to install
    except ModuleNotFoundError as error:
        raise InputError(f"{path} is an Inspect log: {error}") from error
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # pydantic, zip and JSON errors alike
        raise InputError(f"{path} cannot be read as an Inspect log ({type(error).__name__}: {error})") from error
    if log.status != "success":
        raise InputError(f"{path} has status {log.status!r}; expected a finished log, run its evaluation again")
    if not log.samples:
        raise InputError(f"{path} holds no samples; expected a log with them (inspect eval --log-samples)")
    by_metric: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in log.samples:
        for metric, value in _inspect_values(sample.scores or {}):
            by_metric[metric][str(sample.id)].append(value)
    epochs, task = log.eval.config.epochs or 1, log.eval.task.rpartition("/")[2]
    number = len({sample.id for sample in log.samples})
    asked = {**log.eval.model_generate_config.model_dump(), **_known(log.plan.config.model_dump())}
    settings = {name: asked.get(name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
    settings = _known({**settings, "version": log.eval.task_version, "limit": log.eval.config.limit})
    results = []
    for metric, values in by_metric.items():
        items = {name: Item(sum(each), len(each), len(each)) for name, each in values.items() if len(each) == epochs}
        if items:
            n, mean = len(items), mean_rate(items.values())
            results.append(TaskResult("inspect", task, metric, mean, None, n, items, settings, number - n, (path,)))
    if not results:
        raise InputError(f"{path} holds no score that is a number; expected scores of {log.eval.task}")
    return results


def _inspect_values(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for scorer, score in scores.items():
        parts = score.value.items() if isinstance(score.value, Mapping) else [("", score.value)]
        for key, value in parts:
            number = _LETTERS.get(value) if isinstance(value, str) else value
            if isinstance(number, (bool, int, float)) and number >= 0:
                yield (f"{scorer}/{key}" if key else scorer), float(number)


def _lm_eval(path: Path, content: Mapping[str, Any]) -> Iterator[TaskResult]:
    for task, metrics in content["results"].items():
        samples = _samples(path, task)
        settings = _lm_eval_settings(task, content)
        n = content.get("n-samples", {}).get(task, {}).get("effective")
        for name, value in metrics.items():
            metric, _, chosen = name.partition(",")
            if not chosen or metric.endswith("_stderr") or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            items, unscored = _by_item(samples, metric, chosen)
            mean = mean_rate(items.values()) if items else float(value)
            if not 0 <= mean <= 1:  # also nan
                raise InputError(f"{path}: {task}, {name} is {mean}; expected a share from 0 to 1")
            error = metrics.get(f"{metric}_stderr,{chosen}")
            stderr = float(error) if isinstance(error, (int, float)) and math.isfinite(error) else None
            yield TaskResult("lm-eval", task, name, mean, stderr, len(items) or n, items, settings, unscored, (path,))


def _samples(path: Path, task: str) -> list[Mapping[str, Any]]:
    file = path.with_name(f"samples_{task}_{path.stem.removeprefix('results_')}.jsonl")
    if not file.is_file():
        return []
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise InputError(f"{file}, line {number}: {error}; was its evaluation finished?") from error
    return rows


def _by_item(samples: Iterable[Mapping[str, Any]], metric: str, chosen: str) -> tuple[dict[str, Item], int]:
    items: dict[str, Item] = {}
    unscored = 0
    for row in samples:
        if row.get("filter", "none") != chosen or metric not in row:
            continue
        values = row[metric] if isinstance(row[metric], list) else [row[metric]]
        numbers = [float(value) for value in values if isinstance(value, (bool, int, float)) and 0 <= value <= 1]
        if len(numbers) < len(values) or not numbers:
            unscored += 1
            continue
        items[str(row["doc_id"])] = Item(sum(numbers), len(numbers))
    return items, unscored


def _lm_eval_settings(task: str, content: Mapping[str, Any]) -> dict[str, Any]:
    asked = content.get("configs", {}).get(task, {}).get("generation_kwargs") or {}
    greedy = asked.get("do_sample") is False or asked.get("temperature") == 0
    settings = {
        "temperature": 0.0 if greedy else asked.get("temperature"),
        "top_p": asked.get("top_p"),
        "top_k": asked.get("top_k"),
        "max_tokens": next((asked[name] for name in ("max_gen_toks", "max_new_tokens", "max_tokens") if name in asked), None),
        "shots": content.get("n-shot", {}).get(task),
        "version": content.get("versions", {}).get(task),
        "chat template": bool(content["chat_template"]) if "chat_template" in content else None,
        "questions": content.get("task_hashes", {}).get(task),
    }
    return _known(settings)


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _livecodebench(path: Path, rows: Sequence[Mapping[str, Any]]) -> list[TaskResult]:
    items = {str(row["question_id"]): Item(float(sum(row["graded_list"])), len(row["graded_list"])) for row in rows}
    runs = {name: item._replace(runs=int(item.of)) for name, item in items.items() if item.of}
    if not runs:
        raise InputError(f"{path} has no graded problem; expected the file of --evaluate")
    words = path.name.removesuffix("_eval_all.json").split("_")
    settings = {"temperature": float(words[-1])} if words[-1].replace(".", "", 1).isdigit() else {}
    unscored = len(items) - len(runs)
    mean = mean_rate(runs.values())
    return [TaskResult("livecodebench", "codegeneration", "pass@1", mean, None, len(runs), runs, settings, unscored, (path,))]


def mean_rate(items: Iterable[Item]) -> float:
    """Successes over trials, each item weighed by its trials in one run."""
    chosen = list(items)
    return sum(item.rate * item.of / item.runs for item in chosen) / sum(item.of / item.runs for item in chosen)
