"""Removes personal data from the dialogues of a chat log, before any model reads them.

Covers e-mail addresses, links, handles, phone, card and other long numbers, whole dates, street addresses, postcodes and names
of people, in English text. Each becomes a placeholder such as `[NAME-1]`; within a dialogue, equal data have equal placeholders.
Does not cover names that are in no list and that no sentence introduces, places, schools, employers, or a person who can be
identified by the story. In scripts other than Latin: numbers, links and handles only.

Uses rules, not a model: a model would have to read the data.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from heartloop.environments.personal_names import People

__all__ = ["KINDS", "PLACEHOLDER", "Removed", "without_personal_data"]

KINDS = ("email", "link", "handle", "date", "address", "postcode", "number", "name")
"""Kinds of personal data, in the order of the search."""
PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(kind.upper() for kind in KINDS)})-\d+\]")
"""Matches a placeholder."""


class Removed(NamedTuple):
    """Texts of one dialogue without personal data, and the number of removals by kind; every mention of a name counts."""

    texts: tuple[str, ...]
    counts: Mapping[str, int]


def without_personal_data(texts: Sequence[str], known: Sequence[str] = ()) -> Removed:
    """The texts of one dialogue with placeholders for personal data; existing placeholders stay.

    Args:
        texts: utterances and other texts about the dialogue, in order; a name that one of them introduces is removed from all.
        known: names given by the log's fields, such as `name` of a message.

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

        def replace(match: re.Match[str], kind: str = kind, is_harmless: Callable[[re.Match[str]], bool] = is_harmless) -> str:
            if is_harmless(match):
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
    """The text split at its placeholders, which have the odd positions."""
    return re.split(f"({PLACEHOLDER.pattern})", text)


def _outside(text: str, change: Callable[[str], str]) -> str:
    """Applies `change` to the text outside its placeholders."""
    return "".join(part if place % 2 else change(part) for place, part in enumerate(_parts(text)))


# Kinds that are recognised by form

_TLD = r"(?:com|org|net|edu|gov|info|biz|io|app|dev|co\.uk|ac\.uk|org\.uk|de|fr|es|nl|ca|au|com\.au|ch|pl|se|ru|cn|jp|br)"
_CURRENCY = re.compile(r"(?:[$€£¥]|usd|eur|gbp|rs\.?)\s*$", re.IGNORECASE)
_COUNTED = re.compile(
    r"\s*(?:k\b|[$€£¥%]|dollars?|bucks|euros?|pounds?|usd|eur|gbp|rupees|pesos|yen|won|francs|people|followers|words|steps|miles|km|"
    r"hours|days|years|times|views|points)",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?"
_STREET = (
    r"(?:street|str|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|ct|place|pl|way|terrace|square|sq|close|crescent|"
    r"gardens|grove|highway|hwy|parkway|pkwy|row|mews|alley|circle|trail)"
)
_SURE_STREET = r"(?:street|road|avenue|lane|boulevard|blvd|terrace|crescent|highway|parkway)"
_CAPITAL = r"(?:[^\W\d_a-zß-öø-ÿ][\w'’.-]*|\d{1,3}(?:st|nd|rd|th))"
_NO_STREET = (
    r"(?!(?:minutes?|mins?|hours?|days?|weeks?|months?|years?|miles?|km|blocks?|meters?|metres?|feet|the|a|an|of|to|from|down|up|on|"
    r"in|my|our|his|her|their|this|that|same|one|side|cars?|people|times?|and|or|for|with|at|by|per|st|nd|rd|th|other|dirt)\b)"
)
_FLAT = r"(?:[,\s]+(?:apt|apartment|unit|flat|suite)\.?\s*#?\s*\w{1,5})?"
_DIGIT_WORD = r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple)"


def _never(match: re.Match[str]) -> bool:
    return False


def _is_amount(match: re.Match[str]) -> bool:
    """Whether digits are a sum, a year, or too few to identify a person."""
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


