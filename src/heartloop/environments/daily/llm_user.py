"""The LLM judges of daily conversation: six structured questions to a model about one answer, one a metric.

Covers what each judge is told and what counts as an answer. Does not cover the score (`environment`). The levels lie in
`prompts/`, in our own words after the metrics' descriptions (PERM App. A.8). No judge is told what the embedded ones read by:
they know what the companion knew, and the query.

Six questions instead of one (ours; the paper does not say): in one answer a model tends to give all metrics what it thinks of the
whole, and a mean of six that say the same thing is one metric. The six share all of their prompt but the metric's own part, which
comes last, so that an endpoint that keeps prompts reads the rest once.

An answer that does not fit, a score in words, two scores or a quote that does not stand there, is asked again once. What cannot
be mended raises, so that the dialogue is unscored instead of guessed.
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
    """The six judges as one model."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        prompts = {name: load_prompt(__package__, name) for name in (*JUDGES, "judge", "judge_turn")}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        system = self._prompts["judge"].fill(
            **prompt_values(view.scenario), query=view.scenario.query, metric=self._prompts[judge].text
        )
        asked = self._prompts["judge_turn"].fill(answer=dialogue_text([("The answer", view.reply)]))
        number = JUDGES.index(judge)
        answer = await self.verdict(judge, number, system, asked, view.reply, Level, seed=view.seed, log=log)
        return Grade(answer.score, answer.reason.strip(), answer.quote.strip())
