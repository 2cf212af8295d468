"""What a reply does to a person without a language model, by the learned reader or a student of a judge, and what they say then.

An analysis that comes before an answer has a level from 1 to 5 by a linear model with two outputs. `level` is a ridge on n-grams
and counts of the analysis; it measures depth by manner, also in an analysis of somebody else. `about` measures by overlaps with
the scenario whether the analysis is about this person. The level counts as far as it is: 1 + about * (level - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from heartloop.core.dialogue import Turn
from heartloop.core.errors import InputError
from heartloop.core.system import packaged_table
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.dialogue_text import chance, least_recent, pick_unsaid
from heartloop.environments.written import Beat, Concern, Cued
from heartloop.reader.aspects import ASPECTS, HARMFUL_ASPECTS, STRATEGIES
from heartloop.reader.features import Context, FeatureLayout, features_of, han_share, lacks_english
from heartloop.reader.model import SHIPPED, LinearModel
from heartloop.reader.reader import REPEATED, EmbeddedReader, Reading, embedded_reader


class LearnedReading(NamedTuple):
    environment: str
    """Whose worth of a reply is read."""
    context: Callable[[Any, Sequence[str], Sequence[str]], Context]
    """`context(scenario, messages, replies)` before a reply: the dialogue and what is known of the person."""
    outputs: tuple[str, ...]
    """The numbers that a judge gives a reply."""
    worths: tuple[float, ...]
    """Increasing worths; between them the outputs are interpolated, beyond them they are as at the ends."""
    levels: Mapping[str, Sequence[Sequence[float]]]
    """By kind of person: the outputs at each of `worths`."""
    group: Callable[[Any], str] = lambda scenario: ""
    """The kind of person, a key of `levels`."""
    silence: float = 0.0
    """Worth of a reply without words."""
    judged: Callable[[Turn], Mapping[str, float] | None] = lambda turn: turn.change
    """What a judge gave a stored reply, by output; `None` for a reply that was not judged."""
    owns: Callable[[Any], bool] = lambda scenario: False
    """Whether the policy did something to the person that it can own."""
    analysis: LearnedAnalysis | None = None
    """Of the analysis that comes before an answer, where the environment grades one."""

    def change(self, scenario: Any, worth: float) -> dict[str, float]:
        levels = self.levels[self.group(scenario)]
        return {
            name: float(np.interp(worth, self.worths, column))
            for name, column in zip(self.outputs, zip(*levels, strict=True), strict=True)
        }


def with_cues(matters: Iterable[Cued]) -> tuple[str, ...]:
    return tuple(f"{matter.text} {' '.join(matter.cues)}" for matter in matters)


def unsaid(concerns: Iterable[Concern], beats: Iterable[Beat], messages: Sequence[str]) -> tuple[str, ...]:
    """The concerns of which no beat was said yet, with their cues."""
    spoken = " ".join(messages)
    told = {beat.concern for beat in beats if beat.text in spoken}
    return with_cues(concern for concern in concerns if concern.key not in told)


LAYOUT = FeatureLayout(bits=13, words=(1, 2), characters=(3, 4))
OVERLAPS = ("story_overlap", "unsaid_overlap", "known_overlap", "demand_overlap", "ways_overlap")
_LOWEST, _HIGHEST = 1.0, 5.0
_loaded = cache(partial(LinearModel.load, form=SHIPPED))


class LearnedAnalysis(NamedTuple):
    """How an environment's analyses are read; `context(scenario)` is what an analysis is compared with."""

    weights: Path
    context: Callable[[Any], Context]

    @property
    def model(self) -> LinearModel:
        return _loaded(self.weights)

    def level(self, scenario: Any, analysis: str) -> tuple[int, Mapping[str, float]]:
        """The level of an analysis, and the numbers behind it; 1 if it has no words."""
        features = features_of(analysis, self.context(scenario), LAYOUT)
        if not features.tokens:
            return whole(_LOWEST), {}
        level, about = map(float, self.model.apply(features))
        value = combined(level, about)
        return whole(value), {"value": round(value, 2), "about": round(min(1.0, max(0.0, about)), 2)}


def combined(level: float, about: float) -> float:
    """The level of an analysis, in [1, 5].

    >>> combined(4.0, 1.0), combined(4.0, -0.3), combined(6.0, 0.5)
    (4.0, 1.0, 3.0)
    """
    within = min(_HIGHEST, max(_LOWEST, level))
    return _LOWEST + min(1.0, max(0.0, about)) * (within - _LOWEST)


def whole(value: float) -> int:
    """The nearest whole number; halves go up."""
    return int(value + 0.5)


WEIGHTS = "weights."
"""Prefix of the hashes of learned weights among a run's prompts; `compare` refuses runs of different weights."""
SWING = 0.1
"""Share by which a person's gains and losses differ at most between seeds."""
_UNSURE_REASON = 0.1

Missed = Literal["silence", "repeat", "cruel", "lecture", "advice", "template", "flattery", "misread", "unfelt", "vague"]
"""What was wrong with a reply, as far as it decides which written line answers it."""
_MISSED_BY_ASPECT: Mapping[str, Missed] = {
    "performance": "template", "understanding": "misread", "coherence": "misread", "feeling": "unfelt", "warmth": "unfelt",
}  # fmt: skip
"""What was wrong where this aspect did the most harm; else it was vague."""


