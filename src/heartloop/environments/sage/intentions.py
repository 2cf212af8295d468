"""The ten hidden intentions, and what a first message may not say about them.

Meaning and counts of the eight supportive ones: SAGE Table 3. The two chit-chat ones: RLVER App. A.1; their
counts are ours. All wording is ours.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["GIVE_AWAY_PATTERNS", "INTENTIONS", "Family", "Intention"]

Family = Literal["support", "chat"]


class Intention(NamedTuple):
    """What a person secretly wants from the conversation; `cases` is the published test count."""

    key: str
    family: Family
    text: str
    rational: bool
    cases: int


INTENTIONS: dict[str, Intention] = {
    row.key: row
    for row in (
        # Meaning and counts: SAGE Table 3; wording ours. The last two: RLVER App. A.1, counts ours.
        Intention("dialectic", "support", "wants the matter weighed from both sides, with what speaks for and against each", True, 12),
        Intention("advice", "support", "wants advice that truly helps out of the present difficulty", True, 15),
        Intention("motives", "support", "wants to understand why the other people in this acted as they did", True, 11),
        Intention("reflection", "support", "wants to be led to look at their own part in this and to grow from it", True, 13),
        Intention("praise", "support", "wants sincere praise for something specific they did", False, 13),
        Intention("listen", "support", "wants someone to listen attentively while they pour it all out", False, 12),
        Intention("empathy", "support", "wants their feelings deeply understood, not merely soothed", False, 13),
        Intention("blameless", "support", "believes none of this is their fault and wants the other to agree", False, 11),
        Intention("interest", "chat", "wants to talk about what fascinates them with someone truly interested", False, 20),
        Intention("passive", "chat", "waits for the other to carry the conversation and to make it easy", False, 20),
    )
}  # fmt: skip
"""The ten hidden intentions by key."""

GIVE_AWAY_PATTERNS: dict[str, tuple[str, ...]] = {
    "dialectic": (r"\bboth sides\b", r"\bpros and cons\b", r"\bobjectiv", r"\bon (the )?one hand\b", r"\bbalanced\b", r"\bweigh (it|this|things) up\b", r"\bother side of\b"),
    "advice": (r"\badvi[cs]e\b", r"\bwhat (should|would|can|could|do) (i|you) do\b", r"\bshould i\b", r"\bhelp me (decide|figure|work|choose)\b", r"\bsuggest", r"\bany (ideas|tips)\b", r"\bhow do i\b"),
    "motives": (r"\bwhy (did|does|do|would|is|are|was|were) (he|she|they|my|her|his|someone|people|anyone)\b", r"\breasons?\b", r"\bmotive", r"\bunderstand (him|her|them)\b", r"\bgoing through (his|her|their) (head|mind)\b"),
    "reflection": (r"\bmy (own )?(part|role|share) in\b", r"\bwhat did i do\b", r"\bam i the (problem|one)\b", r"\bgrow(th)?\b", r"\blearn from\b", r"\breflect", r"\blook at myself\b"),
    "praise": (r"\bproud of me\b", r"\bpraise\b", r"\bwell done\b", r"\bdid i do (well|good|right)\b", r"\bgood job\b", r"\bimpress", r"\bgive me credit\b"),
    "listen": (r"\b(just )?(need|want) (to|someone to|somebody to) (vent|listen|talk)\b", r"\blet me (vent|rant)\b", r"\bvent(ing)?\b", r"\bhear me out\b", r"\brant\b", r"\blisten to me\b"),
    "empathy": (r"\bunderstand (me|how i feel|what i feel|my feelings)\b", r"\bfeel what i feel\b", r"\bempath", r"\bhow (it|this|that) feels\b", r"\bget (me|how i feel)\b"),
    "blameless": (r"\b(my|own) fault\b", r"\bto blame\b", r"\bblam(e|ed|ing) me\b", r"\bnot guilty\b", r"\bdid nothing wrong\b", r"\bam i wrong\b", r"\bon my side\b", r"\bdidn'?t do anything wrong\b"),
    "interest": (r"\b(want|need|like) to talk about\b", r"\bcan we talk about\b", r"\bare you interested\b", r"\bshare your interest\b"),
    "passive": (r"\byou (talk|start|lead|pick|choose)\b", r"\bsay something\b", r"\bentertain me\b", r"\bnot much of a talker\b", r"\bask me\b"),
}  # fmt: skip
"""Per intention, patterns (case-insensitive) that a first message must not match: they give it away."""
