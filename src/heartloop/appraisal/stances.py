"""What a reply undertakes: does it refuse, offer, grant, apologise, explain itself away?

Covers the stance of each clause of a sentence, and which matters (lists of cues) it names. Does not cover whether a stance is
right: that depends on what the speaker may do and on what happened (the environments decide).
The wording lies in `stances.toml`; English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from heartloop.appraisal.binding import CueIndex, cue_index, named_topics
from heartloop.appraisal.lexicon import data
from heartloop.appraisal.values import Topic
from heartloop.appraisal.words import Sentence, fold, read_sentence

__all__ = ["Stance", "matters_named", "stances_of"]

_CLAUSE = re.compile(r"\s*(?:[;:–—]|,?\s+\b(?:but|yet|however|though|instead)\b,?)\s*", re.IGNORECASE)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(data('stances.toml')[name])})\b")


def _says(name: str, text: str) -> bool:
    return _pattern(name).search(text) is not None


class Stance(NamedTuple):
    """One clause of a reply, and what it undertakes. A clause can do several things at once."""

    clause: Sentence
    refuses: bool
    offers: bool
    """It holds something out, and neither refuses nor only wishes."""
    grants: bool
    """Words that give in whatever was asked."""
    apologises: bool
    owns: bool
    """The speaker as the one who did it."""
    excuses: bool
    seeks_closeness: bool
    light: bool
    """Something small of one's own, told without weight."""


@lru_cache(maxsize=20_000)
def stances_of(text: str) -> tuple[Stance, ...]:
    """The stances of a sentence, clause by clause, cut at "but", colons and dashes.

    >>> [(s.refuses, s.offers) for s in stances_of("I can't let you in, but I can raise the blind.")]
    [(True, False), (False, True)]
    >>> stances_of("I read a note without checking it.")[0].owns, stances_of("It was a mix-up.")[0].excuses
    (True, True)
    """
    found: list[Stance] = []
    for part in _CLAUSE.split(text):
        if not part or not part.strip(" .,!?"):
            continue
        low = fold(part)
        refuses = _says("refuses", low) or _says("unreal", low)
        found.append(
            Stance(
                clause=read_sentence(part),
                refuses=refuses,
                offers=_says("offers", low) and not refuses,
                grants=_says("grants", low) and not refuses,
                apologises=_says("apologises", low),
                owns=_says("owns", low),
                excuses=_says("excuses", low),
                seeks_closeness=_says("seeks_closeness", low),
                light=_says("light", low),
            )
        )
    return tuple(found)


@lru_cache(maxsize=4_096)
def _index(matters: tuple[tuple[str, tuple[str, ...]], ...]) -> CueIndex:
    return cue_index(Topic(key, cues, told=False) for key, cues in matters)


def matters_named(clause: Sentence, matters: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Keys of those matters, given as (key, cues), that a clause names.

    >>> ways = [("blind", ("the blind", "window")), ("couch", ("couch",))]
    >>> matters_named(read_sentence("I can raise the blind for you."), ways)
    ['blind']
    """
    index = _index(tuple((key, tuple(cues)) for key, cues in matters))
    return [topic.key for topic, _, _ in named_topics(clause, index)]
