"""What an answer makes of memory: which items it speaks of, whether rightly dated, and what it claims to remember and cannot.

Covers finding it. Does not cover what it is worth (`embedded_user`). An item is spoken of where one of its cues stands in a whole
sentence, word for word: none of them stands in the query, and what is only near in meaning may be about something else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from heartloop.appraisal import Appraisal
from heartloop.appraisal.words import fold
from heartloop.environments.cues import stands
from heartloop.environments.daily.dating import holds, spans_in
from heartloop.environments.daily.scenario import Memory, Scenario

__all__ = ["Recall", "invented", "recalled"]

_CLAIM = re.compile(
    r"\b(?:you (?:once |also |had )?(?:told me|mentioned|were telling)|last time (?:we|you)|when we (?:last )?(?:talked|spoke)|"
    r"we (?:talked|spoke) about|i (?:still )?remember|as i recall|haven't forgotten|have not forgotten)\b"
)


class Recall(NamedTuple):
    """One item that a sentence speaks of."""

    memory: Memory
    sentence: str
    right_day: bool
    """False where the sentence names a time and no day in memory is of it."""


def recalled(scenario: Scenario, appraisal: Appraisal) -> list[Recall]:
    """Items that the answer speaks of, in the order of memory, each with the first sentence that does.

    Of two items that share the cue, the one that bears on the query was meant.
    """
    memories = scenario.memories
    found: dict[int, Recall] = {}
    for s in appraisal.sentences:
        if s.broken:
            continue
        text = fold(s.text)
        said = {n: [cue for cue in memory.cues if stands(fold(cue), text)] for n, memory in enumerate(memories)}
        meant = {cue for n, cues in said.items() for cue in cues if memories[n].bearing == "bears"}
        for n, cues in said.items():
            if (memories[n].bearing == "bears" and cues) or set(cues) - meant:
                found.setdefault(n, Recall(memories[n], s.text, _dated(scenario, s.text)))
    return [found[n] for n in sorted(found)]


def _dated(scenario: Scenario, text: str) -> bool:
    """Whether a time that is named fits some day in memory; a sentence may speak of two things, and of one of them say when."""
    spans = spans_in(text, scenario.today)
    return not spans or any(holds(spans, memory.on, scenario.today) for memory in scenario.memories)


def invented(scenario: Scenario, appraisal: Appraisal, found: list[Recall]) -> list[str]:
    """Sentences that claim to remember something and name nothing that was ever told."""
    known = {recall.sentence for recall in found}
    told = _stems(" ".join([scenario.query, scenario.about, *(memory.text for memory in scenario.memories)]))
    return [
        s.text
        for s in appraisal.sentences
        if not s.broken and s.text not in known and _CLAIM.search(s.text.lower()) and not _stems(_CLAIM.sub(" ", s.text)) & told
    ]


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:5] for word in re.findall(r"[^\W\d_]{5,}", text.lower()))
