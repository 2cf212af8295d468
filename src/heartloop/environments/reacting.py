"""From the appraisal of a reply to what it does to a person: the part that the embedded users of all environments share.

Pure and deterministic. In words: every sentence earns what its support strategy is worth to this person's need, little when it
could be said to anyone and all of it when it is bound to this person's story; naming an untold concern earns most; the best
three count, each less; unwelcome sentences and flaws cost; the state decides how specific a reply must be to count; temperament
and variant scale the sum. Weights lie in `reacting.toml` (shared) and in each environment's `needs.toml`, each with its reason.

Does not cover reading a reply (`appraisal`), what a person says (each environment's embedded user), nor state rules.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.appraisal import Appraisal, Reading, Story, lacks_english
from heartloop.core.errors import InputError

__all__ = [
    "UNDERSTANDS",
    "WANTS",
    "Mood",
    "Move",
    "Weighed",
    "chance",
    "check_english",
    "file_hash",
    "pick",
    "pick_unsaid",
    "rule_hashes",
    "sums",
    "swings",
    "total",
    "weigh",
    "weights_of",
]

UNDERSTANDS = "the embedded user understands English only, use a model (--user MODEL, or rejudge --judge MODEL)"
"""What is said where it cannot play somebody."""

_ADVICE = ("F", "G")
_PROPOSES = ("F-2", "F-3", "F-4", "F-5")
_FEELING_WITH = ("B", "D")

Move = tuple[str, float, str]
"""(reason, points, the sentence or quote it was seen in)."""

_LOWEST_MOOD = 10.0
"""Mood at which the gate is fully closed: below it a person leaves (SAGE)."""


class Mood(NamedTuple):
    """What matters of the person besides the reply."""

    intention: str
    """The row of needs: SAGE's hidden intention, EIBench's scene."""
    temperament: str
    emotion: float
    """Before the reply, in [0, 100]; high is well."""
    heard: int
    """Replies so far that did the person good."""
    variant: str = "vanilla"
    up: float = 1.0
    """Gain from the seed, near 1."""
    down: float = 1.0


class Weighed(NamedTuple):
    """What was good and bad about a reply, best and worst first, before it is summed."""

    gains: tuple[Move, ...]
    losses: tuple[Move, ...]
    """Points below 0."""
    best_bound: float
    fixed: float | None = None
    """The whole effect where there was nothing to weigh: silence, noise."""


WANTS = "wants.toml"
"""File of what people want where one answer is judged."""


@functools.cache
def weights_of(package: str, *more: str) -> Mapping[str, Any]:
    """The shared weights with those of an environment's `needs.toml`; read only.

    Args:
        more: further shared files, such as `WANTS`; a table of theirs that `needs.toml` has too holds the rows of both.
    """
    whole = tomllib.loads(_read(__package__, "reacting.toml"))
    for text in (*(_read(__package__, name) for name in more), _read(package, "needs.toml")):
        for name, table in tomllib.loads(text).items():
            both = more and isinstance(table, dict) and name in whole
            whole[name] = {**whole[name], **table} if both else table
    return whole


def _read(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def check_english(scenario_id: str, told: Iterable[str]) -> None:
    """Refuses a scenario of whose texts the embedded user would understand nothing.

    Raises:
        InputError: together they are mostly not English.
    """
    if lacks_english(" ".join(told)):
        raise InputError(f"scenario {scenario_id!r} is not in English; {UNDERSTANDS}")


def rule_hashes(package: str, *more: str) -> dict[str, str]:
    """Hashes of all files of rules and weights by which an environment's embedded user reacts, by name."""
    appraisal = resources.files("heartloop.appraisal")
    rules = sorted(p.name for p in appraisal.iterdir() if p.name.endswith(".toml"))
    return {
        **{name: file_hash(_read(__package__, name).encode()) for name in ("reacting.toml", *more)},
        "needs.toml": file_hash(_read(package, "needs.toml").encode()),
        **{name: file_hash((appraisal / name).read_bytes()) for name in rules},
    }


def file_hash(data: bytes) -> str:
    """First 12 hex digits of the SHA-256."""
    return hashlib.sha256(data).hexdigest()[:12]


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32


def swings(table: Mapping[str, Any], scenario_id: str, seed: int) -> dict[str, Any]:
    """`Mood.up` and `Mood.down` of a person in a dialogue of this seed."""
    spread = table["seed"]["spread"]
    return {way: 1.0 + spread * (2.0 * chance(way, scenario_id, seed) - 1.0) for way in ("up", "down")}


