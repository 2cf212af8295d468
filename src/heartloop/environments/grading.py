"""Judges of one answer: grades with reason and quote, from a model or from the learned reader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.schemas import QUOTED, Sent
from heartloop.environments import reading
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, Player, RoleModel, Scenario, answered
from heartloop.environments.dialogue_text import SILENT, passages_of, quoted, stands_in
from heartloop.environments.episode import CallLog, RoleFailed
from heartloop.environments.reading import Appraisal, AppraisingPlayer, reason_of, whole

REASKS = 1


class Grade(NamedTuple):
    score: int
    """1 to 5; PERM's bystander 0 to 100."""
    reason: str
    quote: str = ""
    evidence: Mapping[str, Any] = {}
    """Further findings, such as the bystander's five dimensions, 0 to 20 each."""


def marked(text: str) -> str:
    """A judged text with every line marked, so that none can be read as the prompt's."""
    return f"    | {quoted(text) or SILENT}"


class JudgedText(NamedTuple):
    scenario: Any
    text: str
    seed: int


class Judges(Player, Protocol):
    async def grade(self, judge: str, judged: JudgedText, log: CallLog) -> Grade:
        """The grade of one judge. All judges are called concurrently."""
        ...


class JudgedReply(NamedTuple):
    """One reply of a dialogue, in place of the scenario of a single answer, which `scenario` holds with the dialogue before."""

    who: str
    scenario: str
    query: str
    """What the person said last."""
    analysis: str
    """What the model wrote besides its reply; may be empty."""
    response: str


class ReplyJudging(NamedTuple):
    """How an environment whose judges grade one answer grades every reply of other environments' dialogues."""

    title: str
    about: str
    source: str
    reading: Sequence[str]
    """How to read the page."""
    names: Sequence[str]
    """The numbers of a reply; the first is the reward."""
    prompts: Mapping[str, str]
    ask: Callable[[ChatModel, Sampling | None, JudgedReply], Awaitable[Mapping[str, Any]]]
    numbers: Callable[[Mapping[str, Any]], Sequence[float | None]]
    """From the answer of `ask`, in the order of `names`; `None` for what was not graded."""


class Reasoned(BaseModel):
    """A judge's answer with its reason."""

    model_config = ConfigDict(extra="forbid")  # two scores under two names are no score
    reason: str


class Verdict(Reasoned):
    """What every judge model answers with."""

    reason: Annotated[str, Sent(maxLength=800)] = Field(min_length=1)
    quote: Annotated[str, Sent(maxLength=300), QUOTED] = Field(min_length=1)


class Level(Verdict):
    """A verdict with one level."""

    score: StrictInt = Field(ge=1, le=5)


Given = TypeVar("Given", bound=Reasoned)


class JudgeModel(RoleModel):
    """A model as judge; an environment sets `prompts`. The seed (its own, by default the dialogue's) is advanced by judge."""

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "judge") -> None:
        super().__init__(model, sampling=sampling, role=role)

    async def verdict(
        self,
        judge: str,
        number: int,
        system: str,
        question: str,
        judged: str,
        answer: type[Given],
        *,
        seed: int,
        log: CallLog,
        turn: int = 0,
        check: Callable[[Given], str | None] = lambda verdict: None,
    ) -> Given:
        """One judge's verdict on a text, re-asked once if invalid. `judged` must contain the verdict's quote, and `check` returns
        what else is wrong; `number`, of the judge or of the turn, is added to the seed.
        """

        def grounded(verdict: Given) -> str | None:
            if not verdict.reason.strip():
                return "the reason is blank"
            quote = getattr(verdict, "quote", None)
            if quote is not None and not stands_in(quote, [judged]):
                return f"the quote {quote!r} does not stand in what you judge; quote exact words"
            return check(verdict)

        return await ask(
            self._model,
            [Message(role="system", content=system), Message(role="user", content=question)],
            answer,
            reasks=REASKS,
            sampling=self._sampling.seeded(seed, number),
            check=grounded,
            passages=passages_of([judged]),
            on_reply=log.recorder(judge, turn, "judge"),
        )


