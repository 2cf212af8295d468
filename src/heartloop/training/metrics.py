"""Numbers of a training run: of the dialogues of a step, and the run's `metrics.jsonl` made of verl's logs of all attempts."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.dialogue import COUNTS, Transcript, Usage, total_usage
from heartloop.core.system import read_steps, write_whole
from heartloop.core.text import clock
from heartloop.evaluation.digests import heard
from heartloop.models.budget import Price
from heartloop.scoring.repeats import REPEATED, repeats_of
from heartloop.training.recipe import Recipe
from heartloop.training.rollouts import RolloutRewards, TokenPolicy
from heartloop.training.verl_config import CHECKPOINT_METRICS, RunPaths

_RECENT = 10  # steps whose mean duration gives the time left
_NO_TERMS = {"return", "reward", "turns"}  # what verl's validation logs besides scores and the environment's terms


def dialogue_summary(
    transcript: Transcript, policy: TokenPolicy, rewards: RolloutRewards, *, group: str, samples: int, terms: Mapping[str, float]
) -> dict[str, Any]:
    """A scored dialogue as `dialogue_metrics` takes it. The user's calls are those of all roles but the policy."""
    calls = [call for call in transcript.calls if call.role != "policy"]
    return {
        "scenario": transcript.scenario,
        "group": group,
        "said": heard(transcript),
        "score": transcript.score,
        "return": rewards.outcome,
        "stop": transcript.stop,
        "turns": len(transcript.turns),
        "samples": samples,
        "reply_tokens": [len(turn.tokens) for turn in policy.turns],
        "terms": dict(terms),
        "counts": {
            **transcript.counts,
            "overflows": policy.overflows,
            "reencoded": sum(turn.history is None and bool(turn.visible) for turn in policy.turns),
            "broken format": int(rewards.broken),
        },
        "user_calls": len(calls),
        **{f"user_{name}": count for name, count in zip(COUNTS, total_usage(call.usage for call in calls).counts, strict=True)},
    }


def dialogue_metrics(dialogues: Sequence[Mapping[str, Any]], groups: Sequence[str], *, expected: int) -> dict[str, float]:
    """Metrics of one step by name, from the `dialogue_summary` and group of each scored dialogue; `expected` were started."""
    metrics: dict[str, float] = {"dialogue/failed": float(expected - len(dialogues)), "dialogue/scored": float(len(dialogues))}
    if not dialogues:
        return metrics
    by_group: dict[str, list[float]] = defaultdict(list)
    for dialogue, group in zip(dialogues, groups, strict=True):
        by_group[group].append(dialogue["return"])
    deviations = [float(np.std(values, ddof=1)) for values in by_group.values() if len(values) > 1]
    repeats = repeats_of((dialogue["scenario"], dialogue["said"]) for dialogue in dialogues)
    tokens = [count for dialogue in dialogues for count in dialogue["reply_tokens"]]
    for name in ("score", "return", "turns", "samples"):
        metrics[f"dialogue/{name}"] = float(np.mean([dialogue[name] for dialogue in dialogues]))
    metrics |= {
        "dialogue/return_std": float(np.std([dialogue["return"] for dialogue in dialogues])),
        "dialogue/tokens": float(sum(tokens)),
        "dialogue/reply_tokens": float(np.mean(tokens)),
        "dialogue/said_before": repeats.said_before,
        "dialogue/said_to_others": repeats.said_to_others,
        "dialogue/group_std": float(np.mean(deviations)) if deviations else 0.0,
        "dialogue/lone_groups": float(sum(len(values) < 2 for values in by_group.values())),
    }
    user = {name: float(sum(dialogue.get(f"user_{name}", 0) for dialogue in dialogues)) for name in ("calls", *COUNTS)}
    metrics |= {f"user/{name}": count for name, count in user.items() if count or name in ("calls", *COUNTS[:2])}
    metrics |= _means("score/", ((dialogue["group"], dialogue["score"]) for dialogue in dialogues))
    metrics |= _means("reply_tokens/turn_", (turn for dialogue in dialogues for turn in enumerate(dialogue["reply_tokens"], 1)))
    lengths = [turn for dialogue in dialogues for turn in enumerate(map(len, dialogue["said"]), 1)]
    metrics |= _means("", (("reply_characters", length) for _, length in lengths)) | _means("reply_characters/turn_", lengths)
    metrics |= _means("parts/", (term for dialogue in dialogues for term in dialogue.get("terms", {}).items()))
    events, stops = Counter[str](), Counter(dialogue["stop"] for dialogue in dialogues)
    for dialogue in dialogues:
        events.update(dialogue["counts"])
    metrics |= {f"dialogue/counts/{name.replace(' ', '_')}": float(count) for name, count in sorted(events.items())}
    metrics |= {f"dialogue/stops/{stop}": count / len(dialogues) for stop, count in sorted(stops.items())}
    return metrics


