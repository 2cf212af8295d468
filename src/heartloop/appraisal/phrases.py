"""A small language for phrases, so that rules can be read and written without regular expressions.

A phrase is matched against the words of one sentence, contractions opened and punctuation gone (`Sentence.line`):

    i am so sorry        these words in a row
    (hard|tough|no fun)  one of these; `(so|very)?` one of these or none; `(so|very)*` up to four of these; `word?`
    sound*               any word with this beginning
    @distress            any word of that class (`lexicon.toml`)
    _ing                 any word with this ending; `_` alone is any one word
    ...                  up to five words
    ^  $                 the sentence begins here, after `oh`, `well`, `and so` and their like; it ends here

Covers parsing and an index by which only phrases whose words occur are tried: matching stays fast with hundreds of
phrases. Does not cover what a match is worth (`rules`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from heartloop.appraisal.lexicon import class_set, class_words, is_function_word
from heartloop.core.errors import InputError

__all__ = ["Phrase", "PhraseIndex", "parse_phrase"]

_ELEMENT = re.compile(r"\([^()]*\)[?*]?|\.\.\.|\S+")
_MALFORMED = re.compile(r"[,;\[\]]|\([^)]*[(]|^[^(]*\)|\([^)]*$|\)[^(]*\)|(?:^|\))[^(]*\||\(\||\|\)|\|\||\(\s*\)")
_ALWAYS = "*"


class Phrase(NamedTuple):
    """One parsed phrase: its source, its regular expression, and words of which one must be there for it to match."""

    source: str
    regex: re.Pattern[str]
    triggers: frozenset[str]
    """Exact words; `abc*` for a beginning of three letters; `*` alone when nothing is required."""


def _word(text: str) -> str:
    if text.startswith("_"):
        return "[^ ]+" + re.escape(text[1:]) + " "
    if text.startswith("@"):
        return "(?:" + "|".join(_word(w) for w in class_words(text[1:])) + ")"
    if text.endswith("*"):
        return re.escape(text[:-1]) + "[^ ]* "
    return re.escape(text) + " "


def _triggers_of(text: str) -> frozenset[str]:
    if text.startswith("@"):
        return frozenset().union(*(_triggers_of(w) for w in class_words(text[1:])))
    if text.endswith("*"):
        return frozenset({text[:3] + "*"}) if len(text) > 3 else frozenset({_ALWAYS})
    return frozenset({_ALWAYS} if text.startswith("_") else {text})


def _opening() -> str:
    return "^ (?:(?:" + "|".join(re.escape(w) for w in class_words("interjection")) + ") ){0,3}"


def parse_phrase(source: str) -> Phrase:
    """A phrase from its source.

    Raises:
        InputError: an element that the language does not have.

    >>> bool(parse_phrase("^ i am (so|very)? sorry").regex.search(" oh i am sorry for you "))
    True
    """
    if _MALFORMED.search(source):
        raise InputError(
            f"phrase {source!r} has a bracket, a bar or a mark out of place; expected words, (a|b), word*, @class, _ or ..."
        )
    parts: list[str] = []
    best: frozenset[str] = frozenset({_ALWAYS})
    begun = False
    for element in _ELEMENT.findall(source):
        if element == "^":
            parts.append(_opening())
            begun = True
            continue
        if not begun:
            parts.append(" ")
            begun = True
        if element == "$":
            parts.append("$")
        elif element == "...":
            parts.append("(?:[^ ]+ ){0,5}?")
        elif element.startswith("("):
            mark = element[-1] if element[-1] in "?*" else ""
            options = element[1 : -1 - len(mark)].split("|")
            choices = ["".join(_word(w) for w in option.split()) for option in options]
            parts.append("(?:" + "|".join(choices) + ")" + ("{0,4}" if mark == "*" else mark))
            if not mark:
                needed = [min((_triggers_of(w) for w in option.split()), key=_cost) for option in options]
                best = min(best, frozenset().union(*needed), key=_cost)
        elif element.endswith("?"):
            parts.append("(?:" + _word(element[:-1]) + ")?")
        else:
            parts.append(_word(element))
            best = min(best, _triggers_of(element), key=_cost)
    return Phrase(source, re.compile("".join(parts)), best)


_COMMON = class_set("frequent")


def _cost(triggers: frozenset[str]) -> float:
    """How often a set of triggers would let a phrase be tried, roughly."""
    if _ALWAYS in triggers:
        return 1000.0
    return sum(20.0 if t in _COMMON else 5.0 if is_function_word(t) else 0.1 for t in triggers)


class PhraseIndex:
    """Finds which of many phrases a sentence holds.

    >>> index = PhraseIndex([("sorry", parse_phrase("i am sorry")), ("hard", parse_phrase("(sounds|is) hard"))])
    >>> [(name, quote) for name, quote in index.matches(("i", "am", "sorry"), " i am sorry ")]
    [('sorry', 'i am sorry')]
    """

    def __init__(self, phrases: Iterable[tuple[str, Phrase]]) -> None:
        self._phrases = tuple(phrases)
        self._by_word: dict[str, list[int]] = {}
        self._known: dict[str, tuple[int, ...]] = {}
        for number, (_, phrase) in enumerate(self._phrases):
            for trigger in phrase.triggers:
                self._by_word.setdefault(trigger, []).append(number)

    def _tried_for(self, word: str) -> tuple[int, ...]:
        known = self._known.get(word)
        if known is None:
            known = (*self._by_word.get(word, ()), *self._by_word.get(word[:3] + "*", ()))
            if len(self._known) < 20_000:
                self._known[word] = known
        return known

    def matches(self, words: Sequence[str], line: str, among: Container[str] | None = None) -> list[tuple[str, str]]:
        """Names of the phrases found, in the order they were given, each with the words it was seen in; every name once.

        With `among`, only phrases of these names are tried.
        """
        numbers = set(self._by_word.get(_ALWAYS, ())).union(*map(self._tried_for, words))
        found: dict[str, str] = {}
        for number in sorted(numbers):
            name, phrase = self._phrases[number]
            if name not in found and (among is None or name in among) and (match := phrase.regex.search(line)):
                found[name] = match.group().strip()
        return list(found.items())
