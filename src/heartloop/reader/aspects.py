"""What a reader marks of a reply: twelve aspects from 0 to 4, and the 24 support strategies of SAGE Table 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ASPECTS = (
    "understanding", "feeling", "particular", "warmth", "pressure", "helpful", "honesty", "owning", "hostility", "danger",
    "coherence", "performance",
)  # fmt: skip
"""What judges mark of a reply, each 0 to 4, in the order of the data and of the weights."""

HARMFUL_ASPECTS = frozenset({"pressure", "hostility", "danger", "performance"})


class Strategy(NamedTuple):
    """One of the 24 support strategies (SAGE Table 4), named in our own short words."""

    id: str
    group: str
    group_name: str
    name: str


_GROUPS = {
    "A": ("Question", ("Asking for facts", "Asking how it feels inside", "Asking what has been tried", "Asking for their view",
                       "A question to think on")),
    "B": ("Emotional empathy", ("Surface empathy", "Empathy with the problem restated", "Empathy with what is unspoken")),
    "C": ("Self-disclosure", ("In your place I would feel the same", "A story of one's own")),
    "D": ("Emotional comfort", ("Comforting words", "Offering to listen", "Venting on their behalf")),
    "E": ("Affirmation and reassurance", ("Praise of who they are", "Praise of what they think", "Praise of what they did",
                                          "Standing by them")),
    "F": ("Suggestions", ("Analysis of the problem", "Relief for the moment", "Seeing a professional", "General advice",
                          "Advice cut to their situation")),
    "G": ("Information", ("Facts about feelings", "Facts about solutions")),
}  # fmt: skip

STRATEGIES: Mapping[str, Strategy] = {
    f"{group}-{number}": Strategy(f"{group}-{number}", group, group_name, name)
    for group, (group_name, names) in _GROUPS.items()
    for number, name in enumerate(names, start=1)
}
