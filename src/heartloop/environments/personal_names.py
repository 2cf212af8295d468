"""Names of people in the dialogues of a chat log.

Covers listed given names (`names.toml` and `places`), names that a sentence introduces ("my name is", "my sister X", "Dr X",
"Hi X", "X told me"), and the family names after them. Does not cover unlisted lower-case names, unlisted family names without a
given name, nor scripts other than Latin.

A word that is a name once in a dialogue is a name in all of it. If it is also an ordinary word (Will, Grace), its position
decides.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from heartloop.environments.places import places

__all__ = ["People"]


class _Word(NamedTuple):
    text: str
    """With its possessive ending."""
    bare: str
    """Without its possessive ending."""
    start: int
    end: int
    """Of the bare word."""

    @property
    def capital(self) -> bool:
        return self.bare[:1].isupper()

    @property
    def titled(self) -> bool:
        """Whether it has an initial capital and is not all capitals."""
        return self.capital and (len(self.bare) == 1 or not self.bare.isupper())


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_END = re.compile(r"[.!?\n:;\"“”)(…-]['\"“”’)(]*\s*$")
_NO_NAME_ENDING = re.compile(r"(?:ing|ed|ful|less|ous|ive|able|ible|ish|ness|ment|tion|ally|est|ier|ient|ical|istic)$")


@cache
def _listed(group: str) -> frozenset[str]:
    table = tomllib.loads((resources.files(__package__) / "names.toml").read_text(encoding="utf-8"))
    if group != "given":
        return frozenset(table[group].split())
    composed = {name.casefold() for place in places() for name in (*place.women, *place.men)}
    words = _listed("either") | _listed("context") | _listed("never")
    return frozenset({*table["given"].split(), *composed} - words)


@cache
def _hand_written() -> frozenset[str]:
    """Listed names that are also removed if in lower case."""
    table = tomllib.loads((resources.files(__package__) / "names.toml").read_text(encoding="utf-8"))
    return frozenset(name for name in table["given"].split() if len(name) > 2 and not _is_ordinary(name))


@lru_cache(maxsize=20_000)
def _is_known(word: str) -> bool:
    """Whether a word is an ordinary one, which a capital does not make a name."""
    low = re.sub("'(?:m|re|ve|ll|d|t)$", "", word.casefold().replace("’", "'"))
    plain = low.removesuffix("s") if len(low) > 3 else low
    return _is_ordinary(low) or _is_ordinary(plain) or low in _role_words()


@lru_cache(maxsize=20_000)
def _is_ordinary(word: str) -> bool:
    return word in _listed("ordinary") or word in _listed("never") or word.startswith(_beginnings())


@cache
def _beginnings() -> tuple[str, ...]:
    return tuple(sorted(_listed("ordinary_beginnings")))


@cache
def _all_names() -> frozenset[str]:
    return _listed("given") | _listed("either") | _listed("context")


@cache
def _doubtful() -> frozenset[str]:
    return _listed("either") | _listed("context") | _listed("never")


@cache
def _role_words() -> frozenset[str]:
    return frozenset().union(*map(_listed, ("relations", "greetings", "titles", "speech")))


def _words(text: str) -> list[_Word]:
    words = []
    for match in _WORD.finditer(text):
        bare = re.sub(r"(?:['’]s|['’])$", "", match[0], flags=re.IGNORECASE) or match[0]
        words.append(_Word(match[0], bare, match.start(), match.start() + len(bare)))
    return words


class People:
    """The names of one dialogue: `read` finds them in all texts, then `replace` replaces them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._count = 0

    def add(self, name: str) -> None:
        """Adds a name that the log gives outside the texts."""
        self._add([word for word in _words(name) if not _is_known(word.bare)])

    def _add(self, name: Sequence[_Word]) -> None:
        if not name:
            return
        first = name[0].bare.casefold()
        if first not in self._numbers:
            self._count += 1
            self._numbers[first] = self._count
        for word in name[1:]:
            self._numbers.setdefault(word.bare.casefold(), self._numbers[first])

    def read(self, text: str) -> None:
        """Finds the names of a text."""
        words = _words(text)
        for place, word in enumerate(words):
            if self._is_name(text, words, place):
                self._add([word, *_rest(text, words, place, small=word.bare.islower() and _introduced(text, words, place))])

    def replace(self, text: str, placeholder: Callable[[int], str]) -> str:
        """The text with `placeholder(number)` instead of each name; persons are numbered from 1."""
        words = _words(text)
        parts: list[str] = []
        done, place = 0, 0
        while place < len(words):
            word = words[place]
            number = self._numbers.get(word.bare.casefold())
            if number is None or not self._is_name_here(text, words, place):
                place += 1
                continue
            last = place
            while (after := self._next_part(text, words, last)) is not None:
                last = after
            parts += [text[done : word.start], placeholder(number)]
            done, place = words[last].end, last + 1
        return "".join([*parts, text[done:]])

    def _next_part(self, text: str, words: Sequence[_Word], place: int) -> int | None:
        """Position of the next part of the name, which may follow an initial or particles."""
        for after in range(place + 1, min(place + 4, len(words))):
            if not _joined(text, words[after - 1], words[after]):
                return None
            if words[after].bare.casefold() in self._numbers:
                return after if words[after].capital >= words[place].capital else None
            if not _between(words[after]):
                return None
        return None

    def _is_name(self, text: str, words: Sequence[_Word], place: int) -> bool:
        word = words[place]
        low = word.bare.casefold()
        if low in _listed("given") and (word.capital or low in _hand_written()):
            return True
        if "-" in low and word.capital and any(part in _listed("given") for part in low.split("-")):
            return True
        inside = _inside(text, words, place)
        owns = word.text != word.bare  # Will's
        if low in _listed("either") and word.titled and (owns or (inside and not _after_article(words, place))):
            return True
        return _introduced(text, words, place) or _signs_or_acts(text, words, place, inside)

    def _is_name_here(self, text: str, words: Sequence[_Word], place: int) -> bool:
        """Whether a word that is a name in this dialogue is one at this position."""
        word = words[place]
        low = word.bare.casefold()
        if not (_is_ordinary(low) or low in _doubtful()):
            return word.capital or len(low) > 2
        if _introduced(text, words, place):
            return True
        if not word.titled:
            return False
        inside = _inside(text, words, place)
        following = words[place + 1].bare.casefold() if place + 1 < len(words) else ""
        return inside or not (following in _listed("asked") or low in _listed("context"))  # "Will you", "Hope it"


