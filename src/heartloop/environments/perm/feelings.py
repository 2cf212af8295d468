"""Which feelings an analysis names, and whether they are the person's (ours).

Covers feelings by family (`needs.toml`), so that "worried" of somebody who is listed as scared is the plain feeling; denials; and
telling right ones from misreadings and from those that are neither. Does not cover levels (`embedded_user`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from heartloop.appraisal import matters_named
from heartloop.appraisal.lexicon import is_function_word
from heartloop.appraisal.words import read_sentence, words_of
from heartloop.environments.noticing import DENIAL
from heartloop.environments.reacting import weights_of

__all__ = ["Felt", "families", "felt"]


class Felt(NamedTuple):
    """What an analysis says that somebody feels, each family with the first sentence that says so."""

    right: Mapping[str, str]
    misread: Mapping[str, str]
    """Those that stand among the sample's misreadings."""
    beside: Mapping[str, str]
    """Neither right nor a misreading."""


@lru_cache(maxsize=1)
def families() -> Mapping[str, str]:
    """The family of a word for a feeling, or of words such as "let down"."""
    return {word: family for family, words in weights_of(__package__)["feelings"].items() for word in words}


def felt(sentences: Sequence[str], feelings: Sequence[str], misreadings: Sequence[str], denies: int) -> Felt:
    """The feelings that sentences say are there; one that is denied is not said.

    A word of the sample's own lists goes by its list, any other by its family. Words of one family are one feeling.

    Args:
        denies: words before a feeling in which a "not" denies it.
    """
    mine, other = _families_of(tuple(feelings)), tuple(misreadings)
    right: dict[str, str] = {}
    misread: dict[str, str] = {}
    beside: dict[str, str] = {}
    for text in sentences:
        words = words_of(text)
        for n, word in enumerate(words):
            two = " ".join(words[n : n + 2])
            family = families().get(two) or families().get(word, "")
            own = _own(two, tuple(feelings)) or _own(word, tuple(feelings))
            wrong = "" if own else _own(two, other) or _own(word, other)
            if not (own or wrong or family) or DENIAL & set(words[max(0, n - denies) : n]):
                continue
            if own or (family in mine and not wrong):
                right.setdefault(family or own, text)
            else:
                (misread if wrong else beside).setdefault(family or wrong, text)
    return Felt(right, {k: v for k, v in misread.items() if k not in right}, {k: v for k, v in beside.items() if k not in right})


@lru_cache(maxsize=2_000)
def _families_of(names: tuple[str, ...]) -> frozenset[str]:
    """The families of a sample's words; of several words, such as "afraid to push", those of its first that has one."""
    found = set()
    for name in names:
        words = words_of(name)
        keys = [name, *(" ".join(words[n : n + 2]) for n in range(len(words))), *words]
        found.add(next((families()[key] for key in keys if key in families()), ""))
    return frozenset(found - {""})


@lru_cache(maxsize=50_000)
def _own(said: str, names: tuple[str, ...]) -> str:
    """The name for which this word, or these two, stand by themselves."""
    if " " in said:
        return next((name for name in names if name == said), "")
    if len(said) < 3 or is_function_word(said):
        return ""
    rows = tuple((name, (name,)) for name in names)
    return next(iter(matters_named(read_sentence(said), rows)), "")
