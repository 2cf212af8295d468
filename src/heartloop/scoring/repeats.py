"""How often a policy repeats itself: within a dialogue, and in dialogues with other scenarios.

Neither the score nor the KL from the reference shows a policy that gives everybody the one reply that pays.
"""

from __future__ import annotations

from collections import defaultdict
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
    scenarios: dict[str, set[Hashable]] = defaultdict(set)
    said: list[str] = []
    before = 0
    for scenario, replies in dialogues:
        texts = [" ".join(reply.lower().split()) for reply in replies]
        spoken = [text for text in texts if text]
        before += len(spoken) - len(set(spoken))
        said += texts
        for text in spoken:
            scenarios[text].add(scenario)
    count = max(1, len(said))
    return Repeats(before / count, sum(len(scenarios[text]) > 1 for text in said if text) / count)
