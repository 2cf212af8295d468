"""An appraiser whose changes are given, and a reader whose reading is: for the rules of embedded users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from heartloop.environments.reading import Appraisal
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import Context
from heartloop.reader.reader import EmbeddedReader, Floor, Reading

__all__ = ["FixedAppraiser", "FixedReader", "reading"]


def reading(floor: Floor = "", worth: float = 0.0, **marks: float) -> Reading:
    """A reading of this worth in every environment, and with these aspects; the others are 1."""
    aspects = np.array([marks.get(name, 1.0) for name in ASPECTS], np.float32)
    return Reading(aspects, defaultdict(lambda: worth), {}, floor, words=8)


class FixedAppraiser:
    """Gives each reply the change that a function of the reply says; a reply without words is silence.

    Args:
        worst: the aspect that did most harm.
        floor: a function of the reply that says which floor the reading is under.
        marks: aspects of every reply; the others are 1.
    """

    name = "fixed"
    hashes: Mapping[str, str] = {"weights.reader": "fixed"}

    def __init__(
        self,
        change: Callable[[str], Mapping[str, float]],
        worst: str = "particular",
        *,
        floor: Callable[[str], Floor] = lambda reply: "",
        marks: Mapping[str, float] | None = None,
    ) -> None:
        self._change, self._worst, self._floor, self._marks = change, worst, floor, marks or {}

    def admit(self, scenario_id: str, texts: Iterable[str]) -> None:
        pass

    def appraise(self, scenario: Any, messages: Sequence[str], replies: Sequence[str], *, seed: int = 0) -> Appraisal:
        assert len(messages) in (len(replies), len(replies) - 1)
        silent = not replies[-1].strip(" .…")
        reasons = (("understanding", 0.5), (self._worst, -0.5))
        seen = reading(self._floor(replies[-1]), **self._marks)
        return Appraisal(self._change(replies[-1]), reasons, seen, silent, len(replies[-1].split()), 0.0)


class FixedReader(EmbeddedReader):
    """Reads every reply as the same; one without words as silence."""

    name, hash = "fixed", "fixed"

    def __init__(self, same: Reading) -> None:
        self._same = same

    def reasons(self, reading: Reading) -> list[tuple[str, float]]:
        return []

    def read(self, reply: str, context: Context) -> Reading:
        return self._same if any(c.isalnum() for c in reply) else self._same._replace(silent=True, words=0)
