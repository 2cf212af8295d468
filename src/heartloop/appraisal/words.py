"""From text to sentences and words: folding, contractions, splitting, stems.

Covers what every other module reads: curly quotes, accents, British and American spelling, inflection, number
words. Does not cover what words mean (`lexicon`), nor grammar (`grammar`). The stemmer is a light one: it only has
to bring `works`, `worked` and `working` together, not to name a lemma.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from heartloop.appraisal.lexicon import class_set, irregular, is_function_word, synonyms

__all__ = [
    "READ_CHARACTERS", "READ_SENTENCES", "Sentence", "content_stems", "fold", "read_sentence", "split_sentences", "stem",
    "words_of",
]  # fmt: skip

READ_CHARACTERS = 24_000
"""Only this much of a text is read (about 4,000 words); whatever stands behind it is counted, not read."""
READ_SENTENCES = 400
"""Only so many sentences of a text are read."""
_LONGEST_SENTENCE = 90  # words; a longer one is cut here, which keeps every pattern linear in the text
_LONGEST_WORD = 40

_QUOTES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "–": "—", "…": "..."})
_WORD = re.compile(r"\d[\d,.:]*\d|\d|[a-z]+(?:'[a-z]+)*")
_PIECE = re.compile(r"(\d[\d,.:]*\d|\d|[a-z]+(?:'[a-z]+)*)|([,;:—()]|(?<=\s)-(?=\s))")
_BOUNDARY = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=\S)|\n+")
_ABBREVIATION = re.compile(r"\b(?:mr|mrs|ms|dr|st|prof|e\.g|i\.e|vs|etc|p\.m|a\.m)\.[\"')\]*_]*$", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\(?\d{1,3}[.)]\s*$")
_MARKUP = re.compile(r"^[\s>#*_•\-–—\d.)(]*(?=[^\W\d_])")
_LETTER = re.compile(r"[^\W_]")

_WHOLE = {
    "won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "let's": "let us", "ain't": "is not",
    "gonna": "going to", "wanna": "want to", "gotta": "got to", "dunno": "do not know", "y'all": "you all", "o'clock": "o'clock",
    "i'm": "i am", "im": "i am", "ive": "i have", "dont": "do not", "didnt": "did not", "youre": "you are", "thats": "that is",
}  # fmt: skip
_ENDINGS = {"n't": "not", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'m": "am"}
_IS_AFTER = class_set("is_after")


class Sentence(NamedTuple):
    """One sentence, ready to be matched. `words` are lower-case with contractions opened; `line` is the words
    between blanks; `clauses` are the words between commas and their like; `names` the words written with a capital."""

    text: str
    words: tuple[str, ...]
    line: str
    clauses: tuple[tuple[str, ...], ...]
    names: frozenset[str]
    asks: bool
    exclaims: bool


def fold(text: str) -> str:
    """Lower case, plain quotes, no accents.

    >>> fold("Rubén’s")
    "ruben's"
    """
    text = text.translate(_QUOTES)
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).translate(_QUOTES)
    return text.lower()


@lru_cache(maxsize=20_000)
def _opened(word: str) -> tuple[str, ...]:
    """The words of a contraction; a possessive loses its ending."""
    word = word[:_LONGEST_WORD]
    if word in _WHOLE:
        return tuple(_WHOLE[word].split())
    for ending, full in _ENDINGS.items():
        if word.endswith(ending) and len(word) > len(ending):
            return (word[: -len(ending)], full)
    if word.endswith("'s"):
        base = word[:-2]
        return (base, "is") if base in _IS_AFTER else (base, "'s")
    return (word.replace("'", "") if word != "o'clock" else word,)


def _words(folded: str) -> list[str]:
    found: list[str] = []
    for word in _WORD.findall(folded):
        found.extend(_opened(word))
    return found


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, in order; a line break ends one. A very long one is cut.

    >>> split_sentences("Four nights. Dr. Weiss said so! And then?")
    ['Four nights.', 'Dr. Weiss said so!', 'And then?']
    """
    return list(_split(text))


@lru_cache(maxsize=500)
def _split(text: str) -> tuple[str, ...]:
    """A talk is read again with every turn."""
    found: list[str] = []
    text = text[:READ_CHARACTERS].translate(_QUOTES)
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        piece = text[start : boundary.end()]
        if "\n" not in boundary.group() and (_ABBREVIATION.search(piece[-12:].rstrip()) or _NUMBERED.match(piece)):
            continue
        found.append(piece)
        start = boundary.end()
    found.append(text[start:])
    sentences: list[str] = []
    for piece in found:
        piece = piece.strip()
        if not _LETTER.search(piece):
            if piece and sentences and piece in "?!...":
                sentences[-1] += piece
            continue
        words = piece.split()
        for i in range(0, len(words), _LONGEST_SENTENCE):
            sentences.append(" ".join(words[i : i + _LONGEST_SENTENCE]))
        if len(sentences) >= READ_SENTENCES:
            break
    return tuple(sentences[:READ_SENTENCES])


