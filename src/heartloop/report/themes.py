"""People grouped by what their scenarios carry: themes, words that several themes share, content tags.

Pure: facts in, groups out. No category is made up: a group is a theme that several people share word for word, a word that
stands in several people's themes, or a content tag. A person may be in several groups, or in none. Does not cover means
(`page`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["LEAST_PEOPLE", "Grouping", "group_people"]

LEAST_PEOPLE = 3
"""A smaller group says more about its people than about its theme and is not shown."""
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
    """People who share a theme, a word of it, or a tag."""

    key: str
    kind: Literal["theme", "word", "tag"]
    people: frozenset[Hashable]
    themes: tuple[str, ...]
    """The themes found in it, in the order of the alphabet."""


def group_people(facts: Mapping[Any, Mapping[str, str]]) -> list[Grouping]:
    """Groups of at least `LEAST_PEOPLE`, whole themes before words of themes before tags, the largest first.

    Args:
        facts: by person, the facts of their scenario; `theme` and `tags` (separated by spaces, `none` for none) are read.

    >>> [(g.key, len(g.people)) for g in group_people({n: {"theme": t, "tags": "none"} for n, t in enumerate(
    ...     ["work and money", "a night at work", "work and pride", "brothers"])})]
    [('work', 3)]
    """
    whole: dict[str, set[Hashable]] = {}
    words: dict[str, set[Hashable]] = {}
    tags: dict[str, set[Hashable]] = {}
    small = set(_SMALL_WORDS.split())
    for person, told in facts.items():
        theme = told.get("theme", "").strip()
        if theme:
            whole.setdefault(theme, set()).add(person)
        for word in set(_WORD.findall(theme.lower())) - small:
            words.setdefault(word, set()).add(person)
        for tag in set(told.get("tags", "").split()) - {"none"}:
            tags.setdefault(tag, set()).add(person)
    taken = {frozenset(people) for people in whole.values() if len(people) >= LEAST_PEOPLE}
    words = {word: people for word, people in words.items() if frozenset(people) not in taken}

    def largest(kind: Literal["theme", "word", "tag"], groups: Mapping[str, set[Hashable]]) -> list[Grouping]:
        kept = sorted(
            (item for item in groups.items() if len(item[1]) >= LEAST_PEOPLE), key=lambda item: (-len(item[1]), item[0])
        )
        return [
            Grouping(key, kind, frozenset(people), tuple(sorted({facts[p].get("theme", "").strip() for p in people} - {""})))
            for key, people in kept
        ]

    about = [*largest("theme", whole), *largest("word", words)]
    return [*about[:MOST_GROUPS], *largest("tag", tags)[:MOST_GROUPS]]
