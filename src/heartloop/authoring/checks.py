"""What a whole set of scenarios must pass: each scenario's own rules, near-duplicates, namesakes.

Covers sets of SAGE and of EIBench. Near-duplicates are found by character TF-IDF. Does not cover style: that takes a reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from heartloop.environments import eibench, sage
from heartloop.environments.eibench.scenario import problems_of as problems_in_eibench
from heartloop.environments.sage.scenario import problems_of as problems_in_sage

__all__ = ["NEAR_DUPLICATE", "problems_of_set", "similarity"]

NEAR_DUPLICATE = 0.5
"""Cosine of character 3- to 5-grams (TF-IDF) from which two scenarios count as near-duplicates (ours)."""

Scenario = sage.Scenario | eibench.Scenario


def problems_of_set(scenarios: Sequence[Scenario]) -> list[str]:
    """Every problem found, one sentence each; empty when the set is fit to ship."""
    found = [f"{s.id}: {problem}" for s in scenarios for problem in _problems_of(s)]
    people = Counter(map(_name_and_trade, scenarios))
    found += [f"{name}, {trade}: {n} people of the same name and trade" for (name, trade), n in people.items() if n > 1]
    likeness = similarity([_story(s) for s in scenarios])
    for i, j in zip(*np.nonzero(np.triu(likeness > NEAR_DUPLICATE, k=1)), strict=True):
        found.append(f"{scenarios[i].id} and {scenarios[j].id} are near-duplicates (cosine {likeness[i, j]:.2f})")
    spoken: dict[str, str] = {}
    for s in scenarios:
        for line in (line for group in s.lines.model_dump().values() for line in group):
            plain = re.sub(r"\W+", " ", line.casefold()).strip()
            if len(plain.split()) > 2 and spoken.setdefault(plain, s.id) != s.id:
                found.append(f"{s.id} and {spoken[plain]} both say {line!r}")
    return found


def similarity(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Cosine similarity, shape (n, n), of character 3- to 5-gram TF-IDF vectors (sublinear term frequency)."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # half a second to import

    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True).fit_transform(texts)
    likeness: npt.NDArray[np.float64] = (vectors @ vectors.T).toarray()
    return likeness


def _problems_of(s: Scenario) -> list[str]:
    return problems_in_sage(s) if isinstance(s, sage.Scenario) else problems_in_eibench(s)


def _name_and_trade(s: Scenario) -> tuple[str, str]:
    name, trade = (s.persona.name, s.persona.occupation) if isinstance(s, sage.Scenario) else (s.user.name, s.user.role)
    return name.casefold(), trade.casefold()


def _story(s: Scenario) -> str:
    if isinstance(s, eibench.Scenario):
        return " ".join([s.opening or "", s.user.background, *(beat.text for beat in s.beats)])
    return " ".join([s.first_message, s.background.event, *(beat.text for beat in s.beats)])
