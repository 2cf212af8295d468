"""The `ChatModel` protocol, its `Reply`, and `ScriptedChat` for tests and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import ModelError
from heartloop.core.tags import tagged

EMBEDDED = "embedded"
"""Name of the learned reader, which plays users and judges in place of a language model."""

CONTENT_FILTER = "content_filter"
"""Finish reason of a reply that the provider's moderation stopped."""

HUMAN = "human"
"""Name of the model whose replies somebody typed (`heartloop talk`)."""

LOCAL_PREFIX = "local/"
"""Of the names of models that heartloop serves itself (`models.local`); their server enforces every schema at no cost."""

RECORDED_PREFIX = "recorded/"
"""Of the names of models whose answers are replayed (`models.recorded`)."""

dialogue_id: ContextVar[str] = ContextVar("dialogue_id", default=uuid4().hex)
"""Of the dialogue that is played: another one each time, which says nothing of its scenario; one for all calls outside of any."""


Schema = Mapping[str, Any] | None
"""The JSON schema of an answer; `None` for a text."""


def is_embedded(model: str) -> bool:
    return model == EMBEDDED


class Reply(NamedTuple):
    text: str
    reasoning: str | None = None
    """The endpoint's `reasoning_content` (or `reasoning`)."""
    finish_reason: str | None = "stop"
    usage: Usage = Usage()
    cached: bool = False
    """Not paid for: from the answer cache, or from a stored dialogue."""
    abandoned: int = 0
    """Attempts before it without an answer that the server may bill: timed out, or the connection broke."""
    tag: str | None = None
    """What marks the answer in the text (`core.tags`); `None` if no answer was asked for, or by an earlier version."""
    seconds: float = 0.0
    retries: int = 0
    """As in `Call`; 0 for a model without an endpoint."""


@runtime_checkable
class ChatModel(Protocol):
    @property
    def name(self) -> str:
        """Such as `openai/gpt-6-luna` or `heartloop/reflector`."""

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        """One completion; `schema` is a JSON schema for the answer, which not every endpoint enforces.

        Raises:
            ModelError: the call failed for good.
            BudgetSpent: a limit on cost or tokens was reached before the call.
        """


@lru_cache(maxsize=256)  # the messages of a dialogue are sent again in every turn
def estimate_tokens(text: str) -> int:
    """Estimated tokens, for endpoints that do not count them: one per four characters, and at least one per word."""
    quarter = (len(text) + 3) // 4
    if text.isascii() and sum(map(text.count, " \n\t\r\x0b\x0c\x1c\x1d\x1e\x1f")) < quarter:  # a tenth of the time of `split`
        return quarter
    return max(len(text.split()), quarter)


def estimate_usage(messages: Sequence[Message], *answers: str) -> Usage:
    """Estimated tokens of one call: its messages, and the answers (text, reasoning)."""
    prompt = sum(estimate_tokens(message.content) for message in messages)
    return Usage(prompt_tokens=prompt, completion_tokens=sum(map(estimate_tokens, answers)), estimated=True)


class ScriptedChat:
    """A model that answers from a list or by a function: for tests, examples and dry runs.

    An exception in the list is raised. After the end of the list, `cycle=True` repeats the last entry; otherwise `ModelError`.
    The tag that a request asks for (`core.tags`) is put into the JSON objects of its answer, unless `tags=False`.
    """

    def __init__(
        self,
        answers: Sequence[str | Reply | Exception] | Callable[[Sequence[Message]], str | Reply],
        *,
        name: str = "scripted",
        cycle: bool = False,
        tags: bool = True,
    ) -> None:
        self.name = name
        self._answers = answers
        self._cycle = cycle
        self._tags = tags
        self.asked: list[tuple[Message, ...]] = []
        self.schemas: list[Schema] = []
        self.samplings: list[Sampling | None] = []

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        number = len(self.asked)
        self.asked.append(tuple(messages))
        self.schemas.append(schema)
        self.samplings.append(sampling)
        if callable(self._answers):
            answer: str | Reply | Exception = self._answers(messages)
        else:
            n = len(self._answers)
            if number >= n and not self._cycle:
                raise ModelError(f"scripted model {self.name!r} has {n} answers and got call {number + 1}; add answers")
            answer = self._answers[min(number, n - 1)]
        if isinstance(answer, Exception):
            raise answer
        reply = answer if isinstance(answer, Reply) else Reply(answer, usage=estimate_usage(messages, answer))
        return reply._replace(text=tagged(reply.text, messages[-1].content)) if self._tags and schema is not None else reply
