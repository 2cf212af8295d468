"""Eight baselines for any dialogue: good ones, poor ones, and a broken endpoint.

`listener` reflects and asks; `coach` asks and then gives advice that fits what was said; `fixer` gives advice at once; `template`
gives stock sympathy; `lecturer` instructs; `flatterer` compliments; `silent` says next to nothing. `garbage` is what a broken
endpoint might send; it belongs to no ranking. The wording is in `phrases.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.models.baselines.text import PAST, Context, Pick, fill, phrases, things_of

__all__ = ["GENERAL", "fixed", "in_one_turn", "reflection"]


def reflection(context: Context, pick: Pick) -> str:
    """A sentence that takes up a clause, or a thing, of the last message."""
    table = phrases()["reflect"]
    fresh = [c for c in context.clauses if c.lower() not in " ".join(context.replies).lower()]
    if fresh:
        openers = [*table["openers"], *(table["openers_heavy"] if _mood_of(context.last) is not None else [])]
        about_you = re.match(r"(you|you've|you'd)\b", fresh[0]) and PAST.match(fresh[0])
        return fill(pick.one([*openers, *table["openers_you"]] if about_you else openers), r=fresh[0])
    if context.things:
        return fill(pick.one(table["things"]), thing=context.things[0])
    return pick.one(table["plain"])


def _guess(context: Context, pick: Pick) -> str:
    rows = phrases()["feelings"]
    return pick.one((_mood_of(context.last) or rows[-1])["guesses"], otherwise=rows[-1]["guesses"])


def _mood_of(message: str) -> Mapping[str, Any] | None:
    """The row of feelings whose words occur most in a message; `None` where none does."""
    text = message.lower()
    hits = [(sum(re.search(rf"\b{re.escape(w)}", text) is not None for w in row["words"]), row) for row in phrases()["feelings"]]
    most, best = max(hits, key=lambda hit: hit[0])
    return best if most else None


def _listener(context: Context, pick: Pick) -> str:
    questions = phrases()["questions"]
    past = [clause for clause in context.clauses[1:] if PAST.match(clause)]
    parts = [reflection(context, pick), _guess(context, pick)]
    if context.turn % 3 != 2:  # no question in every third turn
        if context.things and context.turn % 2 == 0:
            parts.append(fill(pick.one(questions["thing"]), thing=context.things[-1]))
        elif past:
            parts.append(fill(pick.one(questions["clause"]), r=past[0]))
        else:
            parts.append(pick.one(questions["plain"]))
    return " ".join(parts)


def _topic_steps(context: Context) -> Mapping[str, Any]:
    text = " ".join(context.messages).lower()
    rows = phrases()["steps"]
    best: Mapping[str, Any] = max(rows, key=lambda row: sum(len(re.findall(rf"\b{re.escape(w)}", text)) for w in row["about"]))
    return best if any(re.search(rf"\b{re.escape(w)}", text) for w in best["about"]) else rows[-1]


def _coach(context: Context, pick: Pick) -> str:
    advise = phrases()["advise"]
    mentioned = things_of(" ".join(context.messages))
    recurring = [thing for thing in mentioned if sum(thing.split()[-1] in message for message in context.messages) > 1]
    slots = {"who": context.people[:1], "thing": [*context.things, *recurring][:1]}
    if context.turn < 3:
        return f"{reflection(context, pick)} {_slotted(advise['asks'], slots, pick)}"
    step = _slotted(_topic_steps(context)["fitted"], slots, pick, otherwise=phrases()["steps"][-1]["fitted"])
    facts = [*context.clauses, *context.facts]
    fresh = [fact for fact in facts if fact.lower() not in " ".join(context.replies).lower()] or facts
    advice = fill(pick.one(advise["ties"]), fact=fresh[0], step=step) if fresh else step[:1].upper() + step[1:]
    return f"{advice} {pick.one(advise['checks'])}"


def _slotted(phrases: Sequence[str], slots: Mapping[str, Sequence[str]], pick: Pick, *, otherwise: Sequence[str] = ()) -> str:
    """One of the phrases whose blanks can all be filled, filled."""

    def usable(rows: Sequence[str]) -> list[str]:
        return [row for row in rows if all(slots[blank] for blank in re.findall(r"\{(\w+)\}", row))]

    values = {name: options[0] for name, options in slots.items() if options}
    spare = usable(otherwise)
    return fill(pick.one(usable(phrases) or spare, otherwise=spare), **values)


def _fixer(context: Context, pick: Pick) -> str:
    steps = [*_topic_steps(context)["plain"], *phrases()["steps"][-1]["plain"]]
    first = pick.one(steps)
    second = pick.one([step for step in steps if step != first])
    return fill(pick.one(phrases()["fixer"]["frames"]), a=first.rstrip("."), b=second)


def fixed(name: str) -> Callable[[Context, Pick], str]:
    """A baseline that says the sentences of a table in order, whatever the other person says."""

    def say(context: Context, pick: Pick) -> str:
        says: Sequence[str] = phrases()[name]["says"]
        return says[context.turn % len(says)]

    return say


def in_one_turn(name: str, reply: str, pick: Pick) -> str:
    """The reply where a dialogue has one turn: a baseline with fixed sentences picks one of them instead of its first."""
    stock = [line for line in phrases()[name].get("says", ()) if line] if name in phrases() and name != "garbage" else []
    return pick.one(stock) if stock else reply


GENERAL: Mapping[str, Callable[[Context, Pick], str]] = {
    "listener": _listener,
    "coach": _coach,
    "fixer": _fixer,
    "template": fixed("template"),
    "lecturer": fixed("lecturer"),
    "flatterer": fixed("flatterer"),
    "silent": fixed("silent"),
    "garbage": fixed("garbage"),
}
"""By name."""
