"""What is attacked: an environment's reader and effect as they lie in the package, and the replies that attacks are made of.

Covers the score of a single reply, in points of 100. Does not cover whole dialogues (`policies`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from heartloop.environments.reading import LearnedReading
from heartloop.environments.registry import load_environment, specs
from heartloop.fitting.data import JudgedReply, read_examples
from heartloop.reader.features import Context
from heartloop.reader.reader import EmbeddedReader, Reading, effect_of, embedded_reader
from heartloop.scoring.statistics import Interval, mean_interval

__all__ = ["FOLDER", "TIERS", "Target", "clauses", "environments", "interval", "sentences", "texts", "things"]

FOLDER = Path(__file__).parents[2] / "data" / "judged_replies"
TIERS = ("good", "middling", "poor", "harmful")

_TURNED: Mapping[str, str] = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "am": "are", "i'm": "you're",
    "i've": "you've", "i'd": "you'd", "i'll": "you'll",
}  # fmt: skip


class Target:
    """An environment under attack. Only the tuning part of the judged replies is read."""

    def __init__(self, name: str, examples: Sequence[JudgedReply], reader: EmbeddedReader | None = None) -> None:
        self.name, self.examples, self.reader = name, tuple(examples), reader or embedded_reader()
        reading = load_environment(name).reading
        assert isinstance(reading, LearnedReading)
        self.effect = effect_of(reading.package)

    @property
    def hash(self) -> str:
        return f"{self.reader.hash} {self.effect.hash}"

    def read(self, reply: str, context: Context) -> Reading:
        return self.reader.read(reply, context)

    def points(self, reply: str, context: Context, group: str) -> float:
        """The predicted change as the mean place of its parts in their ranges, 0 the worst and 100 the best."""
        return self.points_of(self.effect.of(self.read(reply, context), group))

    def points_of(self, change: Mapping[str, float]) -> float:
        places = [(change[o.name] - o.low) / (o.high - o.low) for o in self.effect.outputs]
        signed = [place if o.better > 0 else 1 - place for o, place in zip(self.effect.outputs, places, strict=True)]
        return 100 * sum(signed) / len(signed)

    @cached_property
    def neutral(self) -> float:
        """Points of a reply that does nothing."""
        return self.points_of({output.name: output.neutral for output in self.effect.outputs})

    def of_tier(self, tier: str) -> list[JudgedReply]:
        return [example for example in self.examples if example.tier == tier]

    @cached_property
    def good(self) -> float:
        """The mean points of the good replies, each scenario counted by its replies."""
        values = [self.points(e.reply, e.context, e.group) for e in self.of_tier("good")]
        return sum(values) / len(values)


def environments() -> list[str]:
    """Those with a learned reader."""
    return [spec.name for spec in specs() if spec.reading is not None]


@cache
def _examples() -> tuple[JudgedReply, ...]:
    return tuple(read_examples(FOLDER, "tuning"))


@cache
def target_of(name: str) -> Target:
    return Target(name, [example for example in _examples() if example.environment == name])


@cache
def texts() -> Mapping[str, Any]:
    """The texts that were written for the gate."""
    return tomllib.loads((Path(__file__).parent / "texts.toml").read_text(encoding="utf-8"))


def interval(values: Sequence[float], scenarios: Sequence[str]) -> list[float]:
    """Mean and 95 % interval over scenarios, rounded."""
    found: Interval = mean_interval(values, clusters=scenarios)
    return [round(x, 2) for x in found[:3]]


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]


def clauses(text: str) -> list[str]:
    """Clauses of three words and more, in the second person.

    >>> clauses("I came home late, and my key was gone. Why?")
    ['you came home late', 'and your key was gone']
    """
    parts = [part.strip(" \"'*-") for part in re.split(r"[.!?;:,()\n]+", text.replace("’", "'"))]
    turned = [
        " ".join(_TURNED.get(word.lower(), word) for word in part.split()) for part in parts if 3 <= len(part.split()) <= 18
    ]
    return [part[:1].lower() + part[1:] for part in turned] or ["this is how it is"]


def things(text: str) -> list[str]:
    """Longer words of a text, as names of things."""
    return re.findall(r"\b[a-z]{5,}\b", text) or ["rest"]
