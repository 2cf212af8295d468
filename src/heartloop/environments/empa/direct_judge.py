"""The direct judge: one number for a reply in its context, without a rubric, for comparison with EMPA's own (EMPA Table 6).

Covers the judge as a model and as rules. Does not cover the levels (`llm_user`, `rubric`), nor how the two judges' numbers change
under a perturbation (`perturbation_shifts`). No leaderboard uses it.

The embedded one is a plain rule: 50 plus 5 for every point by which positive effects outweigh negative ones in the embedded
judge's reading of the (latest) reply, as the mean over the three axes. It is no model of how a language model judges without a
rubric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.listing import render_card, source_text
from heartloop.environments.empa.llm_user import dialogue_of
from heartloop.environments.empa.scenario import SOURCES
from heartloop.environments.episode import CallLog

__all__ = ["DirectJudge", "EmbeddedDirectJudge", "LLMDirectJudge"]

_NEUTRAL, _A_POINT = 50.0, 5.0


class DirectJudge(Protocol):
    """Gives one number."""

    def describe(self) -> Mapping[str, str]:
        """Prompts by hash."""
        ...

    async def impression(self, view: View, judged: Judgement, log: CallLog) -> float:
        """How well the replies of the window care for the person, from 0 to 100.

        Args:
            judged: the form of the same window, for rules that share its reading of the replies; a model does not see it.

        Raises:
            AnswerError: no number, after the re-asks.
            ModelError: a call failed for good.
        """
        ...


class _Impression(BaseModel):
    model_config = ConfigDict(extra="ignore")
    reason: str = ""
    score: float = Field(ge=0, le=100, strict=True)


class LLMDirectJudge:
    """A model without a rubric.

    Args:
        sampling: its seed, or else the dialogue's, is advanced by turn.
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
    """The plain rule."""

    def describe(self) -> Mapping[str, str]:
        return {}

    async def impression(self, view: View, judged: Judgement, log: CallLog) -> float:
        points: Mapping[str, Sequence[float]] = judged.evidence["points"]
        mean = fmean(up + down for up, down in points.values())
        return round(min(100.0, max(0.0, _NEUTRAL + _A_POINT * mean)), 2)
