"""The embedded judges of PERM: four grades without a language model.

Expression, reception and the bystander's five marks are outputs of an appraiser (the learned reader) for the response, rounded to
whole levels and marks. Resonation is the level of the analysis (`environments.analyses`).

A dangerous response gets the lowest of expression, reception and bystander, which are the lowest terms of the reward; a hostile
one gets at most level 2 and marks of 10. A stand-in for judge models, for the demo, the tests and training on a laptop; every
report that used it says so. Does not cover the reward (`environment`).
"""

from __future__ import annotations

from collections.abc import Mapping

from heartloop.core.errors import InputError
from heartloop.environments.answer_grades import AnswerPlayer, leveled, quote_of, reason_for
from heartloop.environments.appraising import WEIGHTS, evidence_of
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import whole
from heartloop.environments.perm.drawn import AnyScenario
from heartloop.environments.perm.environment import Grade, View
from heartloop.environments.perm.reading import MARKS, READING, RESONATION
from heartloop.environments.perm.scenario import Scenario

__all__ = ["EmbeddedUser"]

_RESONATION: Mapping[int, str] = {
    1: "It misses what they feel, or is not about them.",
    2: "It puts a label on it.",
    3: "It has the plain sense of it.",
    4: "It sees more than the plain feeling.",
    5: "It sees what this means to them.",
}


class EmbeddedUser(AnswerPlayer):
    """The four judges; the appraiser reads responses."""

    reading = READING

    @property
    def hashes(self) -> Mapping[str, str]:
        return {**super().hashes, f"{WEIGHTS}resonation": RESONATION.model.hash}

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a scenario that the appraiser does not understand, or that lacks what it reads: drawn ones and the short form.

        Raises:
            InputError: says so.
        """
        if not isinstance(scenario, Scenario):
            raise InputError(
                f"scenario {scenario.id!r} has no feelings, cause and need, which the embedded judges read; "
                "add them, or use --judge MODEL for drawn scenarios and the short form"
            )
        self.appraiser.admit(scenario.id, (scenario.scenario, scenario.query))

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        scenario = view.scenario
        assert isinstance(scenario, Scenario)  # others are not admitted
        if judge == "resonation":
            level, evidence = RESONATION.level(scenario, view.analysis)
            return Grade(level, _RESONATION[level], quote_of(view.analysis), evidence)
        appraisal = self.appraise(scenario, view.response, view.seed)
        if judge != "bystander":
            grade = leveled(appraisal, judge, view.response)
            more = evidence_of(appraisal) if judge == "reception" else {}
            return grade._replace(evidence={**grade.evidence, **more})
        marks = {name: whole(appraisal.change[name]) for name in MARKS}
        total = sum(marks.values())
        return Grade(total, reason_for(appraisal, good=total > 50), quote_of(view.response), marks)
