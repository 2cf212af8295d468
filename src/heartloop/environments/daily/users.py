"""The six judges of daily conversation: a language model, or the learned reader.

The prompts are in our own words after the metrics' descriptions (PERM App. A.8). A model is asked six questions, not one (ours;
the paper does not say): asked for six grades at once, it tends to give all metrics its overall impression. The prompts are equal
up to the metric's own part at the end, so an endpoint with prompt caching reads the rest once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, StrictInt

from heartloop.core.dialogue import Message
from heartloop.core.errors import InputError
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.daily.environment import JUDGES, Daily, lines_of, prompt_values
from heartloop.environments.daily.remembering import Remembered
from heartloop.environments.daily.scenario import DailyBrief, DailyScenario
from heartloop.environments.dialogue_text import stands_in
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import AnswerPlayer, Grade, JudgedText, JudgeModel, Level, Reasoned, leveled, marked
from heartloop.environments.reading import LearnedReading, with_cues
from heartloop.environments.written import stands
from heartloop.reader.features import Context


def _context_of(scenario: DailyScenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    notes = scenario.memories
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=with_cues((scenario.implied,)),
        sore=(*with_cues(scenario.sores), *(note.text for note in notes if note.bearing != "bears")),
        known=tuple(note.text for note in notes if note.bearing == "bears"),
    )


READING = LearnedReading(
    "daily",
    _context_of,
    JUDGES,
    (-0.5, -0.05, 0.0, 0.02, 0.3, 0.7, 1.0),
    {"": (
        (1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        (1.0, 1.0, 1.4, 1.0, 1.0, 1.0),
        (1.0, 1.0, 2.0, 1.0, 1.0, 1.0),
        (1.1, 1.1, 2.5, 1.1, 1.1, 1.0),
        (3.2, 3.2, 3.6, 3.2, 3.6, 1.6),
        (5.0, 4.3, 4.5, 4.7, 4.7, 4.3),
        (5.0, 5.0, 5.0, 5.0, 5.0, 5.0),
    )},
)  # fmt: skip
"""The grades that usually go with a worth: at 0 those of silence, above it those of a recorded judge."""


class _Found(BaseModel):
    number: Annotated[StrictInt, Sent(maximum=9)] = Field(ge=1)
    notes: Annotated[str, Sent(maxLength=100)] = ""
    answer: Annotated[str, Sent(maxLength=100)] = ""


class _Memory(Reasoned):
    reason: Annotated[str, Sent(maxLength=300)] = Field(min_length=1)
    facts: Annotated[list[_Found], Sent(maxItems=9)]
    contradiction: Annotated[str, Sent(maxLength=100)] = ""


class DailyLLMUser(JudgeModel):
    prompts: ClassVar = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge", "judge_turn")}

    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        scenario, text, seed = judged
        system = self.prompts["judge"].fill(**prompt_values(scenario), query=scenario.query, metric=self.prompts[judge].text)
        question = self.prompts["judge_turn"].fill(answer=marked(text))
        answer = await self.verdict(judge, JUDGES.index(judge), system, question, text, Level, seed=seed, log=log)
        return Grade(answer.score, answer.reason.strip(), answer.quote.strip())

    async def trace(self, remembered: Remembered, log: CallLog) -> dict[str, Any]:
        session, notes, said, seed, turn = remembered
        facts = remembered.facts

        def check(found: _Memory) -> str | None:
            if (numbers := [fact.number for fact in found.facts]) != (expected := [*range(1, len(facts) + 1)]):
                return f"the numbers of the facts are {numbers}; expected {expected}"
            quotes = [("notes", fact.notes, notes) for fact in found.facts]
            quotes += [("answer", quote, said) for quote in (found.contradiction, *(fact.answer for fact in found.facts))]
            wrong = next(((name, quote) for name, quote, text in quotes if quote.strip() and not stands_in(quote, [text])), None)
            return wrong and f"the quote {wrong[1]!r} does not stand in the {wrong[0]}; quote exact words"

        known = {name: text for name, text in prompt_values(session).items() if name not in ("notes", "events")}
        form = {"bears": "{}. (holds) {}", "overtaken": "{}. (no longer holds) {}"}
        numbered = "\n".join(form[fact.bearing or ""].format(n, fact.text) for n, fact in enumerate(facts, 1)) or "(none)"
        system = Daily.memory.fill(**known, said=lines_of(session.earlier), query=session.query, facts=numbered)
        question = Daily.memory_turn.fill(notes=marked(notes), answer=marked(said))
        found = await self.verdict(
            "memory", len(JUDGES), system, question, said, _Memory, seed=seed, log=log, turn=turn, check=check
        )
        words = [(fact.notes.strip(), fact.answer.strip()) for fact in found.facts]
        return remembered.evidence(words, found.contradiction.strip(), found.reason.strip())


class DailyEmbeddedUser(AnswerPlayer):
    """The six judges without a language model: each metric is an output of an appraiser, rounded to the nearest level.

    A dangerous or hostile answer gets level 1 in all six. Dates are not read.
    """

    reading = READING

    def admit(self, scenario: DailyBrief) -> None:
        if not isinstance(scenario, DailyScenario):
            raise InputError(
                f"scenario {scenario.id!r} has no asked, implied and sores, which the embedded judges read; "
                "add them, or use --judge MODEL for the short form"
            )
        self.appraiser.admit(scenario.id, (scenario.query, scenario.about, *(memory.text for memory in scenario.memories)))

    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        return leveled(self.appraise(judged), judge, judged.text, with_reading=judge == JUDGES[0])

    async def trace(self, remembered: Remembered, log: CallLog) -> dict[str, Any]:
        """By cues: a text has a fact if it has one of its cues; other contradictions are not noticed."""
        texts = (remembered.notes.lower(), remembered.answer.lower())
        found = [[next((cue for cue in fact.cues if stands(cue, text)), "") for text in texts] for fact in remembered.facts]
        return remembered.evidence([(notes, answer) for notes, answer in found], None)


def notebook(messages: Sequence[Message], seed: int) -> str:
    """A baseline that recites its notes, and notes what the person says, word for word; of the lines, the newest that fit.

    It recalls what fits, and takes what is overtaken as still true.
    """
    lines = [line for line in messages[0].content.splitlines() if line.startswith("- ")]
    first, *more = [message.content for message in messages if message.role == "user"]
    limit = re.search(r"At most (\d+) characters", more[-1]) if more else None
    if limit is None:
        return "\n".join(["I remember:", *lines])
    lines.append(f"- {' '.join(first.split())}")
    while len("\n".join(lines)) > int(limit[1]):
        del lines[0]
    return "\n".join(lines)
