"""Seven scripted supporters for the failures that EIBench is about, and for what is better.

`pushover` gives in to whatever is asked, `rigid` repeats the rule, `diplomat` says no warmly and names what can be done
instead; `excuser` explains itself, `owner` names what it did and what it will do about it; `interviewer` asks one question after
the other, `light` takes up something it sees and gives something small of its own. Three of them read their own role, as the
system prompt gives it: what they know, and what they did. What they say is in `phrases.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from heartloop.models.baselines.general import fixed, reflection
from heartloop.models.baselines.hearing import Heard, Pick, fill, phrases

__all__ = ["MANAGING"]

_OPENERS = re.compile(r"(?:The|An?|There|Your|Her|His|Their|On|In|At|It|She|He|They|One|Two|Three|Four|Some|Every|Last|This)\b")
_SUBJECT = re.compile(r"^(?:He|She|They)\b")


def _diplomat(heard: Heard, pick: Pick) -> str:
    """Takes up what was said, says no once in a while, and holds out something it knows."""
    said = phrases()["diplomat"]
    parts = [reflection(heard, pick)]
    if heard.turn % 3 == 0:
        parts.append(pick.one(said["no"]))
    if heard.knows:
        parts.append(fill(pick.one(said["offers"]), fact=_lowered(_unsaid(heard, heard.turn))))
    return " ".join(parts)


def _owner(heard: Heard, pick: Pick) -> str:
    """Names the deed first, then what it did to the other, then what can be mended."""
    said = phrases()["owner"]
    deeds = _own_deeds(heard)
    parts: list[str] = []
    if heard.turn < len(deeds):
        parts.append(fill(pick.one(said["deeds"]), deed=deeds[heard.turn]))
    parts.append(reflection(heard, pick))
    if heard.turn and heard.knows:
        parts.append(fill(pick.one(said["amends"]), fact=_lowered(_unsaid(heard, heard.turn))))
    elif not deeds:
        parts.append(pick.one(said["plain"]))
    return " ".join(parts)


def _light(heard: Heard, pick: Pick) -> str:
    """Something it sees or was told, something small of its own, and seldom a question."""
    said = phrases()["light"]
    own = pick.one(said["own"])
    if not heard.said and heard.knows:
        return f"{fill(pick.one(said['sees']), fact=_lowered(_to_you(_unsaid(heard, 0))))} {own}"
    if heard.turn % 2 and heard.knows:
        return f"{reflection(heard, pick)} {own}"
    return f"{reflection(heard, pick)} {own} {pick.one(said['asks'])}"


def _unsaid(heard: Heard, turn: int) -> str:
    """A fact of its profile that it has not said yet."""
    spoken = " ".join(heard.own).lower()
    left = [
        fact for fact in heard.knows if _lowered(_to_you(fact)).lower() not in spoken and _lowered(fact).lower() not in spoken
    ]
    facts: Sequence[str] = left or heard.knows
    return facts[turn % len(facts)]


def _own_deeds(heard: Heard) -> list[str]:
    """What the profile says that it did, in the first person."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", heard.background):
        name = rf"^(?:{re.escape(heard.name)})\b" if heard.name else r"^(?!)"
        first = re.sub(name, "I", _SUBJECT.sub("I", sentence.strip()))
        if first.startswith("I ") and not re.match(r"I (?:is|was|has|knows|lives|works|are|were|have)\b", first):
            found.append(re.sub(r"\b(?:his|her|their)\b", "my", first).rstrip("."))
    return found


def _to_you(fact: str) -> str:
    """A fact about the other person, said to them."""
    return re.sub(r"\b(?:her|his|their)\b", "your", re.sub(r"^(?:Her|His|Their)\b", "Your", fact))


def _lowered(fact: str) -> str:
    return (fact[:1].lower() + fact[1:] if _OPENERS.match(fact) else fact).rstrip(".")


MANAGING: Mapping[str, Callable[[Heard, Pick], str]] = {
    "pushover": fixed("pushover"),
    "rigid": fixed("rigid"),
    "diplomat": _diplomat,
    "excuser": fixed("excuser"),
    "owner": _owner,
    "interviewer": fixed("interviewer"),
    "light": _light,
}
"""The seven of EIBench, by name."""
