"""What a whole set of scenarios must pass: each scenario's own rules, near-duplicates, namesakes.

Covers sets of SAGE, EIBench, EMPA, PERM and daily conversation. Near-duplicates are found by character TF-IDF. Does not cover
style: that takes a reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heartloop.environments import daily, eibench, empa, perm, sage
from heartloop.environments.daily.scenario import problems_of as problems_in_daily
from heartloop.environments.eibench.scenario import problems_of as problems_in_eibench
from heartloop.environments.empa.scenario import problems_of as problems_in_empa
from heartloop.environments.perm.scenario import problems_of as problems_in_perm
from heartloop.environments.sage.scenario import problems_of as problems_in_sage

__all__ = [
    "NEAR_DUPLICATE",
    "Likeness",
    "name_and_trade",
    "plain_lines",
    "problems_of_one",
    "problems_of_set",
    "similarity",
    "story_of",
]

NEAR_DUPLICATE = 0.5
"""Cosine of character 3- to 5-grams (TF-IDF) from which two scenarios count as near-duplicates (ours)."""

_TERMS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 5)}
_WEIGHTS: dict[str, Any] = {"sublinear_tf": True}

Scenario = sage.Scenario | eibench.Scenario | empa.Scenario | perm.Scenario | perm.DrawnSample | daily.Scenario


def problems_of_set(scenarios: Sequence[Scenario]) -> list[str]:
    """Every problem found, one sentence each; empty when the set is fit to ship."""
    found = [f"{s.id}: {problem}" for s in scenarios for problem in problems_of_one(s)]
    people = Counter(map(name_and_trade, scenarios))
    found += [f"{name}, {trade}: {n} people of the same name and trade" for (name, trade), n in people.items() if n > 1]
    likeness = similarity([story_of(s) for s in scenarios])
    for i, j in zip(*np.nonzero(np.triu(likeness > NEAR_DUPLICATE, k=1)), strict=True):
        found.append(f"{scenarios[i].id} and {scenarios[j].id} are near-duplicates (cosine {likeness[i, j]:.2f})")
    spoken: dict[str, str] = {}
    for s in scenarios:
        for plain, line in plain_lines(s).items():
            if spoken.setdefault(plain, s.id) != s.id:
                found.append(f"{s.id} and {spoken[plain]} both say {line!r}")
    return found


def similarity(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Cosine similarity, shape (n, n), of character 3- to 5-gram TF-IDF vectors (sublinear term frequency)."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # half a second to import

    vectors = TfidfVectorizer(**_TERMS, **_WEIGHTS).fit_transform(texts)
    likeness: npt.NDArray[np.float64] = (vectors @ vectors.T).toarray()
    return likeness


class Likeness:
    """How near a new text is to those of a set that may grow; term weights are fixed by the texts it begins with.

    The measure of `similarity`, whose weights come from exactly the texts compared. A sequence of characters that none of the
    first texts holds weighs most.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        # hashed, because a vocabulary would leave out whatever new texts alone have in common
        self._counts = HashingVectorizer(**_TERMS, n_features=2**20, alternate_sign=False, norm=None)
        counted = self._counts.transform(texts)
        self._weights = TfidfTransformer(**_WEIGHTS).fit(counted)
        self._known = self._weights.transform(counted)

    def to_known(self, text: str) -> npt.NDArray[np.float64]:
        """Cosine similarity to every text so far, shape (n,), in the order in which they came."""
        found: npt.NDArray[np.float64] = self._known @ self._vector(text).toarray()[0]
        return found

    def add(self, text: str) -> None:
        """One more text to compare with."""
        from scipy.sparse import vstack

        self._known = vstack([self._known, self._vector(text)], format="csr")

    def _vector(self, text: str) -> Any:
        return self._weights.transform(self._counts.transform([text]))


def problems_of_one(s: Scenario) -> list[str]:
    """What a scenario must not have by its own environment's rules, beyond the schema; drawn samples have none."""
    if isinstance(s, perm.DrawnSample):
        return []
    if isinstance(s, empa.Scenario):
        return problems_in_empa(s)
    if isinstance(s, perm.Scenario):
        return problems_in_perm(s)
    if isinstance(s, daily.Scenario):
        return problems_in_daily(s)
    return problems_in_sage(s) if isinstance(s, sage.Scenario) else problems_in_eibench(s)


def name_and_trade(s: Scenario) -> tuple[str, str]:
    """Who this is; no two people of a set share both."""
    if isinstance(s, empa.Scenario):
        return s.person.name.casefold(), s.person.occupation.casefold()
    if isinstance(s, perm.DrawnSample):
        return (s.persona.name.casefold(), s.persona.occupation.casefold()) if s.persona else (s.id, "")
    name, trade = (s.user.name, s.user.role) if isinstance(s, eibench.Scenario) else (s.persona.name, s.persona.occupation)
    return name.casefold(), trade.casefold()


def plain_lines(s: Scenario) -> dict[str, str]:
    """What this person says besides the beats, in lines of three words and more, by its bare words."""
    if isinstance(s, perm.Scenario | perm.DrawnSample | daily.Scenario):
        return {}
    lines = [line for group in s.lines.model_dump().values() for line in group]
    bare = {re.sub(r"\W+", " ", line.casefold()).strip(): line for line in lines}
    return {plain: line for plain, line in bare.items() if len(plain.split()) > 2}


def story_of(s: Scenario) -> str:
    """The text by which scenarios are compared: how it begins, what happened, what the person tells."""
    if isinstance(s, empa.Scenario):
        return " ".join([s.opening, s.story.trigger, *(stage.text for stage in s.story.stages), *(beat.text for beat in s.beats)])
    if isinstance(s, perm.Scenario | perm.DrawnSample):
        return f"{s.query} {s.scenario}"
    if isinstance(s, daily.Scenario):
        return " ".join([s.query, s.about, *(memory.text for memory in s.memories)])
    if isinstance(s, eibench.Scenario):
        return " ".join([s.opening or "", s.user.background, *(beat.text for beat in s.beats)])
    return " ".join([s.first_message, s.background.event, *(beat.text for beat in s.beats)])
