"""The embedded judges of daily conversation: six levels without a language model.

Each metric is an output of an appraiser (the learned reader), from 1 to 5, rounded to the nearest whole level. A dangerous answer
gets level 1 in all six, a hostile one at most level 2. A stand-in for judge models, for the demo and the tests; every report that
used it says so. Does not cover the score (`environment`).

Dates are not read: an answer that puts an event on a wrong day is not noticed.
"""

from __future__ import annotations

from heartloop.core.errors import InputError
from heartloop.environments.answer_grades import AnswerPlayer, leveled
from heartloop.environments.appraising import evidence_of
from heartloop.environments.daily.environment import JUDGES, View
from heartloop.environments.daily.reading import READING
from heartloop.environments.daily.scenario import Brief, Scenario
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Grade

__all__ = ["EmbeddedUser"]


class EmbeddedUser(AnswerPlayer):
    """The six judges."""

    reading = READING

    def admit(self, scenario: Brief) -> None:
        """Refuses a scenario that the appraiser does not understand, or that lacks what it reads: the short form.

        Raises:
            InputError: says so.
        """
        if not isinstance(scenario, Scenario):
            raise InputError(
                f"scenario {scenario.id!r} has no asked, implied and sores, which the embedded judges read; "
                "add them, or use --judge MODEL for the short form"
            )
        texts = (scenario.query, scenario.about, *(memory.text for memory in scenario.memories))
        self.appraiser.admit(scenario.id, texts)

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        appraisal = self.appraise(view.scenario, view.reply, view.seed)
        grade = leveled(appraisal, judge, view.reply)
        more = evidence_of(appraisal) if judge == JUDGES[0] else {}
        return grade._replace(evidence={**grade.evidence, **more})
