"""Removes personal data from the English dialogues of a chat log, before any model reads them.

Equal data have equal placeholders within a dialogue, such as `[NAME-1]`. Names are listed (`names.toml`, `people.toml`) or
introduced by a sentence ("my name is", "my sister X", "Dr X"). A word that is a name once in a dialogue is a name in all of it;
if it is also an ordinary word (Will, Grace), its position decides. Other data are found by their form (`personal_data.toml`).
What is not found: docs/distilling.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import NamedTuple

from heartloop.core.system import packaged_table
from heartloop.environments.writing import places

_Rule = Callable[[re.Match[str]], bool]


class _Word(NamedTuple):
    """`bare`, `start` and `end` are without a possessive ending."""

    text: str
    bare: str
    start: int
    end: int
    gap: str
    """The text between it and the word before."""
    last: bool
    """Whether only full stops and blanks follow."""

    @property
    def low(self) -> str:
        return self.bare.casefold()

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
_REST = re.compile(r"[ .!\n]*\Z")
_ARTICLES = {"the", "a", "an"}


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    lists = {group: frozenset(words.split()) for group, words in packaged_table(__package__, "names.toml").items()}
    lists["doubtful"] = lists["either"] | lists["context"] | lists["never"]
    lists["hand_written"] = lists["given"]
    composed = {name.casefold() for place in places() for name in (*place.women, *place.men)}
    lists["given"] = (lists["given"] | composed) - lists["doubtful"]
    lists["names"] = lists["given"] | lists["either"] | lists["context"]
    lists["roles"] = lists["relations"] | lists["greetings"] | lists["titles"] | lists["speech"]
    return lists


@lru_cache(maxsize=20_000)
def _is_known(word: str) -> bool:
    """Whether a word is an ordinary one, which a capital does not make a name."""
    low = re.sub("'(?:m|re|ve|ll|d|t)$", "", word.casefold().replace("’", "'"))
    plain = low.removesuffix("s") if len(low) > 3 else low
    return _is_ordinary(low) or _is_ordinary(plain) or low in _lists()["roles"]


@lru_cache(maxsize=20_000)
def _is_ordinary(word: str) -> bool:
    return word in _lists()["ordinary"] or word in _lists()["never"] or word.startswith(tuple(_lists()["ordinary_beginnings"]))


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    for match in _WORD.finditer(text):
        bare = re.sub(r"(?:['’]s|['’])$", "", match[0], flags=re.IGNORECASE) or match[0]
        start, end = match.start(), match.start() + len(bare)
        gap = text[words[-1].end if words else 0 : start]
        words.append(_Word(match[0], bare, start, end, gap, last=_REST.match(text, end) is not None))
    return words


class People:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        self._add([word for word in _words(name) if not _is_known(word.bare)])

    def _add(self, name: Sequence[_Word]) -> None:
        if not name:
            return
        number = self._numbers.setdefault(name[0].low, 1 + max(self._numbers.values(), default=0))
        for word in name[1:]:
            self._numbers.setdefault(word.low, number)

    def read(self, text: str) -> None:
        words = _words(text)
        for place, word in enumerate(words):
            if self._is_name(words, place):
                self._add([word, *_rest(words, place, small=word.bare.islower() and _introduced(words, place))])

    def replace(self, text: str, placeholder: Callable[[int], str]) -> str:
        """The text with `placeholder(number)` instead of each name; persons are numbered from 1."""
        words = _words(text)
        parts: list[str] = []
        done, place = 0, 0
        while place < len(words):
            word = words[place]
            number = self._numbers.get(word.low)
            if number is None or not self._is_name_here(words, place):
                place += 1
                continue
            last = place
            while (after := self._next_part(words, last)) is not None:
                last = after
            parts += [text[done : word.start], placeholder(number)]
            done, place = words[last].end, last + 1
        return "".join([*parts, text[done:]])

    def _next_part(self, words: Sequence[_Word], place: int) -> int | None:
        for after in range(place + 1, min(place + 4, len(words))):
            if not _joined(words[after - 1], words[after]):
                return None
            if words[after].low in self._numbers:
                return after if words[after].capital >= words[place].capital else None
            if not _between(words[after]):
                return None
        return None

    def _is_name(self, words: Sequence[_Word], place: int) -> bool:
        word, low = words[place], words[place].low
        in_lower_case = low in _lists()["hand_written"] and len(low) > 2 and not _is_ordinary(low)
        if low in _lists()["given"] and (word.capital or in_lower_case):
            return True
        if "-" in low and word.capital and any(part in _lists()["given"] for part in low.split("-")):
            return True
        inside = _inside(words, place)
        owns = word.text != word.bare  # Will's
        if low in _lists()["either"] and word.titled and (owns or (inside and words[place - 1].low not in _ARTICLES)):
            return True
        return _introduced(words, place) or _signs_or_acts(words, place, inside)

    def _is_name_here(self, words: Sequence[_Word], place: int) -> bool:
        """Whether a word that is a name in this dialogue is one at this position."""
        word, low = words[place], words[place].low
        if not (_is_ordinary(low) or low in _lists()["doubtful"]):
            return word.capital or len(low) > 2
        if _introduced(words, place):
            return True
        if not word.titled:
            return False
        inside = _inside(words, place)
        following = words[place + 1].low if place + 1 < len(words) else ""
        return inside or not (following in _lists()["asked"] or low in _lists()["context"])  # "Will you", "Hope it"


def _rest(words: Sequence[_Word], place: int, *, small: bool) -> list[_Word]:
    """The further names after a given name, with particles and initials between; `small` allows lower case."""
    rest: list[_Word] = []
    between: list[_Word] = []
    for before, word in zip(words[place:], words[place + 1 : place + 5], strict=False):
        if not _joined(before, word):
            break
        low = word.low
        if _between(word):
            between.append(word)
        elif (
            (word.titled or (word.capital and before.bare.isupper()) or (small and len(low) > 3))
            and not _is_known(word.bare)
            and low not in _lists()["context"]
        ):
            rest += [one for one in between if len(one.bare) > 1 and one.capital] + [word]
            between = []
        else:
            break
    return rest


def _between(word: _Word) -> bool:
    """Whether a word can be between the parts of a name: a particle or an initial."""
    return word.low in _lists()["particles"] or (len(word.low) == 1 and word.capital and word.low != "i")


def _inside(words: Sequence[_Word], place: int) -> bool:
    """Whether the word does not begin a sentence, so that its capital is informative."""
    return place > 0 and not _END.search(words[place].gap)


def _joined(before: _Word, after: _Word) -> bool:
    """Whether two words can be parts of one name: separated by a space, with a full stop only after an initial."""
    return before.text == before.bare and after.gap in ((" ", ". ") if len(before.bare) == 1 else (" ",))


def _introduced(words: Sequence[_Word], place: int) -> bool:
    if place == 0:
        return False
    word, low, gap = words[place], words[place].low, words[place].gap
    before = [one.text.casefold().replace("’", "'") for one in words[max(0, place - 3) : place]]
    if not re.fullmatch(r"(?:'s)?[\s,:.\"'“‘-]{1,4}", gap) or "\n\n" in gap:
        return False
    listed = low in _lists()["names"]
    open_ = word.titled and not _is_known(word.bare)
    spaced = gap.isspace()
    last = before[-1]
    if last in ("name's", "named") or before[-2:] in (["name", "is"], ["names", "is"], ["name", "was"]):
        return listed or not _is_known(word.bare)
    if (last in ("i'm", "im") or before[-2:] == ["i", "am"]) and spaced:
        return word.titled and ((listed and low not in _lists()["never"]) or (open_ and not _NO_NAME_ENDING.search(low)))
    if (
        last in {"it's", "its", "call", "called", "meet", "by"} or before[-2:] in (["this", "is"], ["it", "is"], ["call", "me"])
    ) and spaced:
        return word.titled and ((listed and low not in _lists()["never"]) or (open_ and before[-2:] == ["call", "me"]))
    if last in _lists()["sure_titles"] and "." not in gap.replace(". ", "", 1):
        return (not _is_known(word.bare) and (word.capital or len(low) > 2)) or (word.titled and listed)
    if "." in gap:
        return False
    if last in _lists()["titles"] and spaced and word.titled and (listed or (open_ and words[place - 1].capital)):
        return True
    if last in _lists()["relations"] and re.fullmatch(r",? ", gap):
        return word.titled and (listed or open_)
    if last in ("hi", "hello", "hey", "hiya") and gap == " " and len(low) > 3 and word.bare.islower():
        return not _is_known(low)
    if last in _lists()["greetings"] and re.fullmatch(r",? ", gap) and (last != "you" or before[-2:] == ["thank", "you"]):
        return word.titled and (listed or open_)
    return False


def _signs_or_acts(words: Sequence[_Word], place: int, inside: bool) -> bool:
    """Whether the word signs a message, or is the subject of a verb of people."""
    word = words[place]
    if not word.titled or _is_known(word.bare) or _NO_NAME_ENDING.search(word.low):
        return False
    if word.last and place > 0:
        if re.search(r"(?:^|\s)[-–—~]+\s*$", word.gap):
            return True
        if words[place - 1].low in _lists()["signed"] and re.search(r"[,\n]", word.gap):
            return True
    after = words[place + 1] if place + 1 < len(words) else None
    if not inside or after is None or after.gap != " ":
        return False
    both = min(len(word.bare), len(after.bare)) > 1 and after.titled and not _is_known(after.bare)  # Xanthe Quill, unlisted
    return both or after.text.casefold() in _lists()["speech"]


KINDS = ("email", "link", "handle", "date", "address", "postcode", "number", "name")
"""Kinds of personal data, in the order of the search."""
PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(kind.upper() for kind in KINDS)})-\d+\]")


class Removed(NamedTuple):
    """Texts of one dialogue without personal data, and the number of removals by kind; each mention of a name counts."""

    texts: tuple[str, ...]
    counts: Mapping[str, int]


def without_personal_data(texts: Sequence[str], known: Sequence[str] = ()) -> Removed:
    """The texts of one dialogue with placeholders for personal data; a name that one of them introduces is removed from all.

    `known` are names given by the log's fields. Existing placeholders stay.

    >>> without_personal_data(["hi, i'm Anna, anna@web.org", "Hello Anna! Call 0171 555 0199 in May."]).texts
    ("hi, i'm [NAME-1], [EMAIL-1]", 'Hello [NAME-1]! Call [NUMBER-1] in May.')
    """
    numbers: dict[tuple[str, str], int] = {}
    counts: Counter[str] = Counter()

    def placeholder(kind: str, value: str) -> str:
        number = numbers.setdefault((kind, value), 1 + sum(other == kind for other, _ in numbers))
        counts[kind] += 1
        return f"[{kind.upper()}-{number}]"

    cleaned = [_plain(text) for text in texts]
    for kind, pattern, is_harmless in _PATTERNS:

        def replace(match: re.Match[str], kind: str = kind, is_harmless: _Rule | None = is_harmless) -> str:
            if is_harmless is not None and is_harmless(match):
                return match[0]
            datum = match.groupdict().get("datum") or match[0]
            return match[0].removesuffix(datum) + placeholder(kind, re.sub(r"\W+", "", datum).casefold())

        cleaned = [_outside(text, partial(pattern.sub, replace)) for text in cleaned]
    people = People()
    for name in known:
        people.add(_plain(name))
    for text in cleaned:
        for part in _parts(text)[::2]:
            people.read(part)

    def name_placeholder(number: int) -> str:
        counts["name"] += 1
        return f"[NAME-{number}]"

    cleaned = [_outside(text, lambda part: people.replace(part, name_placeholder)) for text in cleaned]
    return Removed(tuple(cleaned), {kind: counts[kind] for kind in KINDS if counts[kind]})


def _plain(text: str) -> str:
    """The text normalised (NFKC) and without invisible characters, which could hide a datum."""
    text = re.sub(r"(?<=[^\W\d_])[`´](?=[^\W\d_])", "'", text)  # the name Don is not in Don´t
    return re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", unicodedata.normalize("NFKC", text))


def _parts(text: str) -> list[str]:
    return re.split(f"({PLACEHOLDER.pattern})", text)


def _outside(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if place % 2 else change(part) for place, part in enumerate(_parts(text)))


_FORMS = packaged_table(__package__, "personal_data.toml")
_CURRENCY, _COUNTED = (re.compile(_FORMS["amounts"][name].replace("\n", ""), re.IGNORECASE) for name in ("before", "after"))


def _is_amount(match: re.Match[str]) -> bool:
    text, start, end = match[0], match.start(), match.end()
    before, after = match.string[max(0, start - 8) : start], match.string[end : end + 16]
    groups = re.findall(r"\d+", text)
    if _CURRENCY.search(before) or _COUNTED.match(after):
        return True
    if all(re.fullmatch(r"(?:19|20)\d\d", group) for group in groups):
        return True
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}\.\d{3}", text):
        return True
    longest, total = max(map(len, groups)), sum(map(len, groups))
    return longest < 5 and total < (6 if text.startswith("+") else 7)


def _is_no_postcode(match: re.Match[str]) -> bool:
    return bool(re.fullmatch(r"(?:19|20)\d\d\s?[A-Z]{2}|\d{4}\s?(?:AM|PM|AD|BC|CE|OK|TV|US|UK|EU|KM|KG|PC|CD|DVD)", match[0]))


_HARMLESS: Mapping[str, _Rule] = {"no postcode": _is_no_postcode, "amount": _is_amount}


def _compiled(form: str) -> re.Pattern[str]:
    parts: Mapping[str, str] = _FORMS["parts"]
    return re.compile(re.sub("<([a-z_]+)>", lambda part: parts.get(part[1], part[0]), form).replace("\n", ""))


_PATTERNS = [(form["kind"], _compiled(form["pattern"]), _HARMLESS.get(form.get("harmless"))) for form in _FORMS["form"]]
