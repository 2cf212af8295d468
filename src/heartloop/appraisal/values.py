"""The values of an appraisal: a story, one sentence as read, a flaw, a whole reply.

Covers what goes in and what comes out. Does not cover how anything is found (`strategies`, `binding`,
`fluency`, `flaws`), nor what it is worth to a person: every weight of feeling belongs to the environment.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Appraisal", "Flaw", "FlawKind", "Reading", "Story", "Topic"]

FlawKind = Literal[
    "template", "list", "lecture", "early_advice", "minimise", "claims_state", "flattery", "overlong",
    "stage_direction", "echo", "repetition", "goodbye_baiting", "judge_address", "broken", "assistant_speak",
]  # fmt: skip
"""What can be wrong with a reply, whoever the person is."""


class Topic(NamedTuple):
    """A concern of the story, or something the person has already tried.

    `cues` are lower-case words or short phrases that name it; a cue may be cut short (`lonel` for lonely, loneliness).
    `told` says that the person has already spoken of it. `depth` is "surface", "feeling", "core" or "tried".
    """

    key: str
    cues: tuple[str, ...]
    told: bool
    depth: str = "surface"


class Story(NamedTuple):
    """What can be known of the person at this point of the talk.

    `told` is everything they have said, oldest first, never empty; `concerns` is what weighs on them, told or not;
    `tried` is what did not help.
    """

    told: tuple[str, ...]
    concerns: tuple[Topic, ...] = ()
    tried: tuple[Topic, ...] = ()


class Reading(NamedTuple):
    """One sentence of a reply, as read."""

    text: str
    strategies: tuple[tuple[str, float], ...]
    """Support strategies (SAGE Table 4) with a confidence in [0.3, 1], best first; may be empty."""
    bound: float
    """How much it names of what this person told, in a predicate of its own: 0 could be said to anyone, 1 only to them."""
    latest: float
    """The share of `bound`, in [0, 1], that belongs to the person's last message."""
    insight: str | None
    """Key of a concern the person has not told and the sentence names."""
    tentative: bool
    """Hedged, or put as a question."""
    question: bool
    open_question: bool
    """A question that yes or no does not answer."""
    repeats_attempt: str | None
    """Key of something already tried that the sentence proposes again."""
    broken: bool
    """Not a sentence a person would say."""
    proposal: float | None = None
    """How far the proposal itself is bound, what the sentence recalls before it left aside; `None` where nothing is proposed."""
    used: int = 0
    """How many sentences before it, of this reply and of earlier ones, had the same frame around other words of the story."""
    related: bool = True
    """It takes up not only things of the story but something that was said of them."""
    meant: str | None = None
    """The text without quoted words that are nobody's; `None` where there are none, so that all of it is meant."""


class Flaw(NamedTuple):
    """Something wrong with the reply: how much of it, in [0, 1], and the words it was seen in."""

    kind: FlawKind
    severity: float
    quote: str


class Appraisal(NamedTuple):
    """A whole reply, as read. `broken` is the share of its words, in [0, 1], that stand in broken sentences.

    `asked_on` counts the replies just before this one that, like it, did nothing but ask.
    """

    sentences: tuple[Reading, ...]
    flaws: tuple[Flaw, ...]
    words: int
    silent: bool
    """Empty, or nothing but dots, "ok", "mm", an emoji."""
    broken: float
    asked_on: int = 0

    @property
    def strategies(self) -> dict[str, float]:
        """The best confidence of every strategy over the unbroken sentences."""
        best: dict[str, float] = {}
        for sentence in self.sentences:
            if sentence.broken:
                continue
            for name, confidence in sentence.strategies:
                best[name] = max(confidence, best.get(name, 0.0))
        return best

    def severity(self, kind: FlawKind) -> float:
        """How severe one kind of flaw is; 0 when it was not seen."""
        return max((flaw.severity for flaw in self.flaws if flaw.kind == kind), default=0.0)
