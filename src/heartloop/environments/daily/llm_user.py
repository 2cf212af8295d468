"""The LLM judges of daily conversation: six structured questions to a model about one answer, one per metric.

Covers the judges' prompts and the validity of their answers. Does not cover the score (`environment`). The levels are in
`prompts/`, in our own words after the metrics' descriptions (PERM App. A.8). The judges read what the companion knows, and the
query; they do not read the fields for the embedded judges.

Six questions instead of one (ours; the paper does not say): asked for six grades at once, a model tends to give all metrics its
overall impression. The prompts are equal up to the metric's own part at the end, so an endpoint with prompt caching reads the
rest once.

An invalid answer (a score in words, two scores, a quote that is not in the answer) is re-asked once. If the second is invalid,
the call raises and the dialogue is unscored.
"""

from __future__ import annotations

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.prompts import load_prompt
from heartloop.environments.daily.environment import JUDGES, View, prompt_values
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Grade, JudgeModel, Level

__all__ = ["LLMUser"]


class LLMUser(JudgeModel):
    """A model as all six judges."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        prompts = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge", "judge_turn")}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        system = self._prompts["judge"].fill(
            **prompt_values(view.scenario), query=view.scenario.query, metric=self._prompts[judge].text
        )
        question = self._prompts["judge_turn"].fill(answer=dialogue_text([("The answer", view.reply)]))
        number = JUDGES.index(judge)
        answer = await self.verdict(judge, number, system, question, view.reply, Level, seed=view.seed, log=log)
        return Grade(answer.score, answer.reason.strip(), answer.quote.strip())
