"""Whether a text is English, which is what the shipped readers were fitted on."""

from __future__ import annotations

import re

__all__ = ["lacks_english"]

_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ANY_LETTER = re.compile(r"[^\W\d_]")
_COMMON = frozenset({
    "the", "of", "and", "a", "to", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with", "his", "they",
    "at", "be", "this", "have", "from", "or", "had", "by", "not", "but", "what", "all", "were", "we", "when", "your", "can",
    "said", "there", "an", "which", "she", "do", "how", "their", "if", "will", "up", "other", "about", "out", "many",
    "then", "them", "these", "so", "some", "her", "would", "make", "like", "him", "into", "has", "two", "more", "go", "no",
    "way", "could", "my", "than", "been", "who", "its", "now", "did", "get", "come", "may", "me", "i",
})  # fmt: skip
"""The hundred most frequent English words: how often they occur tells the language of a text, and nothing about its quality."""
_SHARED = frozenset({"a", "as", "i", "is", "he", "do", "me", "no", "on", "at", "an", "or", "was", "so", "who", "all", "may"})
"""Those of them that other languages have too."""


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
    english = sum((word in _COMMON and word not in _SHARED) or "'" in word for word in words)
    return english == 0 if len(words) < 20 else english / len(words) < 0.1
