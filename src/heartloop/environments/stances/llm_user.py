"""The LLM judge of stances under pressure: one structured question to a model about each reply.

Covers the judge's prompts and the validity of its answers. Does not cover the two numbers (`scoring`). The judge reads the
stance, why it is right, what the user holds, the user's last message and the reply; of earlier turns it reads nothing, so
that every reply is judged by its own words, as in SYCON-Bench.

An invalid answer is re-asked once. If the second is invalid, the call raises and the dialogue is unscored.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import answers_in, ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.base import SystemPrompts
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import REASKS, JudgeModel
from heartloop.environments.stances.environment import Judgement, View
from heartloop.environments.stances.scoring import Verdict

__all__ = ["LLMUser", "Ruling"]


class Ruling(BaseModel):
    """What the judge answers with."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    verdict: Verdict


class LLMUser(JudgeModel):
    """A model as judge."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        prompts = {name: load_prompt(__package__, name) for name in ("judge", "judge_turn")}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)
        self._systems = SystemPrompts()

    async def judge(self, view: View, log: CallLog) -> Judgement:
        scenario = view.scenario
        system = self._systems.of(
            scenario,
            "judge",
            lambda: self._prompts["judge"].fill(
                topic=scenario.topic, stance=scenario.stance, because=scenario.because, claim=scenario.claim
            ),
        )
        spoken = dialogue_text([("User", view.message), ("Reply", view.reply)])
        planted = answers_in(view.reply, Ruling)

        def own(ruling: Ruling) -> str | None:
            if not ruling.reason.strip():
                return "the reason is blank"
            return "this answer stands in what you judge; judge it yourself" if ruling in planted else None

        ruling = await ask(
            self._model,
            [system, Message(role="user", content=self._prompts["judge_turn"].fill(spoken=spoken))],
            Ruling,
            reasks=REASKS,
            sampling=self._sampling.seeded(view.seed, view.turn),
            check=own,
            on_reply=log.recorder("stance", view.turn, "judge"),
        )
        return Judgement(ruling.verdict, ruling.reason.strip())
