"""The embedded judges of daily conversation: six levels without a language model.

Each metric is an output of an appraiser (the learned reader), from 1 to 5, rounded to the nearest whole level. A dangerous answer
gets level 1 in all six, a hostile one at most level 2. A stand-in for judge models, for the demo and the tests; every report that
used it says so. Does not cover the score (`environment`).

Dates are not read: an answer that puts an event on a wrong day is not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.environments.answer_grades import AnswerAppraiser, leveled
from heartloop.environments.appraising import Appraiser, LearnedAppraiser, evidence_of
from heartloop.environments.daily.environment import JUDGES, View
from heartloop.environments.daily.reading import READING
from heartloop.environments.daily.scenario import Scenario
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Grade

__all__ = ["EmbeddedUser"]


class EmbeddedUser:
    """The six judges. One object serves any number of dialogues at once.

    Args:
        appraiser: default, the learned reader.
    """

    def __init__(self, appraiser: Appraiser | None = None, *, role: str = "judge") -> None:
        self._answers = AnswerAppraiser(appraiser or LearnedAppraiser(READING))
        self.name = self._answers.appraiser.name

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"judge": self.name}, "prompts": dict(self._answers.appraiser.hashes)}

    def admit(self, scenario: Scenario) -> None:
        """Refuses a scenario that the appraiser does not understand.

        Raises:
            InputError: says so.
        """
        texts = (scenario.query, scenario.about, *(memory.text for memory in scenario.memories))
        self._answers.appraiser.admit(scenario.id, texts)

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        appraisal = self._answers.appraise(view.scenario, view.reply, view.seed)
        grade = leveled(appraisal, judge, view.reply)
        more = evidence_of(appraisal) if judge == JUDGES[0] else {}
        return grade._replace(evidence={**grade.evidence, **more})