def pick(lines: Sequence[str], *parts: object) -> str:
    """The line that the parts decide."""
    return lines[int(chance(*parts) * len(lines))]


def pick_unsaid(groups: Iterable[Sequence[str]], said: Sequence[str], *parts: object) -> str | None:
    """A line that was not said yet, of the first group that has one; `None` where none has."""
    spoken = " ".join(said)
    for group in groups:
        if left := [line for line in group if line not in spoken]:
            return pick(left, *parts)
    return None


def weigh(appraisal: Appraisal, mood: Mood, story: Story, table: Mapping[str, Any], moves: Sequence[Move] = ()) -> Weighed:
    """What of a reply does this person good, and what harm.

    Args:
        table: `weights_of` the environment.
        moves: what the environment itself saw in the reply, such as a boundary held; points above 0 are gains.
    """
    limits = table["limits"]
    if appraisal.silent:
        return Weighed((), (("silence", limits["silence"], ""),), 0.0, limits["silence"])
    if appraisal.broken > 0.5:
        quote = appraisal.sentences[0].text if appraisal.sentences else ""
        return Weighed((), (("broken", limits["broken"], quote),), 0.0, limits["broken"])
    credit, minds = table["credit"], table["temperaments"][mood.temperament]["minds"]
    gains = [move for move in moves if move[1] > 0]
    losses = [move for move in moves if move[1] < 0]
    for sentence in appraisal.sentences:
        if not sentence.broken:
            for reason, points in _worth(sentence, mood, story, table):
                if points > 0:
                    points *= credit["used"] ** sentence.used
                    if sentence.question:
                        points *= credit["asked_on"] ** appraisal.asked_on
                (gains if points > 0 else losses).append((reason, points, sentence.text))
    for flaw in appraisal.flaws:
        points = table["flaws"][flaw.kind] * flaw.severity * minds.get(flaw.kind, 1.0)
        if flaw.kind == "early_advice":
            points *= table["early_advice"][mood.intention]
        if points > 0:
            losses.append((flaw.kind, -points, flaw.quote))
    best_bound = max((s.bound for s in appraisal.sentences if not s.broken), default=0.0)
    gains.sort(key=lambda row: -row[1])
    gains = _one_question(gains, table)
    if best_bound < credit["untouched"]:
        losses.append(("untouched", -credit["untouched_cost"], ""))
    losses.sort(key=lambda row: row[1])
    return Weighed(tuple(gains), tuple(losses), best_bound)


def total(weighed: Weighed, mood: Mood, table: Mapping[str, Any], share: Mapping[str, float] | None = None) -> float:
    """The sum, in points: what lifts less what sinks, as `sums` has them."""
    return sum(sums(weighed, mood, table, share))


def sums(weighed: Weighed, mood: Mood, table: Mapping[str, Any], share: Mapping[str, float] | None = None) -> tuple[float, float]:
    """What lifts, at least 0, and what sinks, at most 0, in points, each scaled by temperament, variant and seed.

    Args:
        share: of a reason's points that count here, by reason; 1 where it names none. An environment with several axes sums
            once for each.
    """
    temperament, variant = table["temperaments"][mood.temperament], table["variants"][mood.variant]
    credit, limits = table["credit"], table["limits"]
    up, down = 0.0, weighed.fixed
    if down is None:
        part = share or {}
        # a sentence that the environment's own moves blame is no flaw of form: it piles up with the unwelcome ones
        unwelcome = [row for row in weighed.losses if row[0] not in table["flaws"] and row[0] != "untouched"]
        flaws = [row for row in weighed.losses if row[0] in table["flaws"] or row[0] == "untouched"]
        up = sum(w * points * part.get(r, 1.0) for w, (r, points, _) in zip(credit["declining"], weighed.gains, strict=False))
        down = sum(w * points * part.get(r, 1.0) for w, (r, points, _) in zip(credit["blame_declining"], unwelcome, strict=False))
        down += sum(points * part.get(reason, 1.0) for reason, points, _ in flaws)
        down += credit["nothing"] * max(0.0, 1.0 - up / credit["something"])
        up *= _gate(mood.emotion, weighed.best_bound, table)
        down = -limits["anger"] * math.tanh(-down / limits["anger"])
    if not mood.heard:
        up = max(0.0, up - temperament["reserve"])
    return up * temperament["up"] * variant["up"] * mood.up, down * temperament["down"] * variant["down"] * mood.down


