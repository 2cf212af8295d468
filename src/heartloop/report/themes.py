"""Scenarios grouped by themes, words that several themes share, and content tags.

Pure: facts in, groups out. No category is made up: a group is a theme that several scenarios share word for word, a
word that several themes share, or a content tag. A scenario may be in several groups, or in none. Does not cover means
(`page`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["LEAST_SCENARIOS", "Grouping", "group_scenarios"]

LEAST_SCENARIOS = 3
"""A smaller group says more about its scenarios than about its theme and is not shown."""
MOST_GROUPS = 16
"""Of either kind, the largest."""

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SMALL_WORDS = (
    "a about after all an and are as at before being between but by from for had has have her him his how in into is it its my"
    " no nobody not of off on one one's or our out over own s saw she somebody than that the their them they this to up was what"
    " when where who whose with without you your"
)
"""English words that tell nothing of a theme; a theme in another language is grouped whole."""


class Grouping(NamedTuple):
    """Scenarios that share a theme, a word of it, or a tag."""

    key: str
    kind: Literal["theme", "word", "tag"]
    scenarios: frozenset[Hashable]
    themes: tuple[str, ...]
    """The themes found in it, in the order of the alphabet."""


def group_scenarios(facts: Mapping[Any, Mapping[str, str]]) -> list[Grouping]:
    """Groups of at least `LEAST_SCENARIOS`, whole themes before words of themes before tags, the largest first.

    Args:
        facts: by scenario, the facts of their scenario; `theme` and `tags` (separated by spaces, `none` for none) are read.

    >>> [(g.key, len(g.scenarios)) for g in group_scenarios({n: {"theme": t, "tags": "none"} for n, t in enumerate(
    ...     ["work and money", "a night at work", "work and pride", "brothers"])})]
    [('work', 3)]
    """
    whole: dict[str, set[Hashable]] = {}
    words: dict[str, set[Hashable]] = {}
    tags: dict[str, set[Hashable]] = {}
    small = set(_SMALL_WORDS.split())
    for scenario, given in facts.items():
        theme = given.get("theme", "").strip()
        if theme:
            whole.setdefault(theme, set()).add(scenario)
        for word in set(_WORD.findall(theme.lower())) - small:
            words.setdefault(word, set()).add(scenario)
        for tag in set(given.get("tags", "").split()) - {"none"}:
            tags.setdefault(tag, set()).add(scenario)
    taken = {frozenset(scenarios) for scenarios in whole.values() if len(scenarios) >= LEAST_SCENARIOS}
    words = {word: scenarios for word, scenarios in words.items() if frozenset(scenarios) not in taken}

    def largest(kind: Literal["theme", "word", "tag"], groups: Mapping[str, set[Hashable]]) -> list[Grouping]:
        kept = sorted(
            (item for item in groups.items() if len(item[1]) >= LEAST_SCENARIOS), key=lambda item: (-len(item[1]), item[0])
        )
        return [
            Grouping(
                key, kind, frozenset(scenarios), tuple(sorted({facts[p].get("theme", "").strip() for p in scenarios} - {""}))
            )
            for key, scenarios in kept
        ]

    about = [*largest("theme", whole), *largest("word", words)]
    return [*about[:MOST_GROUPS], *largest("tag", tags)[:MOST_GROUPS]]
