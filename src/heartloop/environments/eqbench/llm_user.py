"""The LLM judge of EQ-Bench3: a model with the released rubric prompt of the user's checkout.

Covers the judge's prompt and the validity of its marks. Does not cover the score (`environment`).

The prompt is filled as released: the dialogue, the debrief, the form of the answer; then every asterisk and number sign is
removed. The model's words in it are not marked, so there is no protection against instructions to the judge. It does not contain
the notes on a scenario, which the release shows to its pairwise judges only.

Departures: an answer must have every criterion once, each a number from 0 to 20, and nothing else but the reasons. An invalid one
is re-asked once with the error; then the dialogue is unscored. The released code repairs broken JSON, extracts a number from any
text, drops criteria without one, averages the rest, and checks no range.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.schemas import Sent
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import Marked, View
from heartloop.environments.eqbench.scoring import HIGHEST_MARK
from heartloop.environments.grading import REASKS, JudgeModel

__all__ = ["JUDGE_SAMPLING", "REASKS", "LLMUser", "rubric_prompt"]

JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=8000)
"""Sampling of the judge, as released."""

_LONGEST_REASONING = 8_000
"""Characters: 2,000 of the judge's 8,000 tokens; the released prompt asks for reasoning without a length."""
_Mark = Annotated[float, Field(ge=0.0, le=HIGHEST_MARK, strict=True)]


class LLMUser(JudgeModel):
    """A model as judge; `sampling` overrides the released settings (`JUDGE_SAMPLING`)."""

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
        fields = answer.model_dump()
        reasoning = str(fields.pop("chain_of_thought_reasoning")).strip()
        return Marked({name: fields[name] for name in rubric.criteria}, reasoning)


def rubric_prompt(view: View) -> str:
    """The judge's prompt for a dialogue, filled as by the released code."""
    rubric = view.scenario.form.rubric
    values = {"transcript": view.transcript, "output_format": rubric.output_format}
    if view.debrief is not None:
        values["debrief"] = view.debrief
    return rubric.template.fill(**values).replace("*", "").replace("#", "")


@lru_cache(maxsize=16)
def _form_of(criteria: tuple[str, ...]) -> type[BaseModel]:
    """The class of an answer: the reasons and a mark for every criterion."""
    reasoning = Annotated[str, Sent(maxLength=_LONGEST_REASONING)]
    fields: dict[str, Any] = {"chain_of_thought_reasoning": (reasoning, ...), **dict.fromkeys(criteria, (_Mark, ...))}
    return create_model("Marks", __config__=ConfigDict(extra="forbid"), **fields)