def _one_question(gains: Sequence[Move], table: Mapping[str, Any]) -> list[Move]:
    """The gains, best first, with every question but the best one reduced."""
    share, asked = table["credit"]["further_question"], False
    kept: list[Move] = []
    for reason, points, text in gains:
        kept.append((reason, points * share if reason == "question" and asked else points, text))
        asked = asked or reason == "question"
    return sorted(kept, key=lambda row: -row[1])


def _worth(sentence: Reading, mood: Mood, story: Story, table: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Points of one unbroken sentence, with the reason for each."""
    credit, weights = table["credit"], table["intentions"][mood.intention]
    ready = min(1.0, mood.heard / table["readiness"]["turns"])
    thing = 1.0 if sentence.related else credit["things_only"]
    about_them = 1.0 + credit["latest"] * sentence.latest
    specific = min(1.0, sentence.bound / credit["bound_full"]) * about_them * thing
    made_for_them = min(1.0, (sentence.proposal or 0.0) / credit["bound_full"]) * about_them
    worth: list[tuple[str, float]] = []
    rank = 1.0
    points_in_all, reason = 0.0, "bound"
    for strategy, confidence in _strategies(sentence, table):
        points = weights[strategy] * min(1.0, 0.4 + 0.6 * confidence) * rank
        group = strategy[0]
        if points > 0:
            if strategy == "B-3" and sentence.insight is None:
                points *= credit["unproven"]
            free = credit["free_by"].get(strategy, credit["free_question"] if group == "A" else credit["free"])
            points *= free + (1.0 - free) * (made_for_them if strategy in _PROPOSES else specific)
            if group in _ADVICE:
                before = table["readiness"]["advice_before"]
                points *= before + (1.0 - before) * ready
            bored = mood.intention in table["bored_by_sympathy"]
            if group in _FEELING_WITH and bored and mood.heard >= table["readiness"]["sympathy_after"]:
                points *= table["readiness"]["sympathy_share"]
        else:
            points *= credit["blame"] * (table["readiness"]["blame_before"] if group in _ADVICE and ready < 1.0 else 1.0)
        if rank == 1.0:
            reason = {"A": "question", "D": "presence", "E": "praise", "F": "fitted"}.get(group, "bound")
        points_in_all += points
        rank = credit["second_strategy"]
    if points_in_all:
        worth.append((reason if points_in_all > 0 else "unwelcome", points_in_all))
    if sentence.insight is not None and len(re.findall(r",|\bor\b", sentence.text)) >= table["insight"]["scattered"]:
        worth.append(("scattered", table["insight"]["scattered_cost"]))
    elif sentence.insight is not None:
        depth = next((topic.depth for topic in story.concerns if topic.key == sentence.insight), "surface")
        points = table["insight"][depth]
        points *= 1.0 if sentence.tentative or sentence.question else table["insight"]["plain_share"]
        points *= 1.0 if mood.heard else table["insight"]["early_share"]
        worth.append(("insight", points))
    if sentence.repeats_attempt is not None:
        told = any(topic.told for topic in story.tried if topic.key == sentence.repeats_attempt)
        worth.append(("again", table["attempt"]["again" if told else "untold"]))
    return worth


def _strategies(sentence: Reading, table: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """The two strategies that count. A statement bound to the story that neither asks nor urges restates it, at the least."""
    credit = table["credit"]
    found = sentence.strategies[:2]
    urges = any(name[0] in _ADVICE for name, _ in found)
    if (
        sentence.bound >= credit["restated"]
        and sentence.related
        and not sentence.question
        and not urges
        and "B-2" not in dict(found)
    ):
        found = tuple(sorted((*found[:1], ("B-2", credit["restated_confidence"])), key=lambda pair: -pair[1]))
    return found


def _gate(emotion: float, best_bound: float, table: Mapping[str, Any]) -> float:
    """Share of the credit that passes: all of it from mood 40, below that only for replies specific enough."""
    gate = table["gate"]
    closed = min(1.0, max(0.0, (gate["below"] - emotion) / (gate["below"] - _LOWEST_MOOD)))
    if closed == 0.0 or best_bound >= gate["bound"] * closed:
        return 1.0
    passed: float = gate["share"] + (1.0 - gate["share"]) * best_bound / (gate["bound"] * closed)
    return passed