class _Query(Scenario, Protocol):
    @property
    def query(self) -> str: ...


JudgedT = TypeVar("JudgedT", bound=BaseEnvironment[Any, Any, Any])
QueryT = TypeVar("QueryT", bound=_Query)


class AnswerEpisode(LoggedEpisode[JudgedT, QueryT]):
    """One query and one answer, which several judges grade."""

    async def open(self) -> str:
        return self._scenario.query

    async def graded(self, texts: Mapping[str, str], turn: int = 0) -> dict[str, Grade]:
        """The grades of all judges, asked concurrently; their calls are logged at the turn, in the order of the texts."""
        judges: Judges = self._environment.user
        logs = {judge: CallLog() for judge in texts}
        answers = (
            answered(f"{judge} judge", judges.grade(judge, JudgedText(self._scenario, text, self._seed), logs[judge]))
            for judge, text in texts.items()
        )
        results = await asyncio.gather(*answers, return_exceptions=True)
        for own in logs.values():
            self._log.calls.extend(call.model_copy(update={"turn": turn}) for call in own.calls)
            self._log.counts.update(own.counts)
        failed = [result for result in results if isinstance(result, BaseException)]
        for error in sorted(failed, key=lambda error: isinstance(error, RoleFailed)):  # BudgetSpent before RoleFailed
            raise error
        return {judge: result for judge, result in zip(texts, results, strict=True) if isinstance(result, Grade)}


def evidence_of(grades: Mapping[str, Grade]) -> dict[str, Any]:
    return {
        "scores": {judge: grade.score for judge, grade in grades.items()},
        "reasons": {judge: grade.reason for judge, grade in grades.items()},
        "quotes": {judge: grade.quote for judge, grade in grades.items() if grade.quote},
        "seen": {judge: dict(grade.evidence) for judge, grade in grades.items() if grade.evidence},
    }


def thoughts_of(grades: Mapping[str, Grade]) -> dict[str, str]:
    return {judge: f"{grade.score}: {grade.reason}" for judge, grade in grades.items()}


_QUOTED = 140


class AnswerPlayer(AppraisingPlayer):
    """Base of embedded judges of answers to a single message; an answer that several judges grade is appraised once."""

    roles = ("judge",)
    _last: tuple[tuple[str, str, int], Appraisal] | None = None

    def appraise(self, judged: JudgedText) -> Appraisal:
        scenario, answer, seed = judged
        key, last = (scenario.fingerprint, answer, seed), self._last
        if last is None or last[0] != key:
            self._last = last = (key, self.appraiser.appraise(scenario, (scenario.query,), (answer,), seed=seed))
        return last[1]


def reason_for(appraisal: Appraisal, *, good: bool) -> str:
    if appraisal.silent:
        return "Nothing was said."
    reason = reason_of(appraisal, good=good)
    return f"They would think: {reason}." if reason else "It neither helps nor hurts."


def quote_of(judged: str) -> str:
    """The beginning of a text, at most 140 characters and cut behind a word; empty if the text is blank."""
    line = judged.strip().split("\n")[0].strip()
    cut = line if len(line) <= _QUOTED else line[:_QUOTED].rsplit(" ", 1)[0]
    return cut if stands_in(cut, [judged]) else judged.strip()


def leveled(appraisal: Appraisal, output: str, judged: str, *, with_reading: bool) -> Grade:
    """The grade by an output whose range is that of the levels: the nearest level; evidence: the value before rounding."""
    value = appraisal.change[output]
    level = whole(value)
    evidence = {"value": round(value, 2), **(reading.evidence_of(appraisal) if with_reading else {})}
    return Grade(level, reason_for(appraisal, good=level >= 3), quote_of(judged), evidence)
