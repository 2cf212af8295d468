"""The LLM judge of EQ-Bench3: the released rubric prompt of the user's checkout, put to a model.

Covers what the judge is told and what counts as its marks. Does not cover the score (`environment`).

The prompt is filled as released: the dialogue, the debrief, the form of the answer; then every asterisk and number sign is
taken out of it. The model's words stand in it unmarked, so one that writes orders to its judge is not kept from it. Notes on a
scenario are not told: the release gives them to its pairwise judges alone.

Departures: an answer must have every criterion once, each a number from 0 to 20, and nothing besides the reasons; one that does
not fit is asked again once, with what is wrong, and then the dialogue is unscored. The released code mends broken JSON, takes a
number out of any text, drops criteria that have none and averages the rest, and knows no range.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import Marked, View
from heartloop.environments.eqbench.scoring import HIGHEST_MARK
from heartloop.environments.grading import REASKS, JudgeModel

__all__ = ["JUDGE_SAMPLING", "REASKS", "LLMUser", "rubric_prompt"]

JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=8000)
"""How the judge is asked, as released."""

_Mark = Annotated[float, Field(ge=0.0, le=HIGHEST_MARK, strict=True)]


class LLMUser(JudgeModel):
    """The judge as a model; its settings come before those of the release (`JUDGE_SAMPLING`)."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        super().__init__(model, sampling=(sampling or Sampling()).over(JUDGE_SAMPLING), role=role)

    async def mark(self, view: View, log: CallLog) -> Marked:
        rubric = view.scenario.form.rubric
        answer = await ask(
            self._model,
            [Message(role="user", content=rubric_prompt(view))],
            _form_of(rubric.criteria),
            reasks=REASKS,
            sampling=self._sampling.seeded(view.seed, 0),
            on_reply=log.recorder("rubric", len(view.answers) - (view.debrief is None), "judge"),
        )
        given = answer.model_dump()
        reasoning = str(given.pop("chain_of_thought_reasoning")).strip()
        return Marked({name: given[name] for name in rubric.criteria}, reasoning)


def rubric_prompt(view: View) -> str:
    """The judge's prompt about a dialogue, filled as the released code does."""
    rubric = view.scenario.form.rubric
    told = {"transcript": view.transcript, "output_format": rubric.output_format}
    if view.debrief is not None:
        told["debrief"] = view.debrief
    return rubric.template.fill(**told).replace("*", "").replace("#", "")


@lru_cache(maxsize=16)
def _form_of(criteria: tuple[str, ...]) -> type[BaseModel]:
    """The form of an answer: reasons, and a mark of every criterion; nothing else."""
    fields: dict[str, Any] = {"chain_of_thought_reasoning": (str, ...), **dict.fromkeys(criteria, (_Mark, ...))}
    return create_model("Marks", __config__=ConfigDict(extra="forbid"), **fields)
