"""How often a policy repeats itself: within a dialogue, and in dialogues with other scenarios.

Neither the score nor the KL from the reference shows a policy that gives everybody the one reply that pays.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

REPEATED = 0.2
"""Share of replies said to others too, from which a model is named for it. Ours."""


class Repeats(NamedTuple):
    """Shares of all replies, silent ones included: said before in the same dialogue, and in another scenario as well."""

    said_before: float
    said_to_others: float


def repeats_of(dialogues: Iterable[tuple[Hashable, Sequence[str]]]) -> Repeats:
    """Shares of repeated replies, 0 without any reply, from scenario and replies of each dialogue.

    >>> repeats_of([("a", ["I see.", "i  see."]), ("b", ["I see.", ""]), ("a", ["Go on."])])
    Repeats(said_before=0.2, said_to_others=0.6)
    """
    every = [(scenario, [normalised(reply) for reply in replies]) for scenario, replies in dialogues]
    spoken = [[words for words in said if words] for _, said in every]
    before = sum(len(said) - len(set(said)) for said in spoken)
    return Repeats(before / max(1, sum(len(said) for _, said in every)), said_to_others(every))


def said_to_others(dialogues: Iterable[tuple[Hashable, Sequence[str | int]]]) -> float:
    """Share of replies that occur in another scenario as well, from normalised words or their hashes; an empty one is false."""
    scenarios: dict[str | int, set[Hashable]] = defaultdict(set)
    replies: Counter[str | int] = Counter()
    for scenario, said in dialogues:
        replies.update(said)
        for words in said:
            scenarios[words].add(scenario)
    shared = sum(n for words, n in replies.items() if words not in (0, "") and len(scenarios[words]) > 1)
    return shared / max(1, replies.total())


def normalised(reply: str) -> str:
    return " ".join(reply.lower().split())