@lru_cache(maxsize=4_000)
def read_sentence(text: str) -> Sentence:
    """One sentence with its words, clauses, names and end."""
    plain = _MARKUP.sub("", text.translate(_QUOTES), count=1) or text
    folded = fold(plain)
    clauses: list[tuple[str, ...]] = []
    clause: list[str] = []
    for word, mark in _PIECE.findall(folded):
        if mark:
            if clause:
                clauses.append(tuple(clause))
                clause = []
        else:
            clause.extend(_opened(word))
    if clause:
        clauses.append(tuple(clause))
    words = tuple(w for c in clauses for w in c)
    raw = re.findall(r"[^\W\d_]+", plain)
    names = frozenset(fold(w) for w in raw[1:] if w[:1].isupper() and not is_function_word(fold(w)))
    tail = plain.rstrip(" \"')]*_")
    return Sentence(
        text=text,
        words=words,
        line=" " + " ".join(w for w in words if w != "'s") + " ",
        clauses=tuple(clauses),
        names=names,
        asks=tail.endswith(("?", "?!", "?...", "?.")) or (tail.endswith("!") and tail.rstrip("!").endswith("?")),
        exclaims="!" in tail,
    )


_AMERICAN = (
    (re.compile(r"our(?=$|s$|ed$|ing$|ful|less|able|ite)"), "or"),
    (re.compile(r"(?<=[a-z]{3})is(?=e$|ed$|es$|ing$|ation)"), "iz"),
    (re.compile(r"(?<=[a-z])ys(?=e$|ed$|es$|ing$)"), "yz"),
    (re.compile(r"(?<=[bt])re$"), "er"),
    (re.compile(r"ence$"), "ense"),
    (re.compile(r"dgement"), "dgment"),
    (re.compile(r"^gr[ae]y"), "gray"),
)
_VOWELS = frozenset("aeiouy")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A form that inflections, spellings and close synonyms of a word share.

    >>> stem("invoices") == stem("invoice") and stem("working") == stem("worked") == stem("works")
    True
    >>> stem("mum") == stem("mother"), stem("colour") == stem("color"), stem("four") == stem("4")
    (True, True, True)
    >>> stem("not") == stem("note"), stem("here") == stem("her")  # a word of grammar is nothing's inflection or synonym
    (False, False)
    """
    base = irregular(word)
    if is_function_word(base):
        return base
    if base[:1].isdigit():
        return base.replace(",", "").rstrip(".:")
    shared = _shared()
    stripped = _stripped(base)
    return shared.get(base) or shared.get(stripped, stripped)


@lru_cache(maxsize=1)
def _shared() -> dict[str, str]:
    """Near synonyms, also in their stripped forms, with the word that stands for all."""
    found: dict[str, str] = {}
    for word, first in synonyms().items():
        found.setdefault(_stripped(word), first)
        found[word] = first
    return found


def _stripped(word: str) -> str:
    for pattern, spelling in _AMERICAN:
        word = pattern.sub(spelling, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            word = word[:-3] + "y"
        elif word.endswith(("sses", "shes", "ches", "xes", "zzes")):
            word = word[:-2]
        else:
            word = word[:-1]
    if word.endswith("ied") and len(word) > 4:
        word = word[:-3] + "y"
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and _VOWELS & set(rest):
            word = rest
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sz":
                word = word[:-1]
            break
    if len(word) > 5 and word.endswith("iness"):
        word = word[:-5] + "y"
    elif len(word) > 6 and word.endswith("ness"):
        word = word[:-4]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("i"):
        word = word[:-1] + "y"
    if len(word) > 4 and word.endswith("ll"):
        word = word[:-1]
    return word


def content_stems(words: tuple[str, ...] | list[str]) -> list[str]:
    """Stems of the words that carry matter, in order, repeats kept."""
    return [stem(w) for w in words if not is_function_word(w)]


@lru_cache(maxsize=2_000)
def words_of(text: str) -> tuple[str, ...]:
    """All words of a text, contractions opened."""
    return tuple(_words(fold(text[:READ_CHARACTERS])))
