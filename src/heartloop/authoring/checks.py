"""What a whole set of scenarios must pass: each scenario's own rules, near-duplicates, two people of one name and occupation.

Covers any environment, by its `Scenarios`. Near-duplicates are found by character TF-IDF. Does not cover style: that takes a
reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heartloop.environments.spec import Scenarios

__all__ = ["NEAR_DUPLICATE", "Likeness", "identity_of", "plain_lines", "problems_of_one", "problems_of_set", "similarity"]

NEAR_DUPLICATE = 0.5
"""Cosine of character 3- to 5-grams (TF-IDF) from which two scenarios count as near-duplicates (ours)."""

_TERMS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 5)}
_WEIGHTS: dict[str, Any] = {"sublinear_tf": True}


def problems_of_set(kind: Scenarios, scenarios: Sequence[Any]) -> list[str]:
    """Every problem of a set, one sentence each; empty when it passes.

    Args:
        kind: the scenarios of the environment.
    """
    found = [f"{s.id}: {problem}" for s in scenarios for problem in problems_of_one(kind, s)]
    identities = Counter(identity_of(kind, s) for s in scenarios)
    found += [f"{name}, {work}: {n} people of the same name and occupation" for (name, work), n in identities.items() if n > 1]
    likeness = similarity([kind.story(s) for s in scenarios])
    for i, j in zip(*np.nonzero(np.triu(likeness > NEAR_DUPLICATE, k=1)), strict=True):
        found.append(f"{scenarios[i].id} and {scenarios[j].id} are near-duplicates (cosine {likeness[i, j]:.2f})")
    spoken: dict[str, str] = {}
    for s in scenarios:
        for plain, line in plain_lines(kind, s).items():
            if spoken.setdefault(plain, s.id) != s.id:
                found.append(f"{s.id} and {spoken[plain]} both say {line!r}")
    return found


def problems_of_one(kind: Scenarios, scenario: Any) -> list[str]:
    """What a scenario violates beyond its schema; nothing where it has not our own form."""
    return kind.problems(scenario) if kind.written(scenario) else []


def identity_of(kind: Scenarios, scenario: Any) -> tuple[str, str]:
    """Name and occupation in lower case; no two scenarios of a set share both."""
    name, work = kind.identity(scenario)
    return name.casefold(), work.casefold()


def plain_lines(kind: Scenarios, scenario: Any) -> dict[str, str]:
    """The written lines of three words and more, by their words in lower case."""
    bare = {re.sub(r"\W+", " ", line.casefold()).strip(): line for line in kind.lines(scenario)}
    return {plain: line for plain, line in bare.items() if len(plain.split()) > 2}


def similarity(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Cosine similarity, shape (n, n), of character 3- to 5-gram TF-IDF vectors (sublinear term frequency)."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # half a second to import

    vectors = TfidfVectorizer(**_TERMS, **_WEIGHTS).fit_transform(texts)
    likeness: npt.NDArray[np.float64] = (vectors @ vectors.T).toarray()
    return likeness


class Likeness:
    """Similarity of a new text to those of a growing set; the first texts fix the term weights.

    The measure of `similarity`, whose weights come from exactly the texts compared. An n-gram that is in none of the first texts
    weighs most.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        # hashed, because a vocabulary would leave out whatever new texts alone have in common
        self._counts = HashingVectorizer(**_TERMS, n_features=2**20, alternate_sign=False, norm=None)
        counted = self._counts.transform(texts)
        self._weights = TfidfTransformer(**_WEIGHTS).fit(counted)
        self._known = self._weights.transform(counted)

    def to_known(self, text: str) -> npt.NDArray[np.float64]:
        """Cosine similarity to every text so far, shape (n,), in the order of adding."""
        found: npt.NDArray[np.float64] = self._known @ self._vector(text).toarray()[0]
        return found

    def add(self, text: str) -> None:
        """Adds a text to compare with."""
        from scipy.sparse import vstack

        self._known = vstack([self._known, self._vector(text)], format="csr")

    def _vector(self, text: str) -> Any:
        return self._weights.transform(self._counts.transform([text]))
