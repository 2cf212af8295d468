"""The six judges of daily conversation: a language model, or the learned reader.

The prompts are in our own words after the metrics' descriptions (PERM App. A.8). A model is asked six questions, not one (ours;
the paper does not say): asked for six grades at once, it tends to give all metrics its overall impression. The prompts are equal
up to the metric's own part at the end, so an endpoint with prompt caching reads the rest once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from heartloop.core.errors import InputError
from heartloop.core.prompts import load_prompt
from heartloop.environments.daily.environment import JUDGES, prompt_values
from heartloop.environments.daily.scenario import DailyBrief, DailyScenario
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import AnswerPlayer, Grade, JudgedText, JudgeModel, Level, leveled, marked
from heartloop.environments.reading import LearnedReading, with_cues
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


class DailyLLMUser(JudgeModel):
    prompts: ClassVar = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge", "judge_turn")}

    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        scenario, text, seed = judged
        system = self.prompts["judge"].fill(**prompt_values(scenario), query=scenario.query, metric=self.prompts[judge].text)
        question = self.prompts["judge_turn"].fill(answer=marked(text))
        answer = await self.verdict(judge, JUDGES.index(judge), system, question, text, Level, seed=seed, log=log)
        return Grade(answer.score, answer.reason.strip(), answer.quote.strip())


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