def _rest(text: str, words: Sequence[_Word], place: int, *, small: bool) -> list[_Word]:
    """The further names after a given name, with particles and initials between; `small` allows lower case."""
    rest: list[_Word] = []
    between: list[_Word] = []
    for before, word in zip(words[place:], words[place + 1 : place + 5], strict=False):
        if not _joined(text, before, word):
            break
        low = word.bare.casefold()
        if _between(word):
            between.append(word)
        elif (
            (word.titled or (word.capital and before.bare.isupper()) or (small and len(low) > 3))
            and not _is_known(word.bare)
            and low not in _listed("context")
        ):
            rest += [one for one in between if len(one.bare) > 1 and one.capital] + [word]
            between = []
        else:
            break
    return rest


def _between(word: _Word) -> bool:
    """Whether a word can be between the parts of a name: a particle or an initial."""
    low = word.bare.casefold()
    return low in _listed("particles") or (len(low) == 1 and word.capital and low != "i")


def _inside(text: str, words: Sequence[_Word], place: int) -> bool:
    """Whether the word does not begin a sentence, so that its capital is informative."""
    return place > 0 and not _END.search(text[words[place - 1].end : words[place].start])


def _joined(text: str, before: _Word, after: _Word) -> bool:
    """Whether two words can be parts of one name: separated by a space, with a full stop only after an initial."""
    return before.text == before.bare and text[before.end : after.start] in ((" ", ". ") if len(before.bare) == 1 else (" ",))


def _after_article(words: Sequence[_Word], place: int) -> bool:
    return words[place - 1].bare.casefold() in {"the", "a", "an"}


def _introduced(text: str, words: Sequence[_Word], place: int) -> bool:
    """Whether the words before this one introduce a name."""
    if place == 0:
        return False
    word = words[place]
    low = word.bare.casefold()
    before = [one.text.casefold().replace("’", "'") for one in words[max(0, place - 3) : place]]
    gap = text[words[place - 1].end : word.start]
    if not re.fullmatch(r"(?:'s)?[\s,:.\"'“‘-]{1,4}", gap) or "\n\n" in gap:
        return False
    listed = low in _all_names()
    open_ = word.titled and not _is_known(word.bare)
    spaced = gap.isspace()
    last = before[-1]
    if last in ("name's", "named") or before[-2:] in (["name", "is"], ["names", "is"], ["name", "was"]):
        return listed or not _is_known(word.bare)
    if (last in ("i'm", "im") or before[-2:] == ["i", "am"]) and spaced:
        return word.titled and ((listed and low not in _listed("never")) or (open_ and not _NO_NAME_ENDING.search(low)))
    if (
        last in {"it's", "its", "call", "called", "meet", "by"} or before[-2:] in (["this", "is"], ["it", "is"], ["call", "me"])
    ) and spaced:
        return word.titled and ((listed and low not in _listed("never")) or (open_ and before[-2:] == ["call", "me"]))
    if last in _listed("sure_titles") and "." not in gap.replace(". ", "", 1):
        return (not _is_known(word.bare) and (word.capital or len(low) > 2)) or (word.titled and listed)
    if "." in gap:
        return False
    if last in _listed("titles") and spaced and word.titled and (listed or (open_ and words[place - 1].capital)):
        return True
    if last in _listed("relations") and re.fullmatch(r",? ", gap):
        return word.titled and (listed or open_)
    if last in ("hi", "hello", "hey", "hiya") and gap == " " and len(low) > 3 and word.bare.islower():
        return not _is_known(low)
    if last in _listed("greetings") and re.fullmatch(r",? ", gap) and (last != "you" or before[-2:] == ["thank", "you"]):
        return word.titled and (listed or open_)
    return False


def _signs_or_acts(text: str, words: Sequence[_Word], place: int, inside: bool) -> bool:
    """Whether the word signs a message, or is the subject of a verb of people."""
    word = words[place]
    if not word.titled or _is_known(word.bare) or _NO_NAME_ENDING.search(word.bare.casefold()):
        return False
    if not text[word.end :].strip(" .!\n") and place > 0:  # the last word
        gap = text[words[place - 1].end : word.start]
        if re.search(r"(?:^|\s)[-–—~]+\s*$", gap):
            return True
        if words[place - 1].bare.casefold() in _listed("signed") and re.search(r"[,\n]", gap):
            return True
    following = words[place + 1].text.casefold() if place + 1 < len(words) else ""
    if not inside or not following or text[words[place].end : words[place + 1].start] != " ":
        return False
    two = (
        min(len(word.bare), len(words[place + 1].bare)) > 1 and words[place + 1].titled and not _is_known(words[place + 1].bare)
    )  # Xanthe Quill, both unlisted
    return two or following in _listed("speech")