_PATTERNS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], bool]], ...] = (
    ("email", re.compile(r"(?<![\w.+%-])[\w.+%-]+\s?(?:@|\(at\)|\[at\])\s?[\w-]+(?:\.[\w-]+)+"), _never),
    (
        "email",
        re.compile(
            rf"(?<![\w.+-])[\w.+-]+(?:\s+dot\s+[\w-]+){{0,4}}\s+(?:at|\(at\)|\[at\])\s+[\w-]+"
            rf"(?:\s*(?:\s+dot\s+|\(dot\)|\[dot\])\s*[\w-]+){{0,4}}"
            rf"(?:\s+dot\s+|\s*[(\[]dot[)\]]\s*|\.){_TLD}\b",
            re.IGNORECASE,
        ),
        _never,
    ),
    ("link", re.compile(r"(?:https?://|www\.)\S*[^\s.,;:!?)\]'\"]", re.IGNORECASE), _never),
    ("link", re.compile(rf"(?<![\w.-])(?:[\w-]+\.){{1,6}}{_TLD}\b(?:/\S*[^\s.,;:!?)\]'\"])?(?!\.\w)", re.IGNORECASE), _never),
    (
        "handle",
        re.compile(r"(?<![\w@])@\w[\w.]*\w|(?<!\w)u/[\w-]{3,}|\b\w{2,}#\d{4}\b|(?<![\w.])[^\W_][\w.]{0,40}_[\w.]{0,40}[^\W_]\b"),
        _never,
    ),
    (
        "handle",
        re.compile(
            r"\b(?:ig|insta(?:gram)?|snap(?:chat)?|discord|telegram|skype|twitter|tiktok|user ?name|handle|gamertag)"
            r"(?:\s+(?:name|id|is))*[\s:]+(?P<datum>(?=\w*[\d_.]\w)[\w.]*\w)",
            re.IGNORECASE,
        ),
        _never,
    ),
    (
        "date",
        re.compile(
            rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH},?\s+(?:19|20)\d\d\b|"
            rf"\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+(?:19|20)\d\d\b|"
            r"(?<!\d)(?:\d{1,2}[/.-]\d{1,2}[/.-](?:19|20)?\d\d|(?:19|20)\d\d[/.-]\d{1,2}[/.-]\d{1,2})(?!\d)",
            re.IGNORECASE,
        ),
        _never,
    ),
    ("address", re.compile(rf"\b\d{{1,5}}[A-Za-z]?,?\s+(?:{_CAPITAL}\s+){{1,4}}(?i:{_STREET})\b(?i:{_FLAT})"), _never),
    (
        "address",
        re.compile(rf"\b\d{{1,5}}[a-z]?,?\s+(?:{_NO_STREET}[\w'’.-]+\s+){{1,2}}{_SURE_STREET}\b{_FLAT}", re.IGNORECASE),
        _never,
    ),
    (
        "address",
        re.compile(
            rf"(?<=\s)(?:(?:North|South|East|West|N|S|E|W)\.?\s+)?{_CAPITAL}\s+"
            r"(?:Street|Road|Avenue|Ave|Lane|Boulevard|Blvd|Drive|Terrace|Crescent)\b"
        ),
        _never,
    ),
    (
        "address",
        re.compile(
            r"(?<![\w-])[^\W\d_][\w-]*(?:straße|strasse|gasse|weg|platz|allee)\s+\d{1,4}\s?[a-z]?\b|"
            r"\b(?:rue|calle|via|rua)\s+[\w'’ -]{3,30}?,?\s+\d{1,4}\b|"
            r"\bp\.?\s?o\.?\s?box\s+\d+|\b(?:apt|apartment|unit|flat|suite)\.?\s*#?\s*\d{1,5}[a-z]?\b",
            re.IGNORECASE,
        ),
        _never,
    ),
    (
        "postcode",
        re.compile(
            r"\b(?:[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}|[A-Z]{1,2}\d[A-Z\d]?\d[A-Z]{2}|[A-Z]\d[A-Z]\s?\d[A-Z]\d|\d{4}\s?[A-Z]{2})\b"
        ),
        _is_no_postcode,
    ),
    (
        "postcode",
        re.compile(
            r"\b[a-z]{1,2}\d[a-z\d]?\s\d[a-z]{2}\b|\b(?:zip|post|postal|plz)(?:\s?code)?(?:\s+is)?[\s:]+(?P<datum>\d{3,}(?:-\d+)?)\b",
            re.IGNORECASE,
        ),
        _never,
    ),
    ("number", re.compile(rf"\b(?:{_DIGIT_WORD}\b[\s,.-]*){{5,}}{_DIGIT_WORD}\b", re.IGNORECASE), _never),
    ("number", re.compile(r"\b[A-Z]{2}\d{2}(?:\s?[A-Z\d]{4}){3,7}(?:\s?[A-Z\d]{1,4})?\b"), _never),
    ("number", re.compile(r"\b(?=\w*[^\W\d_])(?:\w*\d{5,}\w*|(?=(?:\w*\d){5})\w{8,})\b"), _never),
    ("number", re.compile(r"(?<!\d)(?:\+\s?|\(\+?)?\d(?:[\d ().,/\-–]*\d)?(?!\d)"), _is_amount),
)
