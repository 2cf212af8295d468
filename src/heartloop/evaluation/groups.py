"""Rank groups: the letters of the leaderboard.

Does not cover the rule (`scoring.statistics.rank_groups`), nor the comparison of two models (`comparison`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heartloop.scoring.statistics import rank_groups

__all__ = ["group_letter", "rank_letters"]

Key = tuple[str, str, int, int]
"""Scenario, fingerprint, repeat, seed."""


def rank_letters(finals: Mapping[str, Mapping[Key, float]], common: Collection[Key]) -> dict[str, str]:
    """The group letter of each model, from its points on the dialogues scored for all; empty if there are none."""
    keys = sorted(common)
    if not keys:
        return {}
    scenarios = [scenario for scenario, *_ in keys]
    groups = rank_groups([[mine[key] for key in keys] for mine in finals.values()], clusters=scenarios)
    return {model: group_letter(group) for model, group in zip(finals, groups, strict=True)}


def group_letter(number: int) -> str:
    """1 is A, 26 is Z, 27 is AA.

    >>> [group_letter(n) for n in (1, 26, 27, 53)]
    ['A', 'Z', 'AA', 'BA']
    """
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
