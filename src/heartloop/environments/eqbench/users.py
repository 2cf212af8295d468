"""The judges of EQ-Bench3: a model with the released rubric prompt of the user's checkout, or the learned reader.

The prompt is filled as released: the dialogue, the debrief, the form of the answer; then every asterisk and number sign is
removed. The model's words in it are not marked, so there is no protection against instructions to the judge. It does not contain
the notes on a scenario, which the release shows to its pairwise judges only.

Departures: the request ends with a sentence that asks for a tag in the answer (`core.tags`). An answer must have every criterion
once, each a number from 0 to 20, and nothing else but the reasons. An invalid one is re-asked once with the error; then the
dialogue is unscored. The released code repairs broken JSON, extracts a number from any text, drops criteria without one, averages
the rest, and checks no range.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.core.judging import ask
from heartloop.core.schemas import Sent
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.episode import CallLog
from heartloop.environments.eqbench.environment import HIGHEST_MARK, EQBenchView, marks_in_words
from heartloop.environments.eqbench.scenario import REASONING, EQBenchScenario
from heartloop.environments.grading import REASKS, JudgeModel
from heartloop.environments.reading import WEIGHTS
from heartloop.reader.aspects import ASPECTS, HARMFUL_ASPECTS
from heartloop.reader.features import Context, lacks_english
from heartloop.reader.reader import EmbeddedReader, Reading, embedded_reader

JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=8000)

LONGEST_REASONING = 8_000
"""Characters: 2,000 of the judge's 8,000 tokens; the released prompt asks for reasoning without a length."""
_Mark = Annotated[float, Field(ge=0.0, le=HIGHEST_MARK, strict=True)]


class EQBenchLLMUser(JudgeModel):
    """A model as judge; `sampling` overrides the released settings (`JUDGE_SAMPLING`)."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        super().__init__(model, sampling=(sampling or Sampling()).over(JUDGE_SAMPLING), role=role)

    async def mark(self, view: EQBenchView, log: CallLog) -> tuple[Mapping[str, float], str]:
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
        return {name: fields[name] for name in rubric.criteria}, str(fields[REASONING]).strip()


def rubric_prompt(view: EQBenchView) -> str:
    rubric = view.scenario.form.rubric
    text = rubric.template.format(transcript=view.transcript, output_format=rubric.output_format, debrief=view.debrief)
    return text.replace("*", "").replace("#", "")


@lru_cache(maxsize=16)
def _form_of(criteria: tuple[str, ...]) -> type[BaseModel]:
    reasoning = Annotated[str, Sent(maxLength=LONGEST_REASONING)]
    fields: dict[str, Any] = {REASONING: (reasoning, ...), **dict.fromkeys(criteria, (_Mark, ...))}
    return create_model("Marks", __config__=ConfigDict(extra="forbid"), **fields)


READ: Mapping[str, tuple[str, ...]] = {
    "demonstrated_empathy": ("understanding", "feeling", "warmth"),
    "message_tailoring": ("particular",),
    "depth_of_insight": ("understanding", "particular"),
    "emotional_reasoning": ("understanding", "feeling"),
    "social_dexterity": ("pressure", "hostility", "performance", "coherence"),
}
"""Criteria that are marked, with the aspects whose mean is the mark."""
HOSTILE_LIMIT = 5.0
_HIGHEST_ASPECT = 4.0


class EQBenchEmbeddedUser(EmbeddedPlayer):
    """The judge without a language model, for tests and to try a checkout without a key.

    A mark is the mean of some of the reader's aspects of an answer (`READ`), scaled from 0-4 to 0-20 with harmful aspects
    reversed, then the mean over the answers. Of an answer in sections only the last one is read, the words to the other person.
    Nothing is fitted on EQ-Bench3, and no ranking is claimed. Silence and danger get 0, hostility at most `HOSTILE_LIMIT`.
    """

    def __init__(self, reader: EmbeddedReader | None = None) -> None:
        self._reader = reader or embedded_reader()
        self.name = self._reader.name
        super().__init__(("judge",), {f"{WEIGHTS}reader": self._reader.hash})

    def admit(self, scenario: EQBenchScenario) -> None:
        problem = ""
        if lacks_english(" ".join(scenario.repaired)):
            problem = "is not in English; the embedded judge understands English only"
        elif not scenario.form.rubric.counted & frozenset(READ):
            problem = "is marked by no criterion that the embedded judge reads"
        if problem:
            raise InputError(f"scenario {scenario.id!r} {problem}, use --judge MODEL")

    async def mark(self, view: EQBenchView, log: CallLog) -> tuple[Mapping[str, float], str]:
        prompts = view.scenario.repaired
        replies = [list(answer.sections.values())[-1] if answer.sections else answer.said for answer in view.answers]
        contexts = [Context(prompts[: number + 1], tuple(replies[:number])) for number in range(len(replies))]
        readings = [self._reader.read(reply, context) for reply, context in zip(replies, contexts, strict=True)]
        criteria = [name for name in READ if name in view.scenario.form.rubric.criteria]
        marks = {name: round(fmean(_mark(name, reading) for reading in readings), 1) for name in criteria}
        return marks, f"By the learned reader, over {len(replies)} answers: {marks_in_words(marks)}."


def _mark(criterion: str, reading: Reading) -> float:
    if reading.silent or reading.unread or reading.floor == "danger":
        return 0.0
    values = [
        _HIGHEST_ASPECT - mark if aspect in HARMFUL_ASPECTS else mark
        for aspect, mark in zip(ASPECTS, map(float, reading.aspects), strict=True)
        if aspect in READ[criterion]
    ]
    mark = HIGHEST_MARK / _HIGHEST_ASPECT * fmean(values)
    return min(mark, HOSTILE_LIMIT) if reading.floor == "hostility" else mark
