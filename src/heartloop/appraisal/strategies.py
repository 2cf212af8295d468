"""Which of the 24 support strategies a sentence uses (SAGE Table 4, definitions in App. G).

Covers the table and the reading of one sentence. Does not cover the wording of the rules (`rules.toml`), nor whether
a strategy does this person any good (the environments decide).

Method: every rule that fires adds evidence, in log odds, for or against strategies; what the build of the sentence
suggests by itself is added to the likeliest strategy of each group; a logistic turns the sum into a confidence.
Departures: the paper asks a language model to mark paragraphs; we read sentences by rules, so that the same reply is
always read the same way. B-3 (the unspoken feeling) is recognised by its construction, not by being right.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from heartloop.appraisal.grammar import features_of
from heartloop.appraisal.lexicon import data
from heartloop.appraisal.phrases import PhraseIndex, parse_phrase
from heartloop.appraisal.words import read_sentence
from heartloop.core.errors import InputError

__all__ = ["LEAST_CONFIDENCE", "STRATEGIES", "Strategy", "strategies_of"]

LEAST_CONFIDENCE = 0.3
"""A strategy below this confidence is not named."""
_LEAST_GUESS = -2.2
_WORDS_FOR_A_GUESS = 4  # a whole sentence for which nothing is likely gets its best guess, at the least confidence
_LEAST_ODDS = math.log(LEAST_CONFIDENCE / (1.0 - LEAST_CONFIDENCE))


class Strategy(NamedTuple):
    """One of the 24 support strategies: its id, its group and the names of both (SAGE Table 4)."""

    id: str
    group: str
    group_name: str
    name: str


_GROUPS = {
    "A": ("Question", ("Asking for facts", "Asking how it feels inside", "Asking what has been tried", "Asking for their view",
                       "A question to think on")),
    "B": ("Emotional empathy", ("Surface empathy", "Empathy with the problem restated", "Empathy with what is unspoken")),
    "C": ("Self-disclosure", ("In your place I would feel the same", "A story of one's own")),
    "D": ("Emotional comfort", ("Comforting words", "Offering to listen", "Venting on their behalf")),
    "E": ("Affirmation and reassurance", ("Praise of who they are", "Praise of what they think", "Praise of what they did",
                                          "Standing by them")),
    "F": ("Suggestions", ("Analysis of the problem", "Relief for the moment", "Seeing a professional", "General advice",
                          "Advice cut to their situation")),
    "G": ("Information", ("Facts about feelings", "Facts about solutions")),
}  # fmt: skip

STRATEGIES: dict[str, Strategy] = {
    f"{group}-{number}": Strategy(f"{group}-{number}", group, group_name, name)
    for group, (group_name, names) in _GROUPS.items()
    for number, name in enumerate(names, start=1)
}
"""The 24 strategies of SAGE Table 4 by id, named in our own short words."""


class _Rule(NamedTuple):
    name: str
    worded: bool
    present: frozenset[str]
    absent: frozenset[str]
    evidence: tuple[tuple[str, float], ...]


def _evidence_of(entry: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Evidence with group letters opened: `A = 1` counts for A-1 to A-5."""
    found: dict[str, float] = {}
    for name, weight in entry.items():
        ids = [name] if name in STRATEGIES else [i for i in STRATEGIES if i[0] in name.split("-")[0] and "-" not in name]
        if not ids:
            raise InputError(f"rules.toml has evidence for {name!r}; expected a strategy such as 'B-2' or groups such as 'AF'")
        for strategy in ids:
            found[strategy] = found.get(strategy, 0.0) + float(weight)
    return tuple(found.items())


@lru_cache(maxsize=1)
def _build() -> tuple[tuple[float, ...], dict[str, tuple[float, ...]], tuple[int, ...]]:
    """What the build of a sentence suggests: per group for any sentence, per group by feature, and each strategy's group."""
    table = data("rules.toml")["build"]
    groups = tuple(table["groups"].index(strategy.group) for strategy in STRATEGIES.values())
    return tuple(table["always"]), {name: tuple(row) for name, row in table["features"].items()}, groups


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[_Rule, ...], PhraseIndex, float]:
    table = data("rules.toml")
    rules: list[_Rule] = []
    phrases: list[tuple[str, str]] = []
    for number, entry in enumerate(table["rule"]):
        when = entry.get("when", "").split()
        rules.append(
            _Rule(
                str(number),
                "phrases" in entry,
                frozenset(w for w in when if not w.startswith("!")),
                frozenset(w[1:] for w in when if w.startswith("!")),
                _evidence_of(entry["evidence"]),
            )
        )
        phrases.extend((str(number), source) for source in entry.get("phrases", ()))
    index = PhraseIndex((name, parse_phrase(source)) for name, source in phrases)
    return tuple(rules), index, float(table["start"]["log_odds"])


@lru_cache(maxsize=4_000)
def strategies_of(sentence: str, context: str = "") -> tuple[tuple[str, float], ...]:
    """The support strategies of one sentence, best first, each with a confidence in [0.3, 1]; may be empty.

    `context` is what the person said, last or so far: with it, advice and empathy that take up what was told are known as such.

    >>> strategies_of("Have you tried talking to her about it?")[0][0]
    'A-3'
    >>> strategies_of("table carpet moon")
    ()
    """
    read = read_sentence(sentence)
    if not read.words:
        return ()
    rules, index, start = _rules()
    features = features_of(read, context)
    possible = [rule for rule in rules if rule.present <= features and rule.absent.isdisjoint(features)]
    worded = {name for name, _ in index.matches(read.words, read.line, {rule.name for rule in possible})}
    always, by_feature, groups = _build()
    rows = [always, *(by_feature[name] for name in features if name in by_feature)]
    leaning = [sum(column) for column in zip(*rows, strict=True)]
    odds = dict.fromkeys(STRATEGIES, start)
    for rule in possible:
        if not rule.worded or rule.name in worded:
            for strategy, weight in rule.evidence:
                odds[strategy] += weight
    likeliest: dict[int, str] = {}
    for name, group in zip(STRATEGIES, groups, strict=True):
        if group not in likeliest or odds[name] > odds[likeliest[group]]:
            likeliest[group] = name
    for group, name in likeliest.items():
        odds[name] += leaning[group]
    kept = [(name, round(1.0 / (1.0 + math.exp(-min(value, 30.0))), 4)) for name, value in odds.items() if value >= _LEAST_ODDS]
    if not kept and len(read.words) >= _WORDS_FOR_A_GUESS and "verbless" not in features:
        best = max(odds, key=lambda name: odds[name])
        kept = [(best, LEAST_CONFIDENCE)] if odds[best] >= _LEAST_GUESS else []
    return tuple(sorted(kept, key=lambda pair: (-pair[1], pair[0])))
