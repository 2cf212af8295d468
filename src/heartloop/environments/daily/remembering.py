"""What a model remembers of earlier sessions with a person: recalled, forgotten, contradicted (ours; PERM prints no measure).

Measured from the second session on, by the facts that the person said in an earlier one: those that bear on today's query, and
those that it shows to be overtaken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from heartloop.environments.daily.scenario import BriefMemory, DailyBrief
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Judges

MEASURES = ("recalled", "forgotten", "contradicted")


class Remembered(NamedTuple):
    """A session's answer, and the notes that the model had before it."""

    session: DailyBrief
    notes: str
    answer: str
    seed: int
    turn: int

    @property
    def facts(self) -> tuple[BriefMemory, ...]:
        """What was said in an earlier session and bears on today's query, or is overtaken."""
        said = (memory for memory in self.session.memories if memory.said_in is not None)
        return tuple(memory for memory in said if memory.bearing in ("bears", "overtaken"))

    def evidence(self, words: Sequence[tuple[str, str]], contradiction: str | None, reason: str = "") -> dict[str, Any]:
        """What `shares` reads. `words`, by fact: those of the notes that have it, and those of the answer that use it or, if
        overtaken, take it as true. `contradiction`: those that contradict anything else they said; `None` if not judged.
        """
        facts = [
            {"text": fact.text, "bearing": fact.bearing, "said_in": fact.said_in, "notes": notes, "answer": answer}
            for fact, (notes, answer) in zip(self.facts, words, strict=True)
        ]
        return {"facts": facts, "contradiction": contradiction, "reason": reason}


class RememberingJudges(Judges, Protocol):
    async def trace(self, remembered: Remembered, log: CallLog) -> dict[str, Any]:
        """`Remembered.evidence`: where the facts are in the notes and in the answer."""
        ...


def shares(evidence: Mapping[str, Any]) -> dict[str, float | None]:
    """The measures of one session, in [0, 1]; `None` where it has no fact to measure by.

    Of the facts that bear on the query: `recalled` are in the answer, `forgotten` in neither the answer nor the notes.
    `contradicted` is 1 if the answer takes an overtaken fact as true, or contradicts something else they said.
    """
    facts: Sequence[Mapping[str, Any]] = evidence["facts"]
    bearing = [fact for fact in facts if fact["bearing"] == "bears"]
    wrong = [fact["answer"] for fact in facts if fact["bearing"] == "overtaken"]
    wrong += [] if evidence["contradiction"] is None else [evidence["contradiction"]]
    return {
        "recalled": fmean(bool(fact["answer"]) for fact in bearing) if bearing else None,
        "forgotten": fmean(not (fact["answer"] or fact["notes"]) for fact in bearing) if bearing else None,
        "contradicted": float(any(wrong)) if wrong else None,
    }
