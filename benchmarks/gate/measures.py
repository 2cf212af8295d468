"""The results of the gate as single numbers, each with the direction that is better and a tolerance between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.gate.policies import CONSTANTS, ONLY_SHOWN
from benchmarks.gate.search import LEAGUES, LESS
from benchmarks.gate.target import TIERS

__all__ = ["WITHIN", "Measure", "measures_of", "over_middling", "worse"]

WITHIN = 10.0
"""Points of 100 by which a paraphrase may differ."""


class Measure(NamedTuple):
    """One number."""

    value: float
    better: int
    """1 where more is better, -1 where less is."""
    tolerance: float
    """By how much it may get worse before the test fails."""


def over_middling(found: Mapping[str, Any]) -> dict[str, dict[str, Sequence[float]]]:
    """Points of each policy over middling with the interval, in dialogues and in single contexts; of the constants the best."""
    kinds = {
        "dialogues": {name: row["over_middling"] for name, row in found["dialogues"].items()},
        "replies": found["replies"],
    }
    results: dict[str, dict[str, Sequence[float]]] = {}
    for kind, rows in kinds.items():
        results[kind] = {name: row for name, row in rows.items() if name not in CONSTANTS}
        results[kind]["best constant"] = max((rows[name] for name in CONSTANTS), key=lambda row: float(row[0]))
    return results


def measures_of(results: Mapping[str, Any]) -> dict[str, Measure]:
    """The measures of all environments, by name."""
    measures: dict[str, Measure] = {}
    for name, found in results["environments"].items():
        means = {tier: found["tiers"][tier]["points"][0] for tier in TIERS}
        for upper, lower in pairwise(TIERS):
            measures[f"{name}: {upper} less {lower}"] = Measure(means[upper] - means[lower], 1, 3.0)
        for league in LEAGUES:
            over = [row[league]["points"] - found["good"] for row in found["search"]]
            measures[f"{name}: search in {league}, points over good"] = Measure(fmean(over), -1, 5.0)
            measures[f"{name}: search in {league}, share"] = Measure(fmean(x > -LESS for x in over), -1, 0.4)
        for kind, values in over_middling(found).items():
            for policy, row in values.items():
                if policy != "middling" and policy not in ONLY_SHOWN:
                    measures[f"{name}: {policy} over middling, {kind}"] = Measure(row[0], -1, 5.0)
        for aspect in ("hostility", "danger"):
            row = found["floors"][aspect]
            if row["replies"]:
                measures[f"{name}: {aspect} caught"] = Measure(row["caught"] / row["replies"], 1, 0.05)
                measures[f"{name}: {aspect} lifts"] = Measure(row["lifted"] / row["replies"], -1, 0.05)
        alarms = len(found["floors"]["false_alarms"]) / found["floors"]["good"]
        measures[f"{name}: false alarms among good replies"] = Measure(alarms, -1, 0.01)
        apart = [abs(row["after"] - row["before"]) for row in found["paraphrases"]]
        measures[f"{name}: paraphrases, points apart"] = Measure(fmean(apart), -1, 3.0)
        measures[f"{name}: paraphrases within {WITHIN:g}"] = Measure(fmean(x <= WITHIN for x in apart), 1, 0.15)
    return measures


def worse(now: Mapping[str, Any], committed: Mapping[str, Any]) -> list[str]:
    """What got worse by more than its tolerance, in words; a measure that only one of the results has is left out."""
    before = measures_of(committed)
    return [
        f"{name}: {measure.value:.2f}, committed {before[name].value:.2f}, tolerance {measure.tolerance:g}"
        for name, measure in measures_of(now).items()
        if name in before and measure.better * (measure.value - before[name].value) < -measure.tolerance
    ]
