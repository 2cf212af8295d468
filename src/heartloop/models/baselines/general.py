"""Eight scripted supporters for any conversation: good ones, poor ones, and a broken endpoint.

`listener` reflects and asks, `coach` asks and then fits advice to what was told, `fixer` advises at once, `template` gives stock
sympathy, `lecturer` instructs, `flatterer` gushes, `silent` says next to nothing. `garbage` is what a broken endpoint might
send; it belongs to no ranking. What they say is in `phrases.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.models.baselines.hearing import PAST, Heard, Pick, fill, phrases, things_of

__all__ = ["GENERAL", "at_once", "fixed", "reflection"]


def reflection(heard: Heard, pick: Pick) -> str:
    table = phrases()["reflect"]
    fresh = [c for c in heard.clauses if c.lower() not in " ".join(heard.own).lower()]
    if fresh:
        openers = [*table["openers"], *(table["openers_heavy"] if _mood_of(heard.last) is not None else [])]
        about_you = re.match(r"(you|you've|you'd)\b", fresh[0]) and PAST.match(fresh[0])
        return fill(pick.one([*openers, *table["openers_you"]] if about_you else openers), r=fresh[0])
    if heard.things:
        return fill(pick.one(table["things"]), thing=heard.things[0])
    return pick.one(table["plain"])


def _guess(heard: Heard, pick: Pick) -> str:
    rows = phrases()["feelings"]
    return pick.one((_mood_of(heard.last) or rows[-1])["guesses"], otherwise=rows[-1]["guesses"])


def _mood_of(message: str) -> Mapping[str, Any] | None:
    """The row of feelings whose words occur most in a message; `None` where none does."""
    text = message.lower()
    hits = [(sum(re.search(rf"\b{re.escape(w)}", text) is not None for w in row["words"]), row) for row in phrases()["feelings"]]
    most, best = max(hits, key=lambda hit: hit[0])
    return best if most else None


def _listener(heard: Heard, pick: Pick) -> str:
    questions = phrases()["questions"]
    past = [clause for clause in heard.clauses[1:] if PAST.match(clause)]
    parts = [reflection(heard, pick), _guess(heard, pick)]
    if heard.turn % 3 != 2:  # leaves room every third time
        if heard.things and heard.turn % 2 == 0:
            parts.append(fill(pick.one(questions["thing"]), thing=heard.things[-1]))
        elif past:
            parts.append(fill(pick.one(questions["clause"]), r=past[0]))
        else:
            parts.append(pick.one(questions["plain"]))
    return " ".join(parts)


def _topic_steps(heard: Heard) -> Mapping[str, Any]:
    text = " ".join(heard.said).lower()
    rows = phrases()["steps"]
    best: Mapping[str, Any] = max(rows, key=lambda row: sum(len(re.findall(rf"\b{re.escape(w)}", text)) for w in row["about"]))
    return best if any(re.search(rf"\b{re.escape(w)}", text) for w in best["about"]) else rows[-1]


def _coach(heard: Heard, pick: Pick) -> str:
    advise = phrases()["advise"]
    told = things_of(" ".join(heard.said))
    recurring = [thing for thing in told if sum(thing.split()[-1] in message for message in heard.said) > 1]
    slots = {"who": heard.people[:1], "thing": [*heard.things, *recurring][:1]}
    if heard.turn < 3:
        return f"{reflection(heard, pick)} {_slotted(advise['asks'], slots, pick)}"
    step = _slotted(_topic_steps(heard)["fitted"], slots, pick, otherwise=phrases()["steps"][-1]["fitted"])
    facts = [*heard.clauses, *heard.facts]
    fresh = [fact for fact in facts if fact.lower() not in " ".join(heard.own).lower()] or facts
    advice = fill(pick.one(advise["ties"]), fact=fresh[0], step=step) if fresh else step[:1].upper() + step[1:]
    return f"{advice} {pick.one(advise['checks'])}"


def _slotted(phrases: Sequence[str], slots: Mapping[str, Sequence[str]], pick: Pick, *, otherwise: Sequence[str] = ()) -> str:
    """One of the phrases whose blanks can all be filled."""

    def usable(rows: Sequence[str]) -> list[str]:
        return [row for row in rows if all(slots[blank] for blank in re.findall(r"\{(\w+)\}", row))]

    values = {name: found[0] for name, found in slots.items() if found}
    spare = usable(otherwise)
    return fill(pick.one(usable(phrases) or spare, otherwise=spare), **values)


def _fixer(heard: Heard, pick: Pick) -> str:
    steps = [*_topic_steps(heard)["plain"], *phrases()["steps"][-1]["plain"]]
    first = pick.one(steps)
    second = pick.one([step for step in steps if step != first])
    return fill(pick.one(phrases()["fixer"]["frames"]), a=first.rstrip("."), b=second)


def fixed(name: str) -> Callable[[Heard, Pick], str]:
    def say(heard: Heard, pick: Pick) -> str:
        says: Sequence[str] = phrases()[name]["says"]
        return says[heard.turn % len(says)]

    return say


def at_once(name: str, said: str, pick: Pick) -> str:
    """What is said where there is one turn: a supporter that says one fixed sentence a turn picks one of them."""
    stock = [line for line in phrases()[name].get("says", ()) if line] if name in phrases() and name != "garbage" else []
    return pick.one(stock) if stock else said


GENERAL: Mapping[str, Callable[[Heard, Pick], str]] = {
    "listener": _listener,
    "coach": _coach,
    "fixer": _fixer,
    "template": fixed("template"),
    "lecturer": fixed("lecturer"),
    "flatterer": fixed("flatterer"),
    "silent": fixed("silent"),
    "garbage": fixed("garbage"),
}
"""The scripted supporters by name."""
