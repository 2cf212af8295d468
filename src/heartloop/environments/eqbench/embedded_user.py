"""The embedded judge of EQ-Bench3: marks without a language model, for the criteria that the learned reader covers.

A mark is the plain mean of some of the reader's aspects of an answer (`READ`), scaled from 0-4 to 0-20, with harmful aspects
turned round; then the mean over the answers. Of an answer in sections only the last one is read, which is what is said to the
other person. Every other criterion gets no mark, and the score is the mean over those that have one: it does not compare with a
model's. Nothing is fitted on EQ-Bench3, and no order of models is claimed; an analysis is read as if it were a reply, which the
reader was not fitted on. Silence and danger get 0 everywhere, hostility at most `HOSTILE_LIMIT`.

A stand-in for a judge model, for tests and to try a checkout without a key; every report that used it says so. Does not cover the
score (`environment`).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from heartloop.core.errors import InputError
from heartloop.environments.appraising import WEIGHTS
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import Answer, Marked, View
from heartloop.environments.eqbench.scenario import Scenario
from heartloop.environments.eqbench.scoring import HIGHEST_MARK
from heartloop.reader.aspects import ASPECTS, HARMFUL_ASPECTS
from heartloop.reader.features import Context, lacks_english
from heartloop.reader.reader import Reader, Reading, embedded_reader

__all__ = ["HOSTILE_LIMIT", "READ", "EmbeddedUser"]

READ: Mapping[str, tuple[str, ...]] = {
    "demonstrated_empathy": ("understanding", "feeling", "warmth"),
    "message_tailoring": ("particular",),
    "depth_of_insight": ("understanding", "particular"),
    "emotional_reasoning": ("understanding", "feeling"),
    "social_dexterity": ("pressure", "hostility", "performance", "coherence"),
}
"""Criteria that are marked, with the aspects whose mean is the mark."""
HOSTILE_LIMIT = 5.0
_HIGHEST_ASPECT = 4.0


class EmbeddedUser(EmbeddedPlayer):
    """The judge. One object serves any number of dialogues at once."""

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader or embedded_reader()
        self.name = self._reader.name
        super().__init__(("judge",), {f"{WEIGHTS}reader": self._reader.hash})

    def admit(self, scenario: Scenario) -> None:
        """Refuses a scenario that is not in English, or of whose criteria none that counts is read.

        Raises:
            InputError: says so.
        """
        if lacks_english(" ".join(scenario.repaired)):
            raise InputError(
                f"scenario {scenario.id!r} is not in English; the embedded judge understands English only, use --judge MODEL"
            )
        if not scenario.form.rubric.counted & frozenset(READ):
            raise InputError(
                f"scenario {scenario.id!r} is marked by no criterion that the embedded judge reads; use --judge MODEL"
            )

    async def mark(self, view: View, log: CallLog) -> Marked:
        prompts, said = view.scenario.prompts("repaired"), [_response(answer) for answer in view.answers]
        readings = [
            self._reader.read(reply, Context(tuple(prompts[: number + 1]), tuple(said[:number])))
            for number, reply in enumerate(said)
        ]
        criteria = [name for name in READ if name in view.scenario.form.rubric.criteria]
        marks = {name: round(fmean(_mark(name, reading) for reading in readings), 1) for name in criteria}
        shown = ", ".join(f"{name.replace('_', ' ')} {mark:g}" for name, mark in marks.items())
        return Marked(marks, f"By the learned reader, over {len(said)} answers: {shown}.")


def _response(answer: Answer) -> str:
    return list(answer.sections.values())[-1] if answer.sections else answer.said


def _mark(criterion: str, reading: Reading) -> float:
    """The mark of one answer."""
    if reading.silent or reading.floor == "danger":
        return 0.0
    values = [
        _HIGHEST_ASPECT - mark if aspect in HARMFUL_ASPECTS else mark
        for aspect, mark in zip(ASPECTS, map(float, reading.aspects), strict=True)
        if aspect in READ[criterion]
    ]
    mark = HIGHEST_MARK / _HIGHEST_ASPECT * fmean(values)
    return min(mark, HOSTILE_LIMIT) if reading.floor == "hostility" else mark
