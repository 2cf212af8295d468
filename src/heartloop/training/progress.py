"""The steps of a run: verl's lines of all attempts as one file, and a line to read for each step.

Covers `metrics.jsonl` of a run, what follows from verl's numbers (held-out means over all scenarios, reply tokens per second, the
cost of the user), failed dialogues, the time left. Does not cover verl's file logger, nor curves (`heartloop.report`).

A run that was interrupted and resumed made the steps since its last checkpoint twice: those of the later attempt count.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.steps import read_steps
from heartloop.core.system import write_whole
from heartloop.core.wording import clock
from heartloop.models.budget import Price
from heartloop.scoring.repeats import REPEATED
from heartloop.training.verl_config import CHECKPOINT_METRICS, RunPaths

__all__ = ["Failures", "MetricsFile", "failures_of", "read_metrics", "step_line"]

_RECENT = 10
"""Steps whose mean duration gives the time left."""

_NO_TERMS = {"return", "reward", "turns"}
"""What verl's validation logs beside scores and the environment's terms."""


class Failures(NamedTuple):
    """Training dialogues, and how many of them an instrument failed in."""

    failed: int
    dialogues: int

    @property
    def share(self) -> float:
        """0 without dialogues."""
        return self.failed / self.dialogues if self.dialogues else 0.0


class MetricsFile:
    """Writes the run's `metrics.jsonl`: a line a step with `step`, `attempt` and `data`.

    Starts with the lines known up to the step `resumed`; lines of later steps are dropped. A line that a kill kept out of the
    file is taken from the attempt that logged it, or, where the kill came between checkpoint and log, from the checkpoint, which
    has the step's numbers but no evaluation after it.

    Args:
        resumed: the step whose checkpoint the next attempt starts from.
        held_out: number of held-out scenarios by group: the weights of the held-out mean.
        price: of the user's tokens; without one no cost is logged.
    """

    def __init__(
        self, paths: RunPaths, *, resumed: int, environment: str, held_out: Mapping[str, int], price: Price | None = None
    ) -> None:
        self._file, self._resumed = paths.metrics, resumed
        self._held_out = held_out
        self._price = price
        self._mean = re.compile(rf"val-(?:core|aux)/{re.escape(environment)}_([^/]+)/([^/]+)/mean@\d+")
        known = {line["step"]: line for line in read_metrics(paths.run)} if paths.metrics.exists() else {}
        attempts = sorted(paths.attempts.glob("*/metrics.jsonl"))
        logged = {line["step"]: self._line(line, file.parent.name) for file in attempts for line in read_steps(file)}
        saved = {
            line["step"]: self._line(line, attempts[-1].parent.name if attempts else "")
            for file in (paths.checkpoints / f"global_step_{resumed}").glob(CHECKPOINT_METRICS)
            for line in read_steps(file)
        }
        lines = sorted((saved | logged | known).items())
        write_whole(self._file, "".join(json.dumps(line) + "\n" for step, line in lines if resumed and step <= resumed))

    def follow(self, attempt: Path) -> Iterator[list[dict[str, Any]]]:
        """At each step of the iterator, the lines that verl wrote in an attempt since the last one, as written. Endless."""
        source, read = attempt / "metrics.jsonl", 0
        while True:
            lines = []
            for raw in _whole_lines(source, read):
                read += len(raw)
                line = json.loads(raw)
                if line["step"] <= self._resumed and self._resumed:
                    continue  # verl repeats the evaluation that it resumes at
                lines.append(self._line(line, attempt.name))
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
            yield lines

    def _line(self, line: Mapping[str, Any], attempt: str) -> dict[str, Any]:
        data = line["data"]
        return {"step": line["step"], "attempt": attempt, "data": data | self._held_out_means(data) | self._speed_and_cost(data)}

    def _held_out_means(self, data: Mapping[str, Any]) -> dict[str, float]:
        by_name: dict[str, dict[str, float]] = {}
        for name, value in data.items():
            if value is not None and (match := self._mean.fullmatch(name)):
                by_name.setdefault(match[2], {})[match[1]] = float(value)
        scores = by_name.pop("score", {})
        if not scores:
            return {}
        means = {f"held_out/score/{group}": score for group, score in scores.items()}
        if (mean := _mean_of(scores, self._held_out)) is not None:
            means["held_out/score"] = mean
        form = by_name.get("form", {})  # dialogues whose form was broken have no other term
        in_form = {group: number * form.get(group, 1.0) for group, number in self._held_out.items()}
        for name in by_name.keys() - _NO_TERMS:
            weights = self._held_out if name == "form" else in_form
            if (mean := _mean_of(by_name[name], weights)) is not None:
                means[f"held_out/parts/{name}"] = mean
        return means

    def _speed_and_cost(self, data: Mapping[str, Any]) -> dict[str, float]:
        derived = {}
        if data.get("dialogue/tokens") and data.get("timing_s/gen"):
            derived["perf/reply_tokens_per_second"] = data["dialogue/tokens"] / data["timing_s/gen"]
        if self._price is not None and data.get("user/calls") is not None:
            derived["user/cost"] = self._price.of(data["user/prompt_tokens"], data["user/completion_tokens"])
        return derived


def _mean_of(values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    weight = sum(weights.get(name, 0) for name in values)
    return sum(weights.get(name, 0) * value for name, value in values.items()) / weight if weight else None


def _whole_lines(file: Path, start: int) -> Iterator[bytes]:
    if not file.exists():
        return
    with file.open("rb") as lines:
        lines.seek(start)
        for line in lines:
            if not line.endswith(b"\n"):
                return  # half written
            yield line


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, as `steps.read_steps` has them."""
    return read_steps(RunPaths(run).metrics)


def failures_of(lines: list[dict[str, Any]]) -> Failures:
    """Failures over all training steps."""
    failed = sum(int(line["data"].get("dialogue/failed") or 0) for line in lines)
    scored = sum(int(line["data"].get("dialogue/scored") or 0) for line in lines)
    return Failures(failed, failed + scored)


def step_line(lines: list[dict[str, Any]], *, steps: int) -> str:
    """The last step in a line, with what the steps before it say of the time left."""
    data = lines[-1]["data"]
    parts = [f"step {lines[-1]['step']}/{steps}"]
    shown = (
        ("score", "dialogue/score", "{:+.3f}"),
        ("held out", "held_out/score", "{:+.3f}"),
        ("reply", "dialogue/reply_tokens", "{:.0f} tokens"),
        ("entropy", "actor/entropy", "{:.2f}"),
        ("kl", "actor/kl_loss", "{:.4f}"),
    )
    parts += [f"{name} {form.format(data[key])}" for name, key, form in shown if data.get(key) is not None]
    if (repeated := data.get("dialogue/said_to_others") or 0.0) >= REPEATED:
        parts.append(f"{repeated:.0%} of the replies said to others too")
    if failed := int(data.get("dialogue/failed") or 0):
        parts.append(f"{failed} failed")
    recent = [line["data"]["timing_s/step"] for line in lines if "timing_s/step" in line["data"]][-_RECENT:]
    if recent:
        seconds = statistics.fmean(recent)
        parts.append(f"{seconds:.1f} s a step")
        if left := steps - lines[-1]["step"]:
            parts.append(f"{clock(seconds * left)} left")
    return "  ".join(parts)
