"""The LLM judges of PERM: four structured questions to a model, each about one part of an answer.

Covers the messages to each judge and the validation of its answers. The rubrics in `prompts/` are in our words, after PERM
Figures 7 to 10. As published, judges know persona, scenario and query only.

Departures: an answer is one JSON object instead of two lines; it contains a quote, which must occur in the judged part; the
bystander's five marks are summed in code; its dimensions have short names (`DIMENSIONS`).

An invalid answer (a grade in words, two grades, a quote that does not occur) is re-asked once. Then the dialogue is unscored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.prompts import load_prompt
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import REASKS, Grade, JudgeModel, Level, Verdict
from heartloop.environments.perm.environment import JUDGES, View

__all__ = ["DIMENSIONS", "REASKS", "LLMUser"]

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


class LLMUser(JudgeModel):
    """The four judges, played by a model."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        prompts = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge_turn")}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
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
