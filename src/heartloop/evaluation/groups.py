"""Ranks of the leaderboard: letters of rank groups, and rank intervals.

Does not cover the rule (`scoring.ranks`), nor the comparison of two models (`comparison`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heartloop.scoring.ranks import Rank, ranks

__all__ = ["group_letter", "ranks_of"]

Key = tuple[str, str, int, int]
"""Scenario, fingerprint, repeat, seed."""


def ranks_of(finals: Mapping[str, Mapping[Key, float]], common: Collection[Key]) -> dict[str, Rank]:
    """The rank of each model, from its points on the dialogues scored for all; empty if there are none."""
    keys = sorted(common)
    if not keys:
        return {}
    scenarios = [scenario for scenario, *_ in keys]
    found = ranks([[mine[key] for key in keys] for mine in finals.values()], clusters=scenarios)
    return dict(zip(finals, found, strict=True))


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
