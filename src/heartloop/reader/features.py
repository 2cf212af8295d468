"""From a reply and its dialogue to features: hashed n-grams of the reply, and counts. The fit selects the n-grams."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

READ_CHARACTERS = 8_000
"""Only this much of a reply is read; the count of words covers all of it."""

_HAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}])[^\W\d_])+(?:'[^\W\d_]+)*|\d+")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "…": "..."})
_SENTENCE_END = re.compile(r"[.!?…]+(?:\s|$)|[。！？]+|\n+")
_LIST_MARK = re.compile(r"(?m)^\s*(?:[-*•]|\d{1,2}[.)])\s")
_QUOTED = re.compile(r'"[^"\n]{3,}"')
_RUN = 3  # words in a row from which a run is copied
_HANDED_BACK = 5  # words in a row from which a run is not the reply's own
_MIX = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)
_SHIFT = np.uint64(29)


class FeatureLayout(NamedTuple):
    """Orders of the n-grams of the reply, and in how many hash buckets they are. Weights belong to one layout."""

    bits: int = 16
    """Base-2 logarithm of the number of buckets; all n-grams share them."""
    words: tuple[int, ...] = (1, 2, 3)
    characters: tuple[int, ...] = (2, 3, 4, 5)
    message: tuple[int, ...] = ()
    """Orders of the character n-grams of the message that the reply answers."""
    message_weight: float = 0.5
    """Euclidean length of the message's n-grams; those of the reply have 1 by order kind."""

    @property
    def buckets(self) -> int:
        return int(1 << self.bits)


DEFAULT_LAYOUT = FeatureLayout()


class Context(NamedTuple):
    """What a reply answers, and what is known of the person beyond their messages."""

    messages: tuple[str, ...]
    """The person's messages so far, oldest first; empty where the policy speaks first."""
    replies: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    """What weighs on the person and was not said yet."""
    sore: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """What the policy was told besides the dialogue, such as notes of earlier talks."""
    demand: tuple[str, ...] = ()
    """What the person demands and the policy must not give."""
    ways: tuple[str, ...] = ()
    """What the policy could do or offer."""
    wrongs: tuple[str, ...] = ()
    """What the policy did to the person, and what it cost."""


def han_share(text: str) -> float:
    """Share of a text's letters that are Han, kana or hangul: what tells apart texts that share no n-grams.

    >>> han_share("你好"), han_share("hello, 你好")
    (1.0, 0.2857142857142857)
    """
    letters = [c for c in text if c.isalpha()]
    return sum(re.match(rf"[{_HAN}]", c) is not None for c in letters) / max(1, len(letters))


class ReplyFeatures(NamedTuple):
    buckets: NDArray[np.int64]
    values: NDArray[np.float32]
    """Their weights: the square root of how often an n-gram occurs, scaled to Euclidean length 1 for each kind of n-gram."""
    counts: NDArray[np.float32]
    tokens: int


COUNTS: tuple[str, ...] = (
    "log_words", "word_length", "sentences", "questions", "exclamations", "commas", "newlines", "list_marks", "bold",
    "quotations", "digits", "capitals", "lower_start", "copied_run", "copied_share", "last_overlap", "story_overlap",
    "novelty", "own_run", "own_copied", "own_overlap", "repetition", "unsaid_overlap", "sore_overlap", "known_overlap",
    "demand_overlap", "ways_overlap", "wrongs_overlap", "turn", "opens", "last_words", "one_word_sentences",
)  # fmt: skip


@lru_cache(maxsize=20_000)
def tokens_of(text: str) -> tuple[str, ...]:
    """The words and numbers of a text, folded: lower case, plain quotes, no accents.

    >>> tokens_of("Rubén’s 3 boots.")
    ("ruben's", '3', 'boots')
    """
    return tuple(_TOKEN.findall(folded(text[:READ_CHARACTERS])))


@lru_cache(maxsize=1_000)
def folded(text: str) -> str:
    """A text in lower case, with plain quotes and no accents."""
    text = text.translate(_QUOTES)
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return text.lower()


@lru_cache(maxsize=100_000)
def _hash_of(word: str) -> int:
    """A 64-bit FNV-1a hash, the same on every machine."""
    value = 0xCBF29CE484222325
    for byte in word.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def _grams(codes: NDArray[np.uint64], order: int, salt: int) -> NDArray[np.uint64]:
    count = max(0, len(codes) - order + 1)
    value: NDArray[np.uint64] = (codes[:count] ^ np.uint64(salt)) * _PRIME
    value ^= value >> _SHIFT
    for n in range(1, order):
        value ^= codes[n : n + count]
        value *= _PRIME
        value ^= value >> _SHIFT
    return value


