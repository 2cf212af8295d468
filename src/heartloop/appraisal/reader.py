"""The learned reader: from a reply in its context to what a judge would mark of it.

Covers the reading of one reply and the shipped weights. Does not cover what a reading does to a person (`effect`), nor fitting
(`heartloop.fitting.embedded`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.combined import CombinedModel
from heartloop.appraisal.features import COUNTS, Context, Features, features_of
from heartloop.appraisal.names import EMBEDDED

__all__ = [
    "EMBEDDED_WEIGHTS", "MEMBERS", "REPEATED", "EmbeddedReader", "Reader", "Reading", "Thresholds", "again_of", "embedded_reader",
]  # fmt: skip

MEMBERS = 4
"""Fits of the ensemble, each without a quarter of the scenarios, whose spread tells how sure a reading is."""

EMBEDDED_WEIGHTS = Path(str(resources.files("heartloop.appraisal") / "weights" / "embedded.npz"))
"""The shipped weights."""

REPEATED = 0.7
"""Share of a reply that was said before, from which it repeats: of what it is about, by one earlier reply; or of its words, in
runs of three or more that stand in earlier replies."""
USUAL_OVERLAP = 0.4
"""The same share up to which a reply is as fresh as any: nineteen in twenty good replies are below it."""

_MOST_STRATEGIES = 3
_OWN_OVERLAP, _OWN_COPIED, _COPIED_SHARE = map(COUNTS.index, ("own_overlap", "own_copied", "copied_share"))


def again_of(features: Features) -> float:
    """Share of a reply that earlier replies said already, in [0, 1] (`REPEATED`)."""
    return float(max(features.counts[_OWN_OVERLAP], features.counts[_OWN_COPIED]))


class Reading(NamedTuple):
    """What a reader marks of one reply."""

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


class Reader(Protocol):
    """Reads replies. The same reply in the same context gives the same reading."""

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> str:
        """Of everything that a reading depends on."""
        ...

    def read(self, reply: str, context: Context) -> Reading: ...


class Thresholds(NamedTuple):
    """From what a reader predicts to a `Reading`; part of the card of its weights."""

    silence: NDArray[np.float32]
    """Marks of a reply without words."""
    floors: tuple[tuple[int, str, float], ...]
    """Place among the aspects, name, and the mark from which an aspect is a floor."""
    strategies: tuple[tuple[str, float], ...]
    """Strategies with the score from which each is named."""

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Thresholds:
        """From a card: `silence`, `floors` (thresholds by aspect) and `strategies` (thresholds by strategy)."""
        floors = tuple((ASPECTS.index(aspect), aspect, float(threshold)) for aspect, threshold in card["floors"].items())
        return cls(np.array(card["silence"], np.float32), floors, tuple(card["strategies"].items()))

    def silent(self) -> Reading:
        """Of a reply without words."""
        return Reading(self.silence, 0.0, {}, "", True, 0, 0.0)

    def reading(self, values: NDArray[np.float32], features: Features) -> Reading:
        """Of predicted aspects, `MEMBERS` changes and strategies, shape (outputs,)."""
        aspects = np.clip(values[: len(ASPECTS)], 0.0, 4.0)
        spread = float(values[len(ASPECTS) : len(ASPECTS) + MEMBERS].std())
        again = again_of(features)
        repeats = "repetition" if again >= REPEATED else ""
        copied = float(features.counts[_COPIED_SHARE])
        fresh = (1.0 - copied) * min(1.0, max(0.0, (REPEATED - again) / (REPEATED - USUAL_OVERLAP)))
        floor = next((aspect for place, aspect, threshold in self.floors if values[place] >= threshold), repeats)
        scores = values[len(ASPECTS) + MEMBERS :]
        over = ((float(score) - least, float(score), name) for score, (name, least) in zip(scores, self.strategies, strict=True))
        likely = sorted(over, reverse=True)[:_MOST_STRATEGIES]
        strategies = {name: round(min(1.0, max(0.01, score)), 2) for margin, score, name in likely if margin > 0}
        return Reading(aspects, spread, strategies, floor, False, features.tokens, again, fresh)


class EmbeddedReader:
    """The reader that needs nothing but its file of weights.

    Args:
        model: its outputs are `ASPECTS`, `change-0` to `change-3` and strategies; its card is as in `Thresholds.of`.
    """

    def __init__(self, model: CombinedModel, name: str = EMBEDDED) -> None:
        self.name, self.model = name, model
        self.hash = model.hash
        self._thresholds = Thresholds.of(model.card)

    def read(self, reply: str, context: Context) -> Reading:
        features = features_of(reply, context, self.model.linear.layout)
        if not features.tokens:
            return self._thresholds.silent()
        return self._thresholds.reading(self.model.apply(features, self.model.words.read(reply, context)), features)


@cache
def embedded_reader() -> EmbeddedReader:
    """The shipped reader.

    Raises:
        InputError: the weights cannot be read.
    """
    return EmbeddedReader(CombinedModel.load(EMBEDDED_WEIGHTS))
