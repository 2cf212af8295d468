"""Nine baselines for any dialogue, none of which repeats what the other person said.

`reflector` gives back in general words that something was said, and asks an open question; `assistant` thanks, validates, lists
options and offers more help; `template` gives stock sympathy; `fixer` gives advice at once, on the topic whose words occur most;
`lecturer` instructs; `flatterer` compliments; `silent` says next to nothing; `garbage` is what a broken endpoint might send;
`hostile` belittles and blames. The wording is in `phrases.toml`. Does not cover the tenth (`counsellor`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.models.baselines.text import Context, Pick, fill, phrases

__all__ = ["SCRIPTED", "fixed", "in_one_turn", "reflector"]


def reflector(context: Context, pick: Pick) -> str:
    """An answer in general words and an open question; an opening where nobody has spoken."""
    table = phrases()["reflector"]
    if not context.messages:
        return pick.one(table["opens"])
    return f"{pick.one(table['heard'])} {pick.one(table['asks'])}"


def _assistant(context: Context, pick: Pick) -> str:
    table = phrases()["assistant"]
    thanks, validates, leads, offers = (pick.one(table[part]) for part in ("thanks", "validates", "leads", "offers"))
    options = pick.order(table["options"])
    first = 3 * context.turn
    listed = "\n".join(f"- {options[place % len(options)]}" for place in range(first, first + 3))
    return f"{thanks} {validates} {leads}\n\n{listed}\n\n{offers}"


def _fixer(context: Context, pick: Pick) -> str:
    table = phrases()["steps"]
    steps = pick.order([*_topical(table, " ".join(context.messages).lower()), *table[-1]["plain"]])
    first, second = (steps[(2 * context.turn + place) % len(steps)] for place in (0, 1))
    return fill(pick.one(phrases()["fixer"]["frames"]), a=first.rstrip("."), b=second)


def _topical(rows: Sequence[Mapping[str, Any]], text: str) -> Sequence[str]:
    """The steps of the topic whose words occur most; none where no word occurs."""
    counts = [sum(len(re.findall(rf"\b{re.escape(word)}", text)) for word in row["about"]) for row in rows]
    steps: Sequence[str] = rows[counts.index(max(counts))]["plain"] if any(counts) else ()
    return steps


def _hostile(context: Context, pick: Pick) -> str:
    table = phrases()["hostile"]
    parts = [pick.one(table["blames"]), pick.one(table["belittles"])]
    return " ".join(parts if context.turn % 2 == 0 else parts[::-1])


def fixed(name: str) -> Callable[[Context, Pick], str]:
    """A baseline that says the sentences of a table in order, whatever the other person says."""

    def say(context: Context, pick: Pick) -> str:
        says: Sequence[str] = phrases()[name]["says"]
        return says[context.turn % len(says)]

    return say


def in_one_turn(name: str, reply: str, pick: Pick) -> str:
    """The reply where a dialogue has one turn: a baseline with fixed sentences picks one of them instead of its first."""
    stock = [line for line in phrases().get(name, {}).get("says", ()) if line] if name != "garbage" else []
    return pick.one(stock) if stock else reply


SCRIPTED: Mapping[str, Callable[[Context, Pick], str]] = {
    "reflector": reflector,
    "assistant": _assistant,
    "template": fixed("template"),
    "fixer": _fixer,
    "lecturer": fixed("lecturer"),
    "flatterer": fixed("flatterer"),
    "silent": fixed("silent"),
    "garbage": fixed("garbage"),
    "hostile": _hostile,
}
"""By name."""
