"""What is wrong with a reply, whoever the person is: fifteen kinds, each graded from 0 to 1.

Covers finding them and how severe each is. Does not cover what they cost: that depends on the person, and the
environments decide. The wording is in `flaws.toml`. Within a kind, sentences add up as chances do, 1 - (1 - a)(1 - b):
one more flawed sentence never makes a reply better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, cast, get_args

from heartloop.appraisal.binding import Bond, Ground
from heartloop.appraisal.lexicon import data
from heartloop.appraisal.phrases import PhraseIndex, parse_phrase
from heartloop.appraisal.strategies import strategies_of
from heartloop.appraisal.values import Flaw, FlawKind, Reading
from heartloop.appraisal.words import READ_CHARACTERS, Sentence, content_stems, read_sentence, split_sentences, stem, words_of
from heartloop.core.errors import InputError

__all__ = ["flaws_of", "told_lines_of"]

_KINDS: tuple[FlawKind, ...] = get_args(FlawKind)
_FREE_BELOW = 0.2
"""A sentence less bound than this could be said to anyone."""
_MAY_QUOTE = frozenset({"template", "lecture", "minimise", "claims_state", "flattery"})
_LONGEST_QUOTE = 120
_LONGEST_LINE = 600


class _Pattern(NamedTuple):
    kind: FlawKind
    severity: float
    free: bool
    unless: frozenset[str]
    unless_words: frozenset[str]
    unless_told: frozenset[str]
    raw: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[_Pattern, ...], PhraseIndex]:
    patterns: list[_Pattern] = []
    phrases: list[tuple[str, str]] = []
    for number, entry in enumerate(data("flaws.toml")["pattern"]):
        if entry["kind"] not in _KINDS:
            raise InputError(f"flaws.toml has kind {entry['kind']!r}; expected one of {', '.join(_KINDS)}")
        patterns.append(
            _Pattern(
                cast(FlawKind, entry["kind"]),
                float(entry["severity"]),
                bool(entry.get("free", False)),
                frozenset(entry.get("unless", "").split()),
                frozenset(entry.get("unless_words", "").split()),
                frozenset(stem(w) for w in entry.get("unless_told", "").split()),
                tuple(re.compile(raw, re.IGNORECASE) for raw in entry.get("raw", ())),
            )
        )
        phrases.extend((str(number), source) for source in entry.get("phrases", ()))
    return tuple(patterns), PhraseIndex((name, parse_phrase(source)) for name, source in phrases)


class _Tally:
    """Adds up severities by kind and keeps the words of the worst."""

    def __init__(self) -> None:
        self._missing: dict[FlawKind, float] = {}
        self._worst: dict[FlawKind, tuple[float, str]] = {}

    def add(self, kind: FlawKind, severity: float, quote: str) -> None:
        severity = min(1.0, max(0.0, severity))
        if severity <= 0:
            return
        self._missing[kind] = self._missing.get(kind, 1.0) * (1.0 - severity)
        if severity > self._worst.get(kind, (0.0, ""))[0]:
            self._worst[kind] = (severity, " ".join(quote.split())[:_LONGEST_QUOTE])

    def flaws(self) -> tuple[Flaw, ...]:
        found = [Flaw(kind, round(1.0 - missing, 4), self._worst[kind][1]) for kind, missing in self._missing.items()]
        return tuple(sorted((f for f in found if f.severity > 0), key=lambda flaw: (-flaw.severity, flaw.kind)))


def flaws_of(
    reply: str, words: int, read: Sequence[Sentence], readings: Sequence[Reading], bonds: Sequence[Bond], ground: Ground,
    told_last: str, told_lines: Sequence[str], earlier: Sequence[str],
) -> tuple[Flaw, ...]:  # fmt: skip
    """All flaws of a reply, worst first; `read`, `readings` and `bonds` run along its sentences."""
    tally = _Tally()
    _wording(tally, read, readings, ground, told_lines)
    _markup(tally, reply, ground)
    _advice(tally, readings, len(earlier))
    _length(tally, words, told_last, reply)
    _echo(tally, read, bonds)
    _repetition(tally, read, readings, earlier)
    _brokenness(tally, read, readings)
    return tally.flaws()


def _wording(
    tally: _Tally, read: Sequence[Sentence], readings: Sequence[Reading], ground: Ground, told_lines: Sequence[str]
) -> None:
    patterns, index = _patterns()
    for sentence, reading in zip(read, readings, strict=True):
        worst: dict[FlawKind, tuple[float, str]] = {}
        for name, quote in index.matches(sentence.words, sentence.line):
            pattern = patterns[int(name)]
            if pattern.free and reading.bound >= _FREE_BELOW and not reading.broken:
                continue
            if "question" in pattern.unless and reading.question:
                continue
            if pattern.unless_words & set(sentence.words) or any(word in ground.told for word in pattern.unless_told):
                continue
            if pattern.kind in _MAY_QUOTE and " " in quote and any(f" {quote} " in line for line in told_lines):
                continue
            if pattern.severity > worst.get(pattern.kind, (0.0, ""))[0]:
                worst[pattern.kind] = (pattern.severity, quote)
        for kind, (severity, quote) in worst.items():
            tally.add(kind, severity, quote)


def _markup(tally: _Tally, reply: str, ground: Ground) -> None:
    """Patterns on the text as written: bullets, gestures, braces."""
    patterns, _ = _patterns()
    raw = [(p, regex) for p in patterns for regex in p.raw]
    for line in reply[:READ_CHARACTERS].splitlines():
        for start in range(0, len(line), _LONGEST_LINE):
            piece = line[start : start + _LONGEST_LINE]
            if not piece.strip():
                continue
            worst: dict[FlawKind, tuple[float, str]] = {}
            for pattern, regex in raw:
                if start and regex.pattern.startswith("^"):
                    continue
                match = regex.search(piece)
                if match and pattern.severity > worst.get(pattern.kind, (0.0, ""))[0]:
                    if any(word in ground.told for word in pattern.unless_told):
                        continue
                    worst[pattern.kind] = (pattern.severity, match.group() if len(match.group()) > 6 else piece)
            for kind, (severity, quote) in worst.items():
                tally.add(kind, severity, quote)


def _advice(tally: _Tally, readings: Sequence[Reading], replies_before: int) -> None:
    limits = data("flaws.toml")["early_advice"]
    if replies_before >= limits["listening"]:
        return
    severity = limits["first"] if replies_before == 0 else limits["second"]
    for reading in readings:
        if reading.broken or not reading.strategies:
            continue
        best, confidence = reading.strategies[0]
        if confidence < limits["least_confidence"] or not (best.startswith("F") or best == "G-2") or best == "F-1":
            continue
        milder = (limits["as_question"] if reading.question else 1.0) * (limits["bound"] if reading.bound >= _FREE_BELOW else 1.0)
        tally.add("early_advice", severity * confidence * milder, reading.text)


def _length(tally: _Tally, words: int, told_last: str, reply: str) -> None:
    limits = data("flaws.toml")["overlong"]
    allowed = max(limits["at_least"], min(limits["words"], limits["times_last"] * len(told_last.split())))
    if words > allowed:
        tally.add("overlong", (words - allowed) / allowed, reply[:_LONGEST_QUOTE])


def _echo(tally: _Tally, read: Sequence[Sentence], bonds: Sequence[Bond]) -> None:
    limits = data("flaws.toml")["echo"]
    total = sum(len(s.words) for s in read)
    echoed = [
        s
        for s, b in zip(read, bonds, strict=True)
        if b.copied >= limits["sentence_from"] and len(s.words) >= limits["least_words"]
    ]
    if echoed:
        share = sum(len(s.words) for s in echoed) / total
        tally.add("echo", (share - limits["reply_from"]) / (limits["reply_full"] - limits["reply_from"]), echoed[0].text)


class _Said(NamedTuple):
    pairs: frozenset[tuple[str, str]]
    sentences: frozenset[tuple[str, ...]]
    opening: tuple[str, ...]
    lines: tuple[str, ...]


@lru_cache(maxsize=512)
def _said(reply: str) -> _Said:
    read = [read_sentence(text) for text in split_sentences(reply)]
    pairs: set[tuple[str, str]] = set()
    for sentence in read:
        stems = content_stems(sentence.words)
        pairs.update(pairwise(stems))
    return _Said(
        frozenset(pairs), frozenset(s.words for s in read), read[0].words[:3] if read else (), tuple(s.text for s in read[:3])
    )


def _repetition(tally: _Tally, read: Sequence[Sentence], readings: Sequence[Reading], earlier: Sequence[str]) -> None:
    if not earlier or not read:
        return
    limits = data("flaws.toml")["repetition"]
    recency = limits["recency"]
    before = [_said(text) for text in reversed(earlier[-len(recency) :])]
    for sentence in read:
        stems = content_stems(sentence.words)
        pairs = set(pairwise(stems))
        for weight, said in zip(recency, before, strict=False):
            if sentence.words in said.sentences and len(sentence.words) > 2:
                same = 1.0
            else:
                same = len(pairs & said.pairs) / len(pairs) if len(pairs) >= 2 else 0.0
            if same >= limits["same_words_from"]:
                tally.add("repetition", limits["severity"] * weight * same * min(1.0, len(sentence.words) / 6), sentence.text)
    for said in before:
        if len(said.opening) == 3 and read[0].words[:3] == said.opening:
            tally.add("repetition", limits["opening"], " ".join(said.opening))
    groups = _groups(readings[:3])
    if len(groups) == 3 and "-" not in groups:
        for said in before[:2]:
            if tuple((strategies_of(text) or (("-", 0.0),))[0][0][0] for text in said.lines) == groups:
                tally.add("repetition", limits["pattern"], " ".join(r.text for r in readings[:3]))


def _groups(readings: Iterable[Reading]) -> tuple[str, ...]:
    return tuple(r.strategies[0][0][0] if r.strategies else "-" for r in readings)


def _brokenness(tally: _Tally, read: Sequence[Sentence], readings: Sequence[Reading]) -> None:
    total = sum(max(1, len(s.words)) for s in read)
    broken = [(s, r) for s, r in zip(read, readings, strict=True) if r.broken]
    if broken:
        share = sum(max(1, len(s.words)) for s, _ in broken) / total
        tally.add("broken", share / data("flaws.toml")["broken"]["full_at"], broken[0][1].text)


def told_lines_of(told: Iterable[str]) -> tuple[str, ...]:
    """What the person said, as lines of words, so that quoting them can be recognised."""
    return tuple(" " + " ".join(w for w in words_of(text) if w != "'s") + " " for text in told)
