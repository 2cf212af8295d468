"""What of a reply stands between quotation marks without being anybody's words.

Covers words that the person never said in this order, words of theirs that were quoted before, greetings, and marks that never
close. Does not cover quoting by a judge (`heartloop.environments.quotes`), nor what a true quotation is worth: it is a copy, as
`binding` reads it. Single marks are apostrophes here and are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from heartloop.appraisal.binding import turned
from heartloop.appraisal.lexicon import class_set
from heartloop.appraisal.words import split_sentences, words_of

__all__ = ["Quotations", "quotations_in", "without_hollow"]

_MARK = '"'
_OPENS_BEHIND = frozenset(" ([-—*_,:")
_CLOSES_BEHIND = frozenset(".,;:!?'" + _MARK)
_GREETINGS = class_set("greeting")
_SHORT = 3
"""Quotations of so many words or fewer are compared whole, longer ones by their runs of so many words."""
_MOST_AGAIN = 0.5


class Quotations(NamedTuple):
    """The sentences of a reply without what is hollow in them."""

    sentences: tuple[str, ...]
    """As `split_sentences` gives them; hollow words are gone, their marks are left."""
    unpaired: frozenset[int]
    """Numbers of sentences with a mark that opens and never closes, or closes what never opened."""
    hollow: int
    """How many quotations were emptied."""


def without_hollow(reply: str, told: Sequence[str], earlier: Sequence[str] = ()) -> str:
    """A reply without the words of its hollow quotations; itself where it has none."""
    found = quotations_in(reply, told, earlier)
    return " ".join(found.sentences) if found.hollow else reply


class _Quotation(NamedTuple):
    parts: tuple[tuple[int, int, int], ...]
    """Sentence, first character and the one behind the last, without the marks."""
    text: str
    closed: bool


def quotations_in(reply: str, told: Sequence[str], earlier: Sequence[str] = ()) -> Quotations:
    """A reply without its hollow quotations.

    A quotation stands for what the person said: word for word but for `my` and `your`, in one message, parts between ellipses in
    their order. One that does not, that mostly holds what was quoted before (in this reply or an `earlier` one), that is a mere
    greeting, or whose mark never closes, is hollow: its words say nothing of this person, whatever they name. A policy in
    training found that they did. A mark without its partner is told apart: nobody speaks so.

    >>> told = ["Good morning. The hens are out, and I shut the coop door myself."]
    >>> quotations_in('I hear "I shut the coop door myself". And "the wooden bolt".', told).sentences
    ('I hear "I shut the coop door myself".', 'And "".')
    >>> quotations_in('You said "good morning". I hear "the hens', told)
    Quotations(sentences=('You said "".', 'I hear "'), unpaired=frozenset({1}), hollow=2)
    """
    sentences = split_sentences(reply)
    found, strays = _marks_in(sentences)
    if not found and not strays:
        return Quotations(tuple(sentences), frozenset(), 0)
    said = [f" {' '.join(turned(words_of(message)))} " for message in told]
    before = {quoted.text for other in earlier for quoted in _marks_in(split_sentences(other))[0]}
    left = list(sentences)
    hollow: list[_Quotation] = []
    for quoted in found:
        if not quoted.closed or not _is_said(quoted.text, said) or _is_again(quoted.text, before):
            hollow.append(quoted)
        before.add(quoted.text)
    for number, first, behind in sorted((part for quoted in hollow for part in quoted.parts), reverse=True):
        left[number] = left[number][:first] + left[number][behind:]
    unpaired = strays | {quoted.parts[0][0] for quoted in found if not quoted.closed}
    return Quotations(tuple(left), unpaired, len(hollow))


def _marks_in(sentences: Sequence[str]) -> tuple[list[_Quotation], frozenset[int]]:
    """The quotations in order, and the numbers of sentences with a mark that closes what never opened.

    A quotation may go over several sentences. A mark opens behind a space or the like, before something; behind a digit it is an
    inch.
    """
    found: list[_Quotation] = []
    strays: set[int] = set()
    if not any(_MARK in text for text in sentences):  # nearly always
        return found, frozenset()
    parts: list[tuple[int, int, int]] = []
    first: int | None = None
    for number, text in enumerate(sentences):
        if parts:
            first = 0
        for at, (before, character) in enumerate(pairwise(" " + text)):
            if character != _MARK:
                continue
            if first is not None:
                found.append(_quotation([*parts, (number, first, at)], sentences, closed=True))
                parts, first = [], None
            elif before in _OPENS_BEHIND and text[at + 1 : at + 2].strip():
                first = at + 1
            elif before.isalpha() or before in _CLOSES_BEHIND:
                strays.add(number)
        if first is not None:
            parts.append((number, first, len(text)))
            first = None
    if parts:
        found.append(_quotation(parts, sentences, closed=False))
    return found, frozenset(strays)


def _quotation(parts: Sequence[tuple[int, int, int]], sentences: Sequence[str], *, closed: bool) -> _Quotation:
    return _Quotation(tuple(parts), " ".join(sentences[number][first:behind] for number, first, behind in parts), closed)


def _is_said(quoted: str, said: Sequence[str]) -> bool:
    """Whether one message holds all parts in their order, and they are more than a greeting."""
    parts = [turned(words) for part in quoted.split("...") if (words := words_of(part))]
    if all(word in _GREETINGS for words in parts for word in words):
        return False
    return any(_in_order(parts, message) for message in said)


def _in_order(parts: Sequence[Sequence[str]], message: str) -> bool:
    at = 0
    for words in parts:
        found = message.find(f" {' '.join(words)} ", at)
        if found < 0:
            return False
        at = found + sum(map(len, words)) + len(words)
    return True


def _is_again(quoted: str, before: set[str]) -> bool:
    """Whether half of a quotation or more was quoted before."""
    runs = _runs(quoted)
    return bool(runs) and any(len(runs & _runs(other)) >= _MOST_AGAIN * len(runs) for other in before)


def _runs(quoted: str) -> frozenset[tuple[str, ...]]:
    words = tuple(turned(words_of(quoted)))
    if len(words) <= _SHORT:
        return frozenset([words]) if words else frozenset()
    return frozenset(zip(words, words[1:], words[2:], strict=False))