class Appraisal(NamedTuple):
    change: Mapping[str, float]
    reasons: tuple[tuple[str, float], ...] = ()
    """By how many standard deviations each aspect is better than usual, best first; empty for a student."""
    reading: Reading | None = None
    """`None` for a student."""
    silent: bool = False
    words: int = 0
    again: float = 0.0
    """Share of the reply's content that an earlier reply had, in [0, 1]."""


class Appraiser(Protocol):
    """Judges a reply in place of a language model. The same arguments give the same appraisal."""

    name: str

    @property
    def hashes(self) -> Mapping[str, str]:
        """Of everything that an appraisal depends on; part of a run's settings."""

    def admit(self, scenario_id: str, texts: Iterable[str]) -> None:
        """Refuses a scenario of whose texts it would understand nothing."""

    def appraise(self, scenario: Any, messages: Sequence[str], replies: Sequence[str], *, seed: int = 0) -> Appraisal:
        """The appraisal of the last reply."""


class LearnedAppraiser:
    def __init__(self, reading: LearnedReading, reader: EmbeddedReader | None = None) -> None:
        self._reading, self._reader = reading, reader or embedded_reader()
        self.name = self._reader.name
        self.hashes = {f"{WEIGHTS}reader": self._reader.hash}

    def admit(self, scenario_id: str, texts: Iterable[str]) -> None:
        if lacks_english(" ".join(texts)):
            raise InputError(
                f"scenario {scenario_id!r} is not in English; the embedded user understands English only, "
                "use a model (--user MODEL, or rejudge --judge MODEL)"
            )

    def appraise(self, scenario: Any, messages: Sequence[str], replies: Sequence[str], *, seed: int = 0) -> Appraisal:
        reading = self._reader.read(replies[-1], self._reading.context(scenario, messages, replies[:-1]))
        worth = self._reading.silence if reading.silent or reading.unread else reading.worth[self._reading.environment]
        if reading.floor != "danger":  # the worst is the worst under every seed
            worth *= 1.0 + SWING * (2.0 * chance("up" if worth > 0 else "down", scenario.id, seed) - 1.0)
        reasons = tuple(row for row in self._reader.reasons(reading) if row[0] != "owning" or self._reading.owns(scenario))
        return Appraisal(self._reading.change(scenario, worth), reasons, reading, reading.silent, reading.words, reading.again)


LEAST_AGREEMENT = 0.5
"""Least r of a student that may judge with its judge, in every part (ours): Pearson's of the sums over a held-out dialogue, and
Spearman's of the means of the models, where it was fitted on at least `_RANKED` of them."""
_RANKED = 5


def check_agreement(card: Mapping[str, Any]) -> None:
    """Refuses a student whose card says that it does not judge as its judge does."""
    held_out = card["held_out"]
    ranks = held_out["model_spearman"] if len(held_out["models"]) >= _RANKED else {}
    for agreed, of in ((held_out["dialogue_r"], "per dialogue"), (ranks, "in the order of the models (Spearman)")):
        for part, r in agreed.items():
            if r < LEAST_AGREEMENT:
                raise InputError(
                    f"the student agrees with its judge on held-out {held_out['of']} by r {r:.2f} {of} ({part}); expected at "
                    f"least {LEAST_AGREEMENT:g} of a judge; fit a student on more scenarios and on more models that differ"
                )


class StudentAppraiser:
    def __init__(self, weights: LinearModel, outputs: Sequence[str]) -> None:
        check_agreement(weights.card)
        if set(weights.outputs) != set(outputs):
            raise InputError(f"the student predicts {', '.join(weights.outputs)}; expected {', '.join(outputs)}")
        self._weights = weights
        self.name = f"student {weights.hash}"
        self.hashes = {f"{WEIGHTS}student": weights.hash}

    def admit(self, scenario_id: str, texts: Iterable[str]) -> None:
        if abs(han_share(" ".join(texts)) - self._weights.card.get("han_share", 0.0)) > 0.5:
            raise InputError(
                f"scenario {scenario_id!r} is in another script than the replies that the student was fitted on, so it would "
                "understand nothing; fit a student on runs in the language of the scenarios"
            )

    def appraise(self, scenario: Any, messages: Sequence[str], replies: Sequence[str], *, seed: int = 0) -> Appraisal:
        features = features_of(replies[-1], Context(tuple(messages), tuple(replies[:-1])), self._weights.layout)
        values = self._weights.apply(features)
        change = {name: float(value) for name, value in zip(self._weights.outputs, values, strict=True)}
        return Appraisal(change, silent=not replies[-1].strip(), words=features.tokens)


