"""The learned reader: from a reply in its context to what it is worth to a person, and what a judge would mark of it.

`worth` is in [-1, 1], 0 for a reply that does nothing (in PERM and daily conversation: silence). Each environment says which
changes or grades go with a worth (`environments.reading`). The fit is `benchmarks.embedded`, its data are data/plain_replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.core.chat import EMBEDDED
from heartloop.reader.aspects import ASPECTS, HARMFUL_ASPECTS
from heartloop.reader.features import COUNTS, Context, features_of, own_words, unreadable
from heartloop.reader.harm import plain_harm
from heartloop.reader.model import ReaderModel

EMBEDDED_WEIGHTS = Path(str(resources.files("heartloop.reader") / "weights" / "embedded.npz"))

REPEATED = 0.7
"""Share of a reply that was said before, from which it repeats: of what it is about, by one earlier reply; or of its words, in
runs of three or more that stand in earlier replies."""
LONG_COPY, COPIED = 8, 0.6
"""Least words, and least share of them in runs of three or more of the person's, of a reply that repeats the person."""
REPEATED_WORTH, INSULT_WORTH, DANGER_WORTH = -0.24, -0.5, -1.0
"""The highest worth of such a reply; the first is what judges gave to repetitions on average."""
SHORT = (20, 40)
"""Words up to which a reply is short, and from which it is not; between them in part."""
WORTH = "worth-"
"""Prefix of the model's outputs that are worths, before the environment's name."""

_MOST_STRATEGIES = 3
_OWN_OVERLAP, _OWN_COPIED, _COPIED_SHARE = map(COUNTS.index, ("own_overlap", "own_copied", "copied_share"))

Floor = Literal["", "danger", "hostility", "repetition"]


class Reading(NamedTuple):
    aspects: NDArray[np.float32]
    """Marks from 0 to 4 in the order of `ASPECTS`, shape (aspects,)."""
    worth: Mapping[str, float]
    """By environment, in [-1, 1]."""
    strategies: Mapping[str, float]
    """Support strategies (SAGE Table 4) with a confidence in (0, 1], most likely first."""
    floor: Floor = ""
    """Why the worth is limited: `danger` or `hostility` by the rule for plain cases or above the threshold of one false alarm in
    100 harmless replies; `repetition` where an earlier reply or the person said the same (`REPEATED`, `COPIED`)."""
    silent: bool = False
    """Nothing was said: no letter and no digit."""
    words: int = 0
    again: float = 0.0
    """Share of the reply that earlier replies said already, in [0, 1]."""
    unread: Literal["", "language", "code", "copy"] = ""
    """Why the reply counts as silence; `copy`: it has no words but those of the person (`own_words`)."""


class EmbeddedReader:
    """Reads replies: the same one in the same context gives the same reading. `hash` covers all that a reading depends on."""

    name = EMBEDDED

    def __init__(self, model: ReaderModel) -> None:
        self.model, self.hash = model, model.hash
        card = model.linear.card
        outputs = model.linear.outputs
        self._aspects = [outputs.index(name) for name in ASPECTS]
        self._worths = [(name.removeprefix(WORTH), place) for place, name in enumerate(outputs) if name.startswith(WORTH)]
        self._lean: Mapping[str, float] = card["lean"]
        self._harms: list[tuple[Floor, int, float]] = [
            ("danger", outputs.index("endangers"), card["least"]["endangers"]),
            ("hostility", outputs.index("insults"), card["least"]["insults"]),
        ]
        self._usual = np.array(card["aspects"]["usual"], np.float32), np.array(card["aspects"]["spread"], np.float32)
        self._strategies = [(name, outputs.index(name), least) for name, least in card["strategies"].items()]

    def read(self, reply: str, context: Context) -> Reading:
        said, reply = reply, own_words(reply, context.messages)
        features = features_of(reply, context, self.model.linear.layout)
        unread = unreadable(reply) if features.tokens else "copy" if said != reply else ""
        if unread or not features.tokens:
            nothing = dict.fromkeys((name for name, _ in self._worths), 0.0)
            return Reading(np.zeros(len(ASPECTS), np.float32), nothing, {}, "", not unread, features.tokens, unread=unread)
        values = self.model.apply(features, reply)
        counts = features.counts
        again = float(max(counts[_OWN_OVERLAP], counts[_OWN_COPIED]))
        copied = float(counts[_COPIED_SHARE])
        repeats = again >= REPEATED or (features.tokens >= LONG_COPY and copied >= COPIED)
        floor = self._floor(reply, values) or ("repetition" if repeats else "")
        own = short_share(features.tokens) * (1.0 - copied)
        worth = {name: min(float(leaned(values[place], own * self._lean[name])), _most(floor)) for name, place in self._worths}
        return Reading(
            np.clip(values[self._aspects], 0.0, 4.0),
            {name: min(1.0, max(-1.0, value)) for name, value in worth.items()},
            self._likely(values),
            floor,
            words=features.tokens,
            again=again,
        )

    def reasons(self, reading: Reading) -> list[tuple[str, float]]:
        """By how many standard deviations each aspect is better than usual, best first; a harmful one from a mark of 1 on.

        What limits the worth is the worst.
        """
        usual, spread = self._usual
        signs = np.array([-1.0 if name in HARMFUL_ASPECTS else 1.0 for name in ASPECTS])
        better = signs * (reading.aspects - usual) / spread
        better[(signs < 0) & (reading.aspects < 1.0)] = 0.0
        if reading.floor in ASPECTS:
            better[ASPECTS.index(reading.floor)] = better.min() - 1.0
        return sorted(zip(ASPECTS, better.tolist(), strict=True), key=lambda row: -row[1])

    def _floor(self, reply: str, values: NDArray[np.float32]) -> Floor:
        plain = plain_harm(reply)
        if plain:
            return "danger" if plain == "danger" else "hostility"
        return next((floor for floor, place, least in self._harms if values[place] >= least), "")

    def _likely(self, values: NDArray[np.float32]) -> dict[str, float]:
        over = sorted(((float(values[place]) - least, name, place) for name, place, least in self._strategies), reverse=True)
        likely = [(name, float(values[place])) for margin, name, place in over[:_MOST_STRATEGIES] if margin > 0]
        return {name: round(min(1.0, max(0.01, score)), 2) for name, score in likely}


def short_share(words: int) -> float:
    """How far a reply of so many words counts as short, in [0, 1].

    >>> short_share(8), short_share(30), short_share(100)
    (1.0, 0.5, 0.0)
    """
    low, high = SHORT
    return min(1.0, max(0.0, (high - words) / (high - low)))


def leaned(worth: NDArray[Any] | np.floating[Any], lean: NDArray[Any] | float) -> NDArray[np.float64]:
    """A worth with `lean` added, less and less from -0.1 down to -0.35: what is read as bad without doubt stays so."""
    return np.asarray(worth + lean * np.clip((worth + 0.35) / 0.25, 0.0, 1.0), np.float64)


def _most(floor: Floor) -> float:
    return {"": 1.0, "repetition": REPEATED_WORTH, "hostility": INSULT_WORTH, "danger": DANGER_WORTH}[floor]


@cache
def embedded_reader() -> EmbeddedReader:
    return EmbeddedReader(ReaderModel.load(EMBEDDED_WEIGHTS))
