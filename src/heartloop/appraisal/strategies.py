"""Which of the 24 support strategies a sentence uses (SAGE Table 4, definitions in App. G).

Covers the table and the reading of one sentence. Does not cover the wording of the rules (`rules.toml`), nor whether
a strategy does this person any good (the environments decide).

Method: every rule that fires adds evidence, in log odds, for or against strategies; a logistic turns the sum into
a confidence. Departures: the paper asks a language model to mark paragraphs; we read sentences by rules, so that the
same reply is always read the same way. B-3 (the unspoken feeling) is recognised by its construction, not by being right.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from heartloop.appraisal.grammar import features_of
from heartloop.appraisal.lexicon import data
from heartloop.appraisal.phrases import PhraseIndex, parse_phrase
from heartloop.appraisal.words import read_sentence
from heartloop.errors import InputError

__all__ = ["LEAST_CONFIDENCE", "STRATEGIES", "Strategy", "strategies_of"]

LEAST_CONFIDENCE = 0.3
"""A strategy below this confidence is not named."""


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
    number: int
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
def _rules() -> tuple[tuple[_Rule, ...], PhraseIndex, float]:
    table = data("rules.toml")
    rules: list[_Rule] = []
    phrases: list[tuple[str, str]] = []
    for number, entry in enumerate(table["rule"]):
        when = entry.get("when", "").split()
        rules.append(
            _Rule(
                number,
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
    worded = {int(name) for name, _ in index.matches(read.words, read.line)}
    odds = dict.fromkeys(STRATEGIES, start)
    for rule in rules:
        if (rule.worded and rule.number not in worded) or not rule.present <= features or rule.absent & features:
            continue
        for strategy, weight in rule.evidence:
            odds[strategy] += weight
    found = [(strategy, 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, value))))) for strategy, value in odds.items()]
    kept = [(strategy, round(value, 4)) for strategy, value in found if value >= LEAST_CONFIDENCE]
    return tuple(sorted(kept, key=lambda pair: (-pair[1], pair[0])))
