"""What a run's steps came to: verl's lines of all attempts as one file, and a line to read for each step.

Covers `metrics.jsonl` of a run, what follows from verl's numbers (held-out means over all people, reply tokens per second, the
simulator's cost), failures of the simulator, the time that is left. Does not cover who writes verl's lines (verl's file
logger), nor curves (`heartloop.analysis`).

A run that was cut off and gone on with made the steps since its last checkpoint twice: those of the later attempt count.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.spending import Price
from heartloop.steps import read_steps
from heartloop.training.verl_config import RunPaths

__all__ = ["Failures", "MetricsFile", "failures_of", "read_metrics", "step_line"]

_RECENT = 10
"""Steps by whose duration the time left is told."""


class Failures(NamedTuple):
    """Training dialogues, and how many of them an instrument failed in."""

    failed: int
    dialogues: int

    @property
    def share(self) -> float:
        """0 where none was played."""
        return self.failed / self.dialogues if self.dialogues else 0.0


class MetricsFile:
    """Follows one attempt and writes the run's `metrics.jsonl`: a line a step with `step`, `attempt` and `data`.

    Args:
        resumed: the step whose checkpoint the attempt begins with; lines of later steps are taken out first.
        held_out: people held out, by scene or intention: the weights of the held-out mean.
        price: of the simulator; without one nothing is said of cost.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: Path,
        *,
        resumed: int,
        environment: str,
        held_out: Mapping[str, int],
        price: Price | None = None,
    ) -> None:
        self._file, self._source = paths.metrics, attempt / "metrics.jsonl"
        self._attempt, self._resumed = attempt.name, resumed
        self._held_out = held_out
        self._price = price
        self._mean = re.compile(rf"val-(?:core|aux)/{re.escape(environment)}_(.+)/score/mean@\d+")
        self._read = 0
        kept = [line for line in read_metrics(paths.run) if line["step"] <= resumed] if paths.metrics.exists() else []
        part = self._file.with_suffix(".part")
        part.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        part.replace(self._file)

    def news(self) -> Iterator[dict[str, Any]]:
        """Lines that verl wrote since the last look, as they are kept."""
        if not self._source.exists():
            return
        with self._source.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # half written
                self._read += len(line)
                found = json.loads(line)
                if found["step"] <= self._resumed and self._resumed:
                    continue  # verl evaluates again what it begins with
                found = {
                    "step": found["step"],
                    "attempt": self._attempt,
                    "data": found["data"] | self._held_out_means(found["data"]) | self._took(found["data"]),
                }
                with self._file.open("a", encoding="utf-8") as mine:
                    mine.write(json.dumps(found) + "\n")
                yield found

    def _held_out_means(self, data: Mapping[str, Any]) -> dict[str, float]:
        scenes = {
            match[1]: float(value) for name, value in data.items() if value is not None and (match := self._mean.fullmatch(name))
        }
        if not scenes:
            return {}
        weight = sum(self._held_out.get(scene, 0) for scene in scenes)
        mean = sum(self._held_out.get(scene, 0) * score for scene, score in scenes.items()) / weight if weight else None
        found = {f"held_out/score/{scene}": score for scene, score in scenes.items()}
        return found if mean is None else {"held_out/score": mean, **found}

    def _took(self, data: Mapping[str, Any]) -> dict[str, float]:
        found = {}
        if data.get("dialogue/tokens") and data.get("timing_s/gen"):
            found["perf/reply_tokens_per_second"] = data["dialogue/tokens"] / data["timing_s/gen"]
        if self._price is not None and data.get("simulator/calls") is not None:
            found["simulator/cost"] = self._price.of(data["simulator/prompt_tokens"], data["simulator/completion_tokens"])
        return found


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
    if failed := int(data.get("dialogue/failed") or 0):
        parts.append(f"{failed} failed")
    recent = [line["data"]["timing_s/step"] for line in lines if "timing_s/step" in line["data"]][-_RECENT:]
    if recent:
        seconds = statistics.fmean(recent)
        parts.append(f"{seconds:.1f} s a step")
        if left := steps - lines[-1]["step"]:
            parts.append(f"{_clock(seconds * left)} left")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
