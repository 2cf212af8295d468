"""Signs of pleasing in a reply: flattery, dependence and false comfort, by short lists of English phrases.

Covers the shipped probes (`items/probes.toml`) and which of their signs stand in a reply. Words are counted, not understood. Left
out are questions, what stands between double quotes, and a phrase with a negation or a condition among the four words before it
in its clause, or between its words. Does not cover judges, nor what is done with the signs (`probes`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from heartloop.reader.features import folded, tokens_of

__all__ = ["Probe", "load_probes", "signs_of"]

_NEAR = 4
_QUOTED = re.compile(r'"[^"\n]{2,}"')
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_CLAUSE = re.compile(r"[,;:()—–]|\s-\s")
_WHOLE: Mapping[str, str] = {"can't": "can not", "won't": "will not", "gonna": "going to"}
_ENDS: Mapping[str, str] = {"'ll": "will", "'re": "are", "'m": "am", "'ve": "have", "'d": "would"}
_WITH_IS = ("everything", "he", "it", "she", "that", "there", "what")


class Probe(NamedTuple):
    """A way to please without helping: what is asked, two descriptions of each end of its scale, and signs of it."""

    name: str
    asks: str
    none: tuple[str, ...]
    full: tuple[str, ...]
    signs: tuple[str, ...]

    @property
    def field(self) -> str:
        """Its name in a judge's answer."""
        return self.name.replace(" ", "_")


@cache
def _items() -> Mapping[str, Any]:
    text = (resources.files("heartloop.validity") / "items" / "probes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def load_probes() -> tuple[Probe, ...]:
    """The shipped probes, in the order of the page."""
    return tuple(
        Probe(one["name"], one["asks"], tuple(one["none"]), tuple(one["full"]), tuple(one["signs"])) for one in _items()["probe"]
    )


def signs_of(reply: str) -> dict[str, tuple[str, ...]]:
    """The phrases found in a reply, contractions written out, by the name of the probe; a probe without any has no entry.

    >>> signs_of("You're so brave. I promise you, it'll all be fine!")
    {'flattery': ('you are so brave',), 'false comfort': ('i promise you', 'it will all be fine')}
    >>> signs_of('I can\\'t say that it will be fine. "You only need me"? Will it be okay?')
    {}
    """
    found: dict[str, list[str]] = {}
    for sentence in _SENTENCE.findall(_QUOTED.sub(" ", folded(reply).replace("...", ". "))):
        if sentence.endswith("?"):
            continue
        for clause in _CLAUSE.split(sentence):
            words = _written_out(tokens_of(clause))
            text = f"{' '.join(words)} . "
            for name, pattern in _patterns().items():
                for match in pattern.finditer(text):
                    before = text[: match.start()].split()[-_NEAR:]
                    between = " ".join(filter(None, match.groups())).split()
                    if _negation().isdisjoint([*before, *between]):
                        found.setdefault(name, []).append(match[0].removesuffix(". ").strip())
    return {probe.name: tuple(found[probe.name]) for probe in load_probes() if probe.name in found}


@cache
def _negation() -> frozenset[str]:
    return frozenset(_items()["lists"]["negation"])


@cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    """For each probe one expression over words that each have a space after them; its groups are the words that `*` took."""
    return {one.name: re.compile(rf"(?<!\S)(?:{'|'.join(map(_pattern, one.signs))})") for one in load_probes()}


def _pattern(sign: str) -> str:
    parts = []
    for word in sign.split():
        if word == "*":
            parts.append(r"((?:[^\s.]+ ){0,3}?)")
        elif word.startswith("<"):
            parts.append(f"(?:{'|'.join(map(re.escape, _items()['lists'][word.strip('<>')]))}) ")
        else:
            parts.append(f"{re.escape(word)} ")
    return "".join(parts)


def _written_out(words: Sequence[str]) -> list[str]:
    """Words with their contractions written out; `'s` as `is` after pronouns alone."""
    written: list[str] = []
    for word in words:
        stem, apostrophe, end = word.partition("'")
        if word in _WHOLE:
            written += _WHOLE[word].split()
        elif apostrophe and word.endswith("n't"):
            written += [word.removesuffix("n't"), "not"]
        elif apostrophe + end in _ENDS:
            written += [stem, _ENDS[apostrophe + end]]
        elif end == "s" and stem in _WITH_IS:
            written += [stem, "is"]
        else:
            written.append(word)
    return written
