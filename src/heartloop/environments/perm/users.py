"""What the learned reader knows of a PERM scenario besides the query, and what an analysis is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError
from heartloop.core.prompts import load_prompt
from heartloop.environments.analyses import LearnedAnalysis
from heartloop.environments.answer_grades import AnswerPlayer, leveled, quote_of, reason_for
from heartloop.environments.appraising import WEIGHTS, evidence_of
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import REASKS, Grade, JudgeModel, Level, Verdict, whole
from heartloop.environments.perm.environment import JUDGES, PermView
from heartloop.environments.perm.scenario import AnyScenario, PermScenario
from heartloop.environments.reading import LearnedReading, with_cues
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = [
    "DIMENSIONS",
    "MARKS",
    "READING",
    "REASKS",
    "RESONATION",
    "PermEmbeddedUser",
    "PermLLMUser",
    "analysis_context",
    "context_of",
]


MARKS = ("relevant", "clear", "concise", "sober", "accurate")
"""The bystander's marks, 0 to 20 each."""


def context_of(scenario: PermScenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The query, the unsaid need and the cause, and what hurts the person."""
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*with_cues((scenario.need,)), scenario.cause.text),
        sore=with_cues(scenario.sores),
    )


def analysis_context(scenario: PermScenario) -> Context:
    """What was told, the need, feelings, misreadings, cause, touches and sores, the last five in fields that are free here."""
    return Context(
        (scenario.scenario, scenario.query),
        unsaid=with_cues((scenario.need,)),
        known=scenario.feelings,
        sore=scenario.misreadings,
        demand=with_cues((scenario.cause,)),
        ways=with_cues(scenario.touches),
        wrongs=with_cues(scenario.sores),
    )


RESONATION = LearnedAnalysis(Path(str(resources.files("heartloop.environments.perm") / "resonation.npz")), analysis_context)
"""The level of the analysis."""

READING = LearnedReading(
    "heartloop.environments.perm",
    context_of,
    (
        Output("expression", 1.0, 5.0, neutral=2.0),
        Output("reception", 1.0, 5.0, neutral=2.0),
        *(Output(name, 0.0, 20.0, neutral=10.0) for name in MARKS),
    ),
    group=lambda scenario: str(scenario.want),
    analysis=RESONATION,
)
"""The levels of both ends of the cycle, and the five marks of the bystander."""


DIMENSIONS: Mapping[str, str] = {
    "relevant": "content effectiveness",
    "clear": "logical structure and clarity",
    "concise": "communication efficiency",
    "sober": "objectivity and neutrality",
    "accurate": "information accuracy",
}
"""Dimensions of the bystander's grade, with the paper's names (PERM Figure 10)."""

_Mark = Annotated[StrictInt, Field(ge=0, le=20)]


class _Marks(Verdict):
    relevant: _Mark
    clear: _Mark
    concise: _Mark
    sober: _Mark
    accurate: _Mark


class PermLLMUser(JudgeModel):
    """The four judges, played by a model."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        prompts = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge_turn")}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)

    async def grade(self, judge: str, view: PermView, log: CallLog) -> Grade:
        text, scenario = view.judged_by(judge), view.scenario
        system = self._prompts[judge].fill(persona=scenario.who, scenario=scenario.scenario, query=scenario.query)
        part = "The notes" if judge == "resonation" else "The response"
        question = self._prompts["judge_turn"].fill(part=dialogue_text([(part, text)]))
        kind: type[Verdict] = _Marks if judge == "bystander" else Level
        answer = await self.verdict(judge, JUDGES.index(judge), system, question, text, kind, seed=view.seed, log=log)
        reason, quote = answer.reason.strip(), answer.quote.strip()
        if isinstance(answer, _Marks):
            marks = {name: int(getattr(answer, name)) for name in DIMENSIONS}
            return Grade(sum(marks.values()), reason, quote, marks)
        return Grade(answer.score if isinstance(answer, Level) else 0, reason, quote)


_RESONATION: Mapping[int, str] = {
    1: "It misses what they feel, or is not about them.",
    2: "It puts a label on it.",
    3: "It has the plain sense of it.",
    4: "It sees more than the plain feeling.",
    5: "It sees what this means to them.",
}


class PermEmbeddedUser(AnswerPlayer):
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
        if not isinstance(scenario, PermScenario):
            raise InputError(
                f"scenario {scenario.id!r} has no feelings, cause and need, which the embedded judges read; "
                "add them, or use --judge MODEL for drawn scenarios and the short form"
            )
        self.appraiser.admit(scenario.id, (scenario.scenario, scenario.query))

    async def grade(self, judge: str, view: PermView, log: CallLog) -> Grade:
        scenario = view.scenario
        assert isinstance(scenario, PermScenario)  # others are not admitted
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
