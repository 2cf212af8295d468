"""The direct judge: one number for a reply in its context, without a rubric, compared with EMPA's score (EMPA Table 6).

Covers the judge as a model and as a formula. Does not cover the levels (`llm_user`, `rubric`), nor the shifts under a
perturbation (`perturbation_shifts`). No leaderboard uses it.

The embedded direct judge is a formula: 50 + 25 x the mean over the axes of what the embedded judge predicted for the window,
before it rounded to levels. It does not model how a language model judges without a rubric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.listing import render_card, source_text
from heartloop.environments.empa.llm_user import dialogue_of
from heartloop.environments.empa.rubric import net_effect
from heartloop.environments.empa.scenario import SOURCES
from heartloop.environments.episode import CallLog

__all__ = ["DirectJudge", "EmbeddedDirectJudge", "LLMDirectJudge"]

_NEUTRAL, _A_LEVEL = 50.0, 25.0


class DirectJudge(Protocol):
    """Rates the replies of a window with one number."""

    def describe(self) -> Mapping[str, str]:
        """Hash of each prompt, by name."""
        ...

    async def impression(self, view: View, judged: Judgement, log: CallLog) -> float:
        """How well the replies of the window care for the user, in [0, 100].

        Args:
            judged: the judgement of the same window, used by the embedded direct judge; a model does not see it.

        Raises:
            AnswerError: no valid answer after the re-asks.
            ModelError: a call failed after the retries.
        """
        ...


class _Impression(BaseModel):
    model_config = ConfigDict(extra="ignore")
    reason: Annotated[str, Sent(maxLength=500)] = ""
    score: float = Field(ge=0, le=100, strict=True)


class LLMDirectJudge:
    """The direct judge as a language model.

    Args:
        sampling: sampling settings; its seed, or else the dialogue's, is advanced by turn.
    """

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None) -> None:
        self._model = model
        self._sampling = sampling or Sampling()
        self._prompts = {name: load_prompt(__package__, name) for name in ("impression", "impression_turn")}

    def describe(self) -> Mapping[str, str]:
        return {name: prompt.hash for name, prompt in self._prompts.items()}

    async def impression(self, view: View, judged: Judgement, log: CallLog) -> float:
        system = self._prompts["impression"].fill(
            card=render_card(view.scenario), story="\n".join(source_text(view.scenario, source) for source in SOURCES)
        )
        window = "reply" if view.window == 1 else f"{view.window} replies"
        text = self._prompts["impression_turn"].fill(dialogue=dialogue_of(view, "Person", "Supporter"), window=window)
        answer = await ask(
            self._model,
            [Message(role="system", content=system), Message(role="user", content=text)],
            _Impression,
            sampling=self._sampling.seeded(view.seed, 3 * view.turn + 2),
            on_reply=log.recorder("impression", view.turn, "judge"),
        )
        return answer.score


class EmbeddedDirectJudge:
    """The direct judge as a formula over the embedded judge's evidence."""

    def describe(self) -> Mapping[str, str]:
        return {}

    async def impression(self, view: View, judged: Judgement, log: CallLog) -> float:
        return round(_NEUTRAL + _A_LEVEL * net_effect(judged), 2)
