"""Seven baselines for dialogues in which the policy has a role, limits and something to answer for (the failures of EIBench).

`pushover` gives in to every demand; `rigid` repeats the rule; `diplomat` refuses kindly and names what can be done instead;
`excuser` justifies itself; `owner` names what it did and what it will do about it; `interviewer` asks one question after the
other; `light` takes up something it sees and adds something small of its own. `diplomat`, `owner` and `light` read the role in
the system prompt: what they know and what they did. The wording is in `phrases.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from heartloop.models.baselines.general import fixed, reflection
from heartloop.models.baselines.text import Context, Pick, fill, phrases

__all__ = ["MANAGING"]

_OPENERS = re.compile(r"(?:The|An?|There|Your|Her|His|Their|On|In|At|It|She|He|They|One|Two|Three|Four|Some|Every|Last|This)\b")
_SUBJECT = re.compile(r"^(?:He|She|They)\b")


def _diplomat(context: Context, pick: Pick) -> str:
    """Takes up the last message, refuses every third turn, and offers a fact of its role."""
    table = phrases()["diplomat"]
    parts = [reflection(context, pick)]
    if context.turn % 3 == 0:
        parts.append(pick.one(table["no"]))
    if context.knows:
        parts.append(fill(pick.one(table["offers"]), fact=_lowered(_unsaid(context, context.turn))))
    return " ".join(parts)


def _owner(context: Context, pick: Pick) -> str:
    """Names what it did first, then the effect on the other person, then what it can do about it."""
    table = phrases()["owner"]
    deeds = _own_deeds(context)
    parts: list[str] = []
    if context.turn < len(deeds):
        parts.append(fill(pick.one(table["deeds"]), deed=deeds[context.turn]))
    parts.append(reflection(context, pick))
    if context.turn and context.knows:
        parts.append(fill(pick.one(table["amends"]), fact=_lowered(_unsaid(context, context.turn))))
    elif not deeds:
        parts.append(pick.one(table["plain"]))
    return " ".join(parts)


def _light(context: Context, pick: Pick) -> str:
    """Takes up a fact or the last message, adds something of its own, and sometimes asks."""
    table = phrases()["light"]
    own = pick.one(table["own"])
    if not context.messages and context.knows:
        return f"{fill(pick.one(table['sees']), fact=_lowered(_to_you(_unsaid(context, 0))))} {own}"
    if context.turn % 2 and context.knows:
        return f"{reflection(context, pick)} {own}"
    return f"{reflection(context, pick)} {own} {pick.one(table['asks'])}"


def _unsaid(context: Context, turn: int) -> str:
    """A fact of its role that it has not mentioned yet."""
    spoken = " ".join(context.replies).lower()
    left = [
        fact for fact in context.knows if _lowered(_to_you(fact)).lower() not in spoken and _lowered(fact).lower() not in spoken
    ]
    facts: Sequence[str] = left or context.knows
    return facts[turn % len(facts)]


def _own_deeds(context: Context) -> list[str]:
    """What its role says that it did, in the first person."""
    deeds: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", context.background):
        name = rf"^(?:{re.escape(context.name)})\b" if context.name else r"^(?!)"
        first = re.sub(name, "I", _SUBJECT.sub("I", sentence.strip()))
        if first.startswith("I ") and not re.match(r"I (?:is|was|has|knows|lives|works|are|were|have)\b", first):
            deeds.append(re.sub(r"\b(?:his|her|their)\b", "my", first).rstrip("."))
    return deeds


def _to_you(fact: str) -> str:
    """A fact about the other person in the second person."""
    return re.sub(r"\b(?:her|his|their)\b", "your", re.sub(r"^(?:Her|His|Their)\b", "Your", fact))


def _lowered(fact: str) -> str:
    return (fact[:1].lower() + fact[1:] if _OPENERS.match(fact) else fact).rstrip(".")


MANAGING: Mapping[str, Callable[[Context, Pick], str]] = {
    "pushover": fixed("pushover"),
    "rigid": fixed("rigid"),
    "diplomat": _diplomat,
    "excuser": fixed("excuser"),
    "owner": _owner,
    "interviewer": fixed("interviewer"),
    "light": _light,
}
"""By name."""