def _means(prefix: str, pairs: Iterable[tuple[Any, float]]) -> dict[str, float]:
    by_name: dict[Any, list[float]] = defaultdict(list)
    for name, value in pairs:
        by_name[name].append(value)
    return {f"dialogue/{prefix}{name}": float(np.mean(values)) for name, values in sorted(by_name.items())}


class Failures(NamedTuple):
    failed: int
    dialogues: int

    @property
    def share(self) -> float:
        return self.failed / self.dialogues if self.dialogues else 0.0


class MetricsFile:
    """Writes the run's `metrics.jsonl`: a line a step with `step`, `attempt` and `data`.

    A run that was interrupted and resumed made the steps since its last checkpoint twice: those of the later attempt count. So
    the file starts with the lines up to the step `resumed`. A line that a kill kept out of it is taken from the attempt that
    logged it, or, if the kill came between checkpoint and log, from the checkpoint, which has no evaluation after the step.

    The number of `held_out` scenarios in each group is its weight in held-out means; `price` is that of the user simulator.
    """

    def __init__(
        self, paths: RunPaths, recipe: Recipe, held_out: Iterable[Any], *, resumed: int, price: Price | None = None
    ) -> None:
        self._file, self._resumed, self._price = paths.metrics, resumed, price
        self._held_out = Counter(map(recipe.environment.training.group, held_out))
        self._mean = re.compile(rf"val-(?:core|aux)/{re.escape(recipe.environment.name)}_([^/]+)/([^/]+)/mean@\d+")
        known = {line["step"]: line for line in read_steps(paths.metrics)} if paths.metrics.exists() else {}
        attempts = sorted(paths.attempts.glob("*/metrics.jsonl"))
        logged = {line["step"]: self._line(line, file.parent.name) for file in attempts for line in read_steps(file)}
        saved = {
            line["step"]: self._line(line, attempts[-1].parent.name if attempts else "")
            for file in paths.checkpoint(resumed).glob(CHECKPOINT_METRICS)
            for line in read_steps(file)
        }
        lines = sorted((saved | logged | known).items())
        write_whole(self._file, "".join(json.dumps(line) + "\n" for step, line in lines if resumed and step <= resumed))

    def follow(self, attempt: Path) -> Iterator[list[dict[str, Any]]]:
        """At each iteration the lines that verl wrote since the last one, also written to the run's file. Endless."""
        source, done = attempt / "metrics.jsonl", 0
        while True:
            new = read_steps(source)[done:] if source.exists() else []
            done += len(new)
            # verl repeats the evaluation that it resumes at
            lines = [self._line(line, attempt.name) for line in new if not self._resumed or line["step"] > self._resumed]
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            yield lines

    def failures(self) -> Failures:
        data = [line["data"] for line in read_steps(self._file)]
        failed, scored = (sum(int(one.get(f"dialogue/{name}") or 0) for one in data) for name in ("failed", "scored"))
        return Failures(failed, failed + scored)

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
            derived["user/cost"] = self._price.of(Usage.of_counts(int(data.get(f"user/{name}") or 0) for name in COUNTS))
        return derived


def _mean_of(values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    weight = sum(weights.get(name, 0) for name in values)
    return sum(weights.get(name, 0) * value for name, value in values.items()) / weight if weight else None


def step_line(lines: list[dict[str, Any]], *, steps: int) -> str:
    """The last step in a line, with the time left by the mean of the last ten steps."""
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
    if recent := [line["data"]["timing_s/step"] for line in lines if "timing_s/step" in line["data"]][-_RECENT:]:
        seconds = statistics.fmean(recent)
        parts.append(f"{seconds:.1f} s a step")
        if left := steps - lines[-1]["step"]:
            parts.append(f"{clock(seconds * left)} left")
    return "  ".join(parts)
