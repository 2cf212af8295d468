"""The judges of PERM: a model, or the learned reader.

The rubrics in `prompts/` are in our words, after PERM Figures 7 to 10. As published, judges know persona, scenario and query.
Departures: an answer is one JSON object instead of two lines; it contains a quote, which must occur in the judged part; the
bystander's five marks are summed in code, its mark of the whole is only stored. An invalid answer (a grade in words, two grades,
a quote that does not occur) is re-asked once; then the dialogue is unscored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from heartloop.core.errors import InputError
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import (
    AnswerPlayer,
    Grade,
    JudgedText,
    JudgeModel,
    Level,
    Verdict,
    leveled,
    marked,
    quote_of,
    reason_for,
)
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES
from heartloop.environments.perm.scenario import AnyScenario, PermScenario
from heartloop.environments.reading import WEIGHTS, LearnedAnalysis, LearnedReading, whole, with_cues
from heartloop.reader.features import Context

_Mark = Annotated[StrictInt, Field(ge=0, le=20)]


_Why = Annotated[str, Sent(maxLength=200), Field(min_length=1)]


class _Marks(Verdict):  # the names of `DIMENSIONS`
    relevant_why: _Why
    relevant: _Mark
    clear_why: _Why
    clear: _Mark
    concise_why: _Why
    concise: _Mark
    sober_why: _Why
    sober: _Mark
    accurate_why: _Why
    accurate: _Mark
    overall: Annotated[StrictInt, Field(ge=0, le=100)]


class PermLLMUser(JudgeModel):
    prompts: ClassVar = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge_turn")}

    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        scenario, text, seed = judged
        system = self.prompts[judge].fill(persona=scenario.who, scenario=scenario.scenario, query=scenario.query)
        part = "The notes" if judge == "resonation" else "The response"
        question = self.prompts["judge_turn"].fill(part=part, text=marked(text))
        kind: type[Verdict] = _Marks if judge == "bystander" else Level
        answer = await self.verdict(judge, JUDGES.index(judge), system, question, text, kind, seed=seed, log=log)
        reason, quote = answer.reason.strip(), answer.quote.strip()
        if isinstance(answer, _Marks):
            marks = answer.model_dump(exclude={"reason", "quote"})
            return Grade(sum(marks[name] for name in DIMENSIONS), reason, quote, marks)
        return Grade(answer.score if isinstance(answer, Level) else 0, reason, quote)


def _context(scenario: PermScenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    unsaid = (*with_cues((scenario.need,)), scenario.cause.text)
    return Context(tuple(messages), tuple(replies), unsaid=unsaid, sore=with_cues(scenario.sores))


def _analysis_context(scenario: PermScenario) -> Context:
    """What an analysis is compared with; the last three fields hold cause, touches and sores."""
    return Context(
        (scenario.scenario, scenario.query),
        unsaid=with_cues((scenario.need,)),
        known=scenario.feelings,
        sore=scenario.misreadings,
        demand=with_cues((scenario.cause,)),
        ways=with_cues(scenario.touches),
        wrongs=with_cues(scenario.sores),
    )


RESONATION = LearnedAnalysis(Path(str(resources.files(__package__) / "resonation.npz")), _analysis_context)

READING = LearnedReading(
    "perm",
    _context,
    ("expression", "reception", *DIMENSIONS),
    (-0.5, 0.0, 0.3, 0.7, 1.0),
    {"": (
        (1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (1.0, 1.6, 1.0, 3.0, 8.0, 10.0, 7.0),
        (2.4, 3.2, 16.0, 16.0, 15.0, 15.0, 15.0),
        (4.2, 4.7, 18.0, 15.0, 13.0, 13.0, 15.0),
        (5.0, 5.0, 19.0, 17.0, 15.0, 15.0, 17.0),
    )},
    analysis=RESONATION,
)  # fmt: skip
"""The grades are those that usually go with a worth: at 0 what judges gave to silence, above it what a recorded judge gave."""

_RESONATION: Mapping[int, str] = {
    1: "It misses what they feel, or is not about them.",
    2: "It puts a label on it.",
    3: "It has the plain sense of it.",
    4: "It sees more than the plain feeling.",
    5: "It sees what this means to them.",
}


class PermEmbeddedUser(AnswerPlayer):
    """The four judges without a language model: the grades that go with the worth of the response, rounded, and the level of the
    analysis. A dangerous response gets the lowest of expression, reception and bystander, a hostile one level 1 and at most 1."""

    reading = READING

    @property
    def hashes(self) -> Mapping[str, str]:
        return {**super().hashes, f"{WEIGHTS}resonation": RESONATION.model.hash}

    def admit(self, scenario: AnyScenario) -> None:
        if not isinstance(scenario, PermScenario):
            raise InputError(
                f"scenario {scenario.id!r} has no feelings, cause and need, which the embedded judges read; "
                "add them, or use --judge MODEL for drawn scenarios and the short form"
            )
        self.appraiser.admit(scenario.id, (scenario.scenario, scenario.query))

    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        quote = quote_of(judged.text)
        if judge == "resonation":
            level, evidence = RESONATION.level(judged.scenario, judged.text)
            return Grade(level, _RESONATION[level], quote, evidence)
        appraisal = self.appraise(judged)
        if judge == "bystander":
            marks = {name: whole(appraisal.change[name]) for name in DIMENSIONS}
            total = sum(marks.values())
            return Grade(total, reason_for(appraisal, good=total > 50), quote, marks)
        return leveled(appraisal, judge, judged.text, with_reading=judge == "reception")
