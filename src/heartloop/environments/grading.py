"""Judges of one answer: what each gives, how all are asked at the same time, what counts as a model's answer.

Shared by PERM and daily conversation, in part by EQ-Bench3. Covers a grade with its reason and quote, and the question to a
judge model. Does not cover what a judge is told (each environment's prompts), nor what grades are worth (`heartloop.scoring`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import answers_in, ask
from heartloop.core.prompts import Prompt
from heartloop.environments.base import RoleModel, answered
from heartloop.environments.episode import CallLog, RoleFailed
from heartloop.environments.quotes import stands_in

__all__ = ["REASKS", "Grade", "JudgeModel", "Level", "Verdict", "ask_all", "evidence_of", "thoughts_of"]

REASKS = 1
"""Re-asks of a judge whose answer does not fit (ours)."""


class Grade(NamedTuple):
    """What one judge gave."""

    score: int
    """1 to 5; PERM's bystander 0 to 100."""
    reason: str
    quote: str = ""
    """Words of the part that was judged."""
    evidence: Mapping[str, Any] = {}
    """What else the judge saw; the bystander's five dimensions, 0 to 20 each, among it."""


class Verdict(BaseModel):
    """What every judge model answers with."""

    model_config = ConfigDict(extra="forbid")  # two scores under two names are no score
    reason: str = Field(min_length=1)
    quote: str = Field(min_length=1)


class Level(Verdict):
    """A verdict with one level."""

    score: StrictInt = Field(ge=1, le=5)


Given = TypeVar("Given", bound=Verdict)


class JudgeModel(RoleModel):
    """A model that judges; what it is asked is each environment's. Its seed, or else the dialogue's, is advanced by judge."""

    def __init__(
        self,
        model: ChatModel,
        *,
        sampling: Sampling | None = None,
        role: str = "judge",
        prompts: Mapping[str, Prompt] | None = None,
    ) -> None:
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)

    async def verdict(
        self, judge: str, number: int, system: str, asked: str, judged: str, answer: type[Given], *, seed: int, log: CallLog
    ) -> Given:
        """One judge's verdict on a text, asked for again once where it does not fit.

        Args:
            number: of the judge, by which the seed is advanced.
            judged: the text; the verdict's quote must stand in it, and the verdict itself must not.

        Raises:
            AnswerError: no verdict that fits.
            ModelError: a call failed for good.
        """
        planted = answers_in(judged, answer)

        def grounded(verdict: Given) -> str | None:
            if not verdict.reason.strip():
                return "the reason is blank"
            if verdict in planted:
                return "this answer stands in what you judge; judge it yourself"
            if not stands_in(verdict.quote, [judged]):
                return f"the quote {verdict.quote!r} does not stand in what you judge; quote exact words"
            return None

        return await ask(
            self._model,
            [Message(role="system", content=system), Message(role="user", content=asked)],
            answer,
            reasks=REASKS,
            sampling=self._sampling.seeded(seed, number),
            check=grounded,
            on_reply=log.recorder(judge, 0, "judge"),
        )


async def ask_all(judges: Sequence[str], grade: Callable[[str, CallLog], Awaitable[Grade]], kept: CallLog) -> dict[str, Grade]:
    """What all judges gave, asked at the same time; their calls are kept in the judges' order, whoever answered first.

    Raises:
        RoleFailed: one of them, named, has no answer, whatever the others said.
        BudgetSpent: a hard stop was reached.
    """
    logs = {judge: CallLog() for judge in judges}
    asked = (answered(f"{judge} judge", grade(judge, logs[judge])) for judge in judges)
    found = await asyncio.gather(*asked, return_exceptions=True)
    for log in logs.values():
        kept.calls.extend(log.calls)
        for name, number in log.counts.items():
            kept.counts[name] = kept.counts.get(name, 0) + number
    failed = [result for result in found if isinstance(result, BaseException)]
    for error in sorted(failed, key=lambda error: isinstance(error, RoleFailed)):  # a spent budget is no judge's failure
        raise error
    return {judge: result for judge, result in zip(judges, found, strict=True) if isinstance(result, Grade)}


def evidence_of(grades: Mapping[str, Grade]) -> dict[str, Any]:
    """What a turn keeps of its grades: scores, reasons, quotes and what else was seen, by judge."""
    return {
        "scores": {judge: grade.score for judge, grade in grades.items()},
        "reasons": {judge: grade.reason for judge, grade in grades.items()},
        "quotes": {judge: grade.quote for judge, grade in grades.items() if grade.quote},
        "seen": {judge: dict(grade.evidence) for judge, grade in grades.items() if grade.evidence},
    }


def thoughts_of(grades: Mapping[str, Grade]) -> dict[str, str]:
    """Each judge's score and reason, in one line."""
    return {judge: f"{grade.score}: {grade.reason}" for judge, grade in grades.items()}
