"""Checks that a scenario does not repeat words of the dialogue it was made from.

Covers whole sentences and sequences of words, regardless of punctuation and case, and placeholders of `personal_data`. Does not
cover paraphrase: the writer of a scenario does not see the dialogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.environments.personal_data import PLACEHOLDER

__all__ = ["RUN", "SENTENCE", "carried_over"]

SENTENCE, RUN = 5, 8
"""Minimum number of words of a sentence, and of a sequence of words, that must not be repeated (ours)."""


def carried_over(log: Sequence[str], value: Any) -> list[str]:
    """One sentence for each text within a JSON value that repeats words of a log.

    >>> carried_over(["I never told her. Well."], {"line": "And I never told her that."})
    []
    >>> carried_over(["I never told her why, well."], {"line": "And: I never told her why, well!"})
    ["these words stand in the dialogue it was made from, say it otherwise: 'i never told her why well'"]
    """
    runs = {run for text in log for part in _unbroken(text) for run in _runs(part, RUN)}
    sentences = {
        tuple(words)
        for text in log
        for sentence in re.split(r"[.!?…\n]+", text)
        for words in [_words(sentence)]
        if SENTENCE <= len(words) < RUN and not PLACEHOLDER.search(sentence)
    }
    problems: dict[str, None] = {}
    for text in _texts(value):
        words = _words(text)
        repeated = next((run for run in _runs(words, RUN) if run in runs), None) or next(
            (run for n in range(SENTENCE, RUN) for run in _runs(words, n) if run in sentences), None
        )
        if repeated:
            problems[f"these words stand in the dialogue it was made from, say it otherwise: {' '.join(repeated)!r}"] = None
        if blank := PLACEHOLDER.search(text):
            problems[f"{blank[0]} is a blank of the dialogue; invent something of its own, or leave it out"] = None
    return list(problems)


def _unbroken(text: str) -> list[list[str]]:
    """The words of a text between its placeholders."""
    return [_words(part) for part in PLACEHOLDER.split(text)]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub("['’]", "", text.casefold()))


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for part in parts for text in _texts(part)]