def _weighted(
    codes: NDArray[np.uint64], orders: tuple[int, ...], salt: int, layout: FeatureLayout
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Distinct buckets of the n-grams of these orders, with their weights at Euclidean length 1 together."""
    hashes = [_grams(codes, order, salt + order) for order in orders]
    whole = (np.concatenate(hashes) * _MIX) >> np.uint64(64 - layout.bits) if hashes else np.empty(0, np.uint64)
    if not len(whole):
        return np.empty(0, np.int64), np.empty(0, np.float32)
    whole.sort()
    starts = np.concatenate([[0], np.flatnonzero(whole[1:] != whole[:-1]) + 1, [len(whole)]])
    values = np.sqrt((starts[1:] - starts[:-1]).astype(np.float32))  # the squares add up to the number of n-grams
    return whole[starts[:-1]].astype(np.int64), values / np.float32(np.sqrt(len(whole)))


def _line(text: str) -> NDArray[np.uint64]:
    line = f" {' '.join(folded(text[:READ_CHARACTERS]).split())} "
    return np.frombuffer(line.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)


@lru_cache(maxsize=2_000)
def _message(text: str, layout: FeatureLayout) -> tuple[NDArray[Any], NDArray[Any]]:
    buckets, values = _weighted(_line(text), layout.message, 777, layout)
    return buckets, values * np.float32(layout.message_weight)


def _in_a_row(words: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[n:] for n in range(count)), strict=False)


def own_words(reply: str, messages: tuple[str, ...]) -> str:
    """A reply without what it hands back: runs of five words or more that occur in one of the person's messages.

    >>> own_words("You said: my leeks are all leaning. Why?", ("Oh, my leeks are all leaning left.",))
    'You said: . Why?'
    """
    words = list(_TOKEN.finditer(reply))
    theirs = frozenset[tuple[str, ...]]().union(*map(_handed_back, messages))
    runs = _in_a_row([word[0].lower() for word in words], _HANDED_BACK)
    copied = {n + i for n, run in enumerate(runs) if run in theirs for i in range(_HANDED_BACK)}
    if not copied:
        return reply
    parts, end = [], 0
    for n in sorted(copied):
        start = words[n].start()
        parts += [reply[end:start]] if n - 1 not in copied else []
        end = words[n].end()
    return "".join([*parts, reply[end:]])


@lru_cache(maxsize=5_000)
def _handed_back(message: str) -> frozenset[tuple[str, ...]]:
    return frozenset(_in_a_row(_TOKEN.findall(message.lower()), _HANDED_BACK))


def features_of(reply: str, context: Context, layout: FeatureLayout = DEFAULT_LAYOUT) -> ReplyFeatures:
    tokens = tokens_of(reply)
    codes = np.array([_hash_of(token) for token in ("<", *tokens, ">")], np.uint64)
    parts = [_weighted(codes, layout.words, 7, layout), _weighted(_line(reply), layout.characters, 77, layout)]
    if layout.message and context.messages:
        parts.append(_message(context.messages[-1], layout))
    buckets, values = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    return ReplyFeatures(buckets, values, _counts(reply, reply[:READ_CHARACTERS], tokens, context), len(tokens))


@lru_cache(maxsize=5_000)
def _content(text: str) -> frozenset[str]:
    """What a text is about: the first five letters of its longer words, so that inflections meet; pairs of Han characters."""
    return _stubs(tokens_of(text))


def _stubs(tokens: tuple[str, ...]) -> frozenset[str]:
    pairs = (a + b for a, b in pairwise(tokens) if len(a) == len(b) == 1 and a > "\u3000" and b > "\u3000")
    return frozenset([*(token[:5] for token in tokens if len(token) > 3), *pairs])


def _content_of(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset().union(*map(_content, texts))


@lru_cache(maxsize=5_000)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(_in_a_row(tokens_of(text), _RUN))


def _copied(tokens: tuple[str, ...], texts: tuple[str, ...]) -> tuple[int, float]:
    """Words in the longest run that stands in one of the texts, and the share of words in runs of three or more."""
    grams = list(_in_a_row(tokens, _RUN))
    theirs = frozenset(grams).intersection(frozenset().union(*map(_runs, texts)))
    if not theirs:
        return 0, 0.0
    marked: set[int] = set()
    longest = run = 0
    for n, gram in enumerate(grams):
        if gram in theirs:
            marked.update(range(n, n + _RUN))
            run = run + 1 if run else _RUN
            longest = max(longest, run)
        else:
            run = 0
    return longest, len(marked) / len(tokens)


def _overlap(mine: frozenset[str], theirs: frozenset[str]) -> float:
    return len(mine & theirs) / len(mine) if mine and theirs else 0.0


def _counts(reply: str, text: str, tokens: tuple[str, ...], context: Context) -> NDArray[np.float32]:
    mine = _stubs(tokens)
    said = _content_of(context.messages)
    own = _content_of(context.replies)
    new = mine - said
    last = context.messages[-1] if context.messages else ""
    ends = len(_SENTENCE_END.findall(text.strip() + " ")) or 1
    copied_run, copied_share = _copied(tokens, context.messages)
    own_run, own_copied = _copied(tokens, context.replies)
    letters = max(1, sum(map(str.isalpha, text)))
    count = max(1, len(tokens))
    values = (
        math.log1p(len(tokens)) / 4.0,
        sum(map(len, tokens)) / count / 5.0,
        math.log1p(ends),
        min(4, sum(map(text.count, "?？"))) / 2.0,
        min(6, sum(map(text.count, "!！"))) / 3.0,
        sum(map(text.count, ",，")) / count * 5.0,
        math.log1p(text.count("\n")),
        math.log1p(len(_LIST_MARK.findall(text))),
        min(4, text.count("**") // 2) / 2.0,
        min(3, len(_QUOTED.findall(folded(text)))),
        sum(map(str.isdigit, text)) / count,
        sum(map(str.isupper, text)) / letters * 10.0,
        float(text[:1].islower()),
        min(12, copied_run) / 6.0,
        copied_share,
        _overlap(mine, _content(last)),
        _overlap(mine, said),
        len(mine - said - own) / count,
        min(12, own_run) / 6.0,
        own_copied,
        max((_overlap(mine, _content(reply)) for reply in context.replies), default=0.0),
        (len(tokens) - len(set(tokens))) / count,
        min(4, len(new & _content_of(context.unsaid))) / 2.0,
        min(4, len(new & _content_of(context.sore))) / 2.0,
        min(6, len(new & _content_of(context.known))) / 3.0,
        min(4, len(mine & _content_of(context.demand))) / 2.0,
        min(6, len(mine & _content_of(context.ways))) / 3.0,
        min(6, len(mine & _content_of(context.wrongs))) / 3.0,
        min(10, len(context.replies)) / 5.0,
        float(not context.messages),
        math.log1p(len(tokens_of(last))) / 4.0,
        sum(len(part.split()) == 1 for part in _SENTENCE_END.split(text)) / ends,
    )
    return np.array(values, np.float32)


_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ANY_LETTER = re.compile(r"[^\W\d_]")
_ENGLISH = frozenset({
    "the", "of", "and", "to", "you", "that", "it", "for", "are", "with", "his", "they", "be", "this", "have", "from",
    "had", "by", "not", "but", "what", "were", "we", "when", "your", "can", "said", "there", "which", "she", "how",
    "their", "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "some", "her", "would", "make",
    "like", "him", "into", "has", "two", "more", "go", "way", "could", "my", "than", "been", "its", "now", "did", "get",
    "come",
})  # fmt: skip
"""The hundred most frequent English words without those of other languages ("a", "was"); they tell nothing about quality."""


def lacks_english(text: str) -> bool:
    """Whether a text is mostly not English: another script, or hardly any frequent English word in eight or more words.

    >>> lacks_english("我在这里，慢慢说。"), lacks_english("Das tut mir wirklich leid, erzähl mir bitte mehr davon.")
    (True, True)
    >>> lacks_english("Ay, mamá. You stood there the whole night?"), lacks_english("ok")
    (False, False)
    """
    text = text[:4_000]
    if not text.isascii():
        letters = _ANY_LETTER.findall(text)
        if sum(map(str.isascii, letters)) < 0.6 * len(letters):
            return True
    words = _LATIN.findall(text.lower().replace("’", "'"))
    if len(words) < 8:
        return False
    english = sum(word in _ENGLISH or "'" in word for word in words)
    return english == 0 if len(words) < 20 else english / len(words) < 0.1


_FOREIGN = frozenset({
    "ich", "und", "nicht", "mir", "dir", "dich", "tut", "leid", "ist", "das", "sehr", "je", "suis", "vous", "pas", "est", "mais",
    "lo", "siento", "que", "muy", "estoy", "por", "para", "mi", "dispiace", "che", "sono", "molto", "eu", "sinto", "muito", "ik",
    "het", "niet", "een", "jag", "inte", "det", "och",
})  # fmt: skip
"""Frequent words of seven other languages, of which a short reply may have nothing else."""
_FENCED = re.compile(r"```")
_CODE_LINE = re.compile(
    r"(?m)^\s*(?:(?:def|class|import|from|return|const|let|var|function|public|#include|SELECT)\b.*|.*[;{}]\s*)$"
)
_SYMBOL = re.compile(r"[{}()\[\];=<>/\\|_$]")


def unreadable(reply: str) -> Literal["", "language", "code"]:
    """Why a reply with words cannot be read.

    >>> unreadable("Es tut mir leid."), unreadable("lo siento mucho"), unreadable("So sorry, love.")
    ('language', 'language', '')
    >>> unreadable("def f(x):\\n    return x + 1"), unreadable("ok (I think) :)")
    ('code', '')
    """
    text = reply[:4_000]
    solid = "".join(text.split())
    if _FENCED.search(text) or len(_CODE_LINE.findall(text)) > 1 or len(_SYMBOL.findall(solid)) > 0.15 * max(40, len(solid)):
        return "code"
    words = _LATIN.findall(text.lower().replace("’", "'"))
    foreign = sum(word in _FOREIGN for word in words)
    if lacks_english(text) or (foreign > 1 and 2 * foreign >= len(words) and not any(word in _ENGLISH for word in words)):
        return "language"
    return ""
