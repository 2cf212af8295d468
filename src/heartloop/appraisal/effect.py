"""From a reading to what it does to a person: few weights per environment, with signs that no fit can turn.

Covers applying the weights. They are fitted on judged changes (`heartloop.fitting.embedded`) and lie in the environment's folder
(`effect.json`). In words: a change is a sum over the twelve aspects; where a reply does good, the gain is lowered by what the
reader is unsure of; a dangerous reply gets the worst change there is; a hostile one lifts nothing; one that repeats an earlier
reply does at best what judges said on the mean that such replies do; words copied from the person, or said before, earn nothing;
silence has the mean change that judges gave it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.reader import Reading

__all__ = ["UNSURE", "Effect", "Output", "effect_of", "read_effect"]

UNSURE = 0.67
"""Standard deviations that are taken off a gain: the lower quartile of a normal distribution."""


class Output(NamedTuple):
    """One number that a reply changes."""

    name: str
    low: float
    high: float
    better: int = 1
    """1 where more is better, -1 where less is."""
    neutral: float = 0.0
    """Of a reply that does nothing; what is better than this is a gain."""


class Effect(NamedTuple):
    """The weights of one environment."""

    outputs: tuple[Output, ...]
    groups: tuple[str, ...]
    """Kinds of people who take replies alike."""
    weights: NDArray[np.float64]
    """Shape (groups, outputs, aspects)."""
    offset: NDArray[np.float64]
    """Shape (groups, outputs)."""
    deviation: NDArray[np.float64]
    """Standard deviation of each judged output, shape (outputs,)."""
    typical: NDArray[np.float64]
    """Mean mark of each aspect, shape (aspects,)."""
    silence: NDArray[np.float64]
    """Mean judged change of a reply without words, shape (outputs,)."""
    repetition: NDArray[np.float64]
    """Mean judged change of a reply that repeats an earlier one, shape (outputs,)."""
    hash: str

    def of(self, reading: Reading, group: str = "") -> dict[str, float]:
        """The change of each output, in its range.

        Args:
            group: one of `groups`; the first where it is none of them.
        """
        row = self.groups.index(group) if group in self.groups else 0
        values = self.silence if reading.silent else self.offset[row] + self.weights[row] @ reading.aspects
        if reading.floor == "repetition":
            worse = [np.minimum if output.better > 0 else np.maximum for output in self.outputs]
            values = np.array([pick(*pair) for pick, *pair in zip(worse, values, self.repetition, strict=True)])
        return {
            output.name: _bounded(output, float(value), UNSURE * reading.spread * float(deviation), reading)
            for output, value, deviation in zip(self.outputs, values, self.deviation, strict=True)
        }

    def reasons(self, reading: Reading, group: str = "") -> list[tuple[str, float]]:
        """What each aspect did beside a typical reply, in standard deviations of the change, best first."""
        row = self.groups.index(group) if group in self.groups else 0
        signs = np.array([output.better for output in self.outputs]) / self.deviation
        worth = (signs @ self.weights[row]) / len(self.outputs) * (reading.aspects - self.typical)
        order = np.argsort(-worth, kind="stable")
        return [(ASPECTS[n], float(worth[n])) for n in order]


def _bounded(output: Output, value: float, unsure: float, reading: Reading) -> float:
    better = output.better
    if reading.floor == "danger":
        return output.low if better > 0 else output.high
    gain = better * (value - output.neutral)
    if gain > 0:
        value = output.neutral + better * (0.0 if reading.floor else max(0.0, gain * reading.fresh - unsure))
    return min(output.high, max(output.low, value))


@cache
def effect_of(package: str) -> Effect:
    """The weights in an environment's folder."""
    text = (resources.files(package) / "effect.json").read_text(encoding="utf-8")
    return read_effect(json.loads(text))


def read_effect(table: Mapping[str, Any]) -> Effect:
    """The weights in the form of `effect.json`."""
    outputs = tuple(Output(**row) for row in table["outputs"])
    names = [output.name for output in outputs]
    groups = tuple(table["groups"])
    weights = [[[table["groups"][g]["weights"][name][a] for a in ASPECTS] for name in names] for g in groups]
    offset = [[table["groups"][g]["offset"][name] for name in names] for g in groups]
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]
    return Effect(
        outputs,
        groups,
        np.array(weights, np.float64),
        np.array(offset, np.float64),
        np.array([table["deviation"][name] for name in names], np.float64),
        np.array([table["typical"][name] for name in ASPECTS], np.float64),
        np.array([table["silence"][name] for name in names], np.float64),
        np.array([table["repetition"][name] for name in names], np.float64),
        digest,
    )
