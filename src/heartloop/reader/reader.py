"""The learned reader: from a reply in its context to what a judge would mark of it, and to what it does to a person.

`Effect` has few weights per environment (`effect.json` in its folder), with signs that no fit can turn. A gain is lowered by the
reader's uncertainty. A dangerous reply gets the worst change there is; a hostile one lifts nothing; one that repeats an earlier
reply does at best what such replies do on average; copied or repeated words earn nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.core.chat import EMBEDDED
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import COUNTS, Context, ReplyFeatures, features_of
from heartloop.reader.model import CombinedModel, one_thread

MEMBERS = 4
"""Fits of the ensemble, each without a quarter of the scenarios, whose spread tells how sure a reading is."""

EMBEDDED_WEIGHTS = Path(str(resources.files("heartloop.reader") / "weights" / "embedded.npz"))

UNSURE = 0.67
"""Standard deviations that are taken off a gain: the lower quartile of a normal distribution."""
REPEATED = 0.7
"""Share of a reply that was said before, from which it repeats: of what it is about, by one earlier reply; or of its words, in
runs of three or more that stand in earlier replies."""
USUAL_OVERLAP = 0.4
"""The same share up to which a reply is as fresh as any: nineteen in twenty good replies are below it."""

_MOST_STRATEGIES = 3
_OWN_OVERLAP, _OWN_COPIED, _COPIED_SHARE = map(COUNTS.index, ("own_overlap", "own_copied", "copied_share"))


def again_of(features: ReplyFeatures) -> float:
    return float(max(features.counts[_OWN_OVERLAP], features.counts[_OWN_COPIED]))


class Reading(NamedTuple):
    aspects: NDArray[np.float32]
    """Marks from 0 to 4 in the order of `ASPECTS`, shape (aspects,)."""
    spread: float
    """Standard deviation of the judged change, in standard units, among the members of the ensemble."""
    strategies: dict[str, float]
    """Support strategies (SAGE Table 4) with a confidence in (0, 1], most likely first."""
    floor: str
    """`danger` or `hostility` where the mark is above the threshold of at most one false alarm in 1,000 good replies;
    `repetition` where earlier replies said the same (`REPEATED`); else empty."""
    silent: bool
    """Nothing was said: no letter and no digit."""
    words: int
    again: float
    """Share of the reply that earlier replies said already, in [0, 1] (`REPEATED`)."""
    fresh: float = 1.0
    """Share of a gain that counts, in [0, 1]: what was copied from the person or said before earns nothing."""


class EmbeddedReader:
    """Reads replies: the same one in the same context gives the same reading. `hash` covers all that a reading depends on.

    The outputs of its model are `ASPECTS`, `change-0` to `change-3` and strategies; its card has the thresholds.
    """

    name = EMBEDDED

    def __init__(self, model: CombinedModel) -> None:
        self.model = model
        self.hash = model.hash
        self._silence = np.array(model.linear.card["silence"], np.float32)
        self._floors = [(ASPECTS.index(aspect), aspect, float(least)) for aspect, least in model.linear.card["floors"].items()]
        self._strategies = tuple(model.linear.card["strategies"].items())

    def read(self, reply: str, context: Context) -> Reading:
        features = features_of(reply, context, self.model.linear.layout)
        if not features.tokens:
            return Reading(self._silence, 0.0, {}, "", True, 0, 0.0)
        with one_thread():
            values = self.model.apply(features, self.model.words.read(reply, context))
        aspects = np.clip(values[: len(ASPECTS)], 0.0, 4.0)
        spread = float(values[len(ASPECTS) : len(ASPECTS) + MEMBERS].std())
        again = again_of(features)
        repeats = "repetition" if again >= REPEATED else ""
        copied = float(features.counts[_COPIED_SHARE])
        fresh = (1.0 - copied) * min(1.0, max(0.0, (REPEATED - again) / (REPEATED - USUAL_OVERLAP)))
        floor = next((aspect for place, aspect, least in self._floors if values[place] >= least), repeats)
        scores = values[len(ASPECTS) + MEMBERS :]
        over = ((float(score) - least, float(score), name) for score, (name, least) in zip(scores, self._strategies, strict=True))
        likely = sorted(over, reverse=True)[:_MOST_STRATEGIES]
        strategies = {name: round(min(1.0, max(0.01, score)), 2) for margin, score, name in likely if margin > 0}
        return Reading(aspects, spread, strategies, floor, False, features.tokens, again, fresh)


@cache
def embedded_reader() -> EmbeddedReader:
    return EmbeddedReader(CombinedModel.load(EMBEDDED_WEIGHTS))


class Output(NamedTuple):
    name: str
    low: float
    high: float
    better: int = 1
    """1 where more is better, -1 where less is."""
    neutral: float = 0.0
    """Of a reply that does nothing; what is better than this is a gain."""


class Effect(NamedTuple):
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
        """The change of each output, in its range; an unknown group is the first."""
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
    return read_effect(json.loads((resources.files(package) / "effect.json").read_text(encoding="utf-8")))


def read_effect(table: Mapping[str, Any]) -> Effect:
    """From the form of `effect.json`."""
    outputs = tuple(Output(**row) for row in table["outputs"])
    names = [output.name for output in outputs]
    groups = tuple(table["groups"])
    weights = [[[table["groups"][g]["weights"][name][a] for a in ASPECTS] for name in names] for g in groups]
    offset = [[table["groups"][g]["offset"][name] for name in names] for g in groups]
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]
    typical = np.array([table["typical"][name] for name in ASPECTS], np.float64)
    parts = ("deviation", "silence", "repetition")
    rows = {part: np.array([table[part][name] for name in names], np.float64) for part in parts}
    return Effect(outputs, groups, np.array(weights), np.array(offset), typical=typical, hash=digest, **rows)
