"""One small request to each endpoint before a run, so that a wrong key, model or address costs no dialogue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import RefusedByServer, UseError
from heartloop.core.text import nearest
from heartloop.models.budget import Meter
from heartloop.models.client import EndpointChat
from heartloop.models.formats import Trouble

QUESTION = "Reply with the word OK."

ROLE = "check"

_CONNECT = 5.0  # seconds until a connection is open; a wrong address may never answer
_TRIES, _PAUSE = 3, 0.5  # attempts where no answer comes back, and seconds between them
_PATIENCE = 10.0  # seconds after which no further attempt begins
_LISTING = 5.0  # seconds for the server's list of models
_UNCLEAR = {400, 422}


class AskedRole(NamedTuple):
    model: ChatModel
    sampling: Sampling | None = None
    under_test: bool = False
    """Whether it is needed only if its own dialogues are played, other than the model of a role."""


class EndpointCheck:
    """The check of a run's endpoints.

    The request asks for one word and one token, with the role's other settings, since a server may refuse those too. Some servers
    refuse so low a limit: after a 400 or 422 the request is sent once more with the role's own limit. A refused request, no
    connection, no response and a body that is no chat completion are errors. 429 and 5xx are not, since a run repeats its calls.
    """

    def __init__(self, roles: Iterable[AskedRole], meter: Meter) -> None:
        self._meter = meter
        distinct: dict[tuple[str, str], tuple[EndpointChat, Sampling, bool]] = {}
        for model, given, under_test in roles:
            if isinstance(model, EndpointChat):
                sampling = given or Sampling()
                key = (model.name, sampling.model_dump_json())
                if key not in distinct or not under_test:  # a role needs the model in every dialogue
                    distinct[key] = model, sampling, under_test
        self._open = list(distinct.values())

    def due(self, under_test: Container[str]) -> list[tuple[EndpointChat, Sampling]]:
        return [(model, sampling) for model, sampling, in_turn in self._open if not in_turn or model.name in under_test]

    async def ask(self, under_test: Container[str], *, tell: Callable[[str], None] = lambda text: None) -> None:
        """Asks the endpoints that are due, all at once and none twice; `tell` gets a sentence about each overloaded one."""
        due = self.due(under_test)
        try:
            problems = [found for found in await asyncio.gather(*(self._ask(*one) for one in due)) if found is not None]
        finally:
            for model, _ in due:
                await model.close()
        if errors := _lines((model, text) for model, text, passing in problems if not passing):
            raise UseError("\n".join(errors))
        self._open = [one for one in self._open if one[:2] not in due]
        for line in _lines((model, text) for model, text, _ in problems):
            tell(line)

    async def _ask(self, model: EndpointChat, sampling: Sampling) -> tuple[str, str, bool] | None:
        """The model, what is wrong with its endpoint, and whether the run may begin nevertheless."""
        try:
            outcome, tries = await _attempts(model, sampling.model_copy(update={"max_tokens": 1}))
            if isinstance(outcome, Trouble) and outcome.status in _UNCLEAR:
                outcome, tries = await _attempts(model, sampling)
        except UseError as error:  # without a key
            return model.name, f"{error}; nothing was played", False
        if isinstance(outcome, Reply):
            if not outcome.usage.estimated:
                self._meter.record(model.name, ROLE, outcome.usage)
            return None
        if outcome.passing and outcome.status != 200:
            return model.name, f"{model.name} at {model.address} answered {outcome.text} before the run.", True
        text = f"{model.error_of(outcome, tries)}{await nearest_listed(model, outcome)}; nothing was played"
        return model.name, text, False


def _lines(problems: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each text, with the names of its models: a wrong key is one problem."""
    models: dict[str, dict[str, None]] = {}
    for model, text in problems:
        models.setdefault(text.removeprefix(model), {})[model] = None
    return [" and ".join(names) + text for text, names in models.items()]


async def _attempts(model: EndpointChat, sampling: Sampling) -> tuple[Reply | Trouble, int]:
    """The outcome and the number of attempts; repeated if neither a chat completion nor a status came back."""
    started = time.monotonic()
    tries = 1
    while True:
        outcome = await model.ask_once([Message(role="user", content=QUESTION)], sampling, connect=_CONNECT)
        answered = isinstance(outcome, Reply) or outcome.status != 200
        if answered or tries == _TRIES or time.monotonic() - started > _PATIENCE:
            return outcome, tries
        await asyncio.sleep(_PAUSE * tries)
        tries += 1


async def nearest_listed(model: EndpointChat, trouble: Trouble) -> str:
    """If the server lists its models without this one, the one with the nearest name; otherwise empty."""
    if trouble.kind is not RefusedByServer or trouble.status not in {*_UNCLEAR, 404}:
        return ""
    names = await model.listed_models(within=_LISTING)
    if not names or model.model in names:
        return ""
    return f"; the server has no model {model.model!r}{nearest(model.model, names, cutoff=0.5)}"