class AppraisingPlayer(EmbeddedPlayer):
    """Base of the embedded users; as `judge` it appraises stored replies and needs no written lines."""

    reading: ClassVar[LearnedReading]
    roles: ClassVar[Sequence[str]] = ("user",)

    def __init__(self, appraiser: Appraiser | None = None, *, role: str = "user") -> None:
        self.appraiser, self.role = appraiser or LearnedAppraiser(self.reading), role
        self.name = self.appraiser.name
        super().__init__(self.roles, self.hashes)

    @property
    def hashes(self) -> Mapping[str, str]:
        return self.appraiser.hashes


def no_written_lines(scenario_id: str, player: str) -> InputError:
    return InputError(
        f"scenario {scenario_id!r} has no written lines (short form), and {player} replaces the judgement, not the words; "
        "use a model (--user MODEL), add beats and lines (heartloop scenarios new), or rejudge a played run (heartloop rejudge)"
    )


def missed_by(appraisal: Appraisal) -> Missed:
    reading = appraisal.reading
    if appraisal.silent or (reading is not None and reading.unread):
        return "silence"
    if appraisal.again >= REPEATED:
        return "repeat"
    if reading is None:
        return "vague"
    marks = dict(zip(ASPECTS, reading.aspects, strict=True))
    worst = appraisal.reasons[-1][0] if appraisal.reasons else "particular"
    if reading.floor in ("hostility", "danger") or worst in ("hostility", "danger"):
        return "cruel"
    group = STRATEGIES[next(iter(reading.strategies))].group if reading.strategies else ""
    if group == "E" and worst in ("performance", "honesty", "particular", "understanding"):
        return "flattery"
    if worst == "pressure" or (group in ("F", "G") and marks["pressure"] >= 1.0):
        return "lecture" if appraisal.words > 40 or group == "G" else "advice"
    return _MISSED_BY_ASPECT.get(worst, "vague")


def reason_of(appraisal: Appraisal, *, good: bool) -> str:
    """The main reason of a change, as the person would think it; empty without one."""
    words = packaged_table(__package__, "reading.toml")
    if appraisal.reading is not None and appraisal.reading.unread:
        return str(words["unread"][appraisal.reading.unread])
    rows = [row for row in appraisal.reasons if not good or row[0] not in HARMFUL_ASPECTS]
    if not rows or appraisal.silent:
        return ""
    aspect, worth = rows[0 if good else -1]
    reasons: Sequence[str] = words["reasons"][aspect]
    return reasons[0 if good else 1] if (worth > _UNSURE_REASON if good else worth < -_UNSURE_REASON) else ""


def evidence_of(appraisal: Appraisal) -> dict[str, Any]:
    reading = appraisal.reading
    if reading is None:
        return {"silent": appraisal.silent}
    return {
        "strategies": dict(reading.strategies),
        "aspects": {name: round(float(mark), 1) for name, mark in zip(ASPECTS, reading.aspects, strict=True)},
        "floor": reading.floor,
        "unread": reading.unread,
        "missed": missed_by(appraisal),
        "words": appraisal.words,
        "silent": appraisal.silent,
    }


GOOD_FROM, HARM_FROM = 1.0, -1.0
"""Worth of a reply, in points of the state, from which it did good, and to which it did harm; between them it is neutral."""
CORE_FROM = 1 / 6
"""Share of the way from the start to success from which a person says what matters most (in SAGE the emotion 50)."""
_ACKNOWLEDGED_FROM = 3.0


BeatT = TypeVar("BeatT", bound=Beat)


def open_beats(beats: Iterable[BeatT], said: Sequence[str], *, good: bool, core: bool) -> list[BeatT]:
    """The beats that were not said yet and that the mood allows: facts, if `good` feelings, with `core` what matters most."""
    kinds = {"fact"} if not good else {"fact", "feeling", "core"} if core else {"fact", "feeling"}
    spoken = " ".join(said)
    return [beat for beat in beats if beat.kind in kinds and beat.text not in spoken]


def next_line(view: Any, *, worth: float, beat: Beat | None, missed: Sequence[str], general: Sequence[str], cold: bool) -> str:
    """The person's next line: the next beat, unless the reply did harm; without a beat, an acknowledgement or what was missed.

    `missed` are lines for what was wrong with the reply, `general` for any that did no good; `cold`: every second line is cold.
    """
    lines, said = view.scenario.lines, view.messages

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, said, "line", view.scenario.id, view.seed, view.turn)

    if beat is not None and worth > HARM_FROM:
        ack = fresh(lines.acks) if worth >= _ACKNOWLEDGED_FROM and view.turn % 2 == 0 else None
        return f"{ack} {beat.text}" if ack else beat.text
    groups: tuple[Sequence[str], ...] = (missed, general, lines.cold)
    if worth >= GOOD_FROM:
        groups = (lines.acks, general)
    elif cold and view.turn % 2 == 1:
        groups = (lines.cold, missed, general)
    return fresh(*groups, lines.repeat) or least_recent([*groups[0], *general], said)


def verdict(appraisal: Appraisal, worth: float) -> str:
    good, bad = reason_of(appraisal, good=True), reason_of(appraisal, good=False)
    reason = good if worth >= GOOD_FROM else bad if worth <= HARM_FROM else f"{good}, but {bad}" if good and bad else ""
    return sentence(reason or "it neither helps nor hurts")


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
