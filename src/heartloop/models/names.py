"""Model names: `resolve` turns a name into a `ChatModel`, with API keys and addresses from the environment and `.env`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heartloop.core.chat import RECORDED_PREFIX, ChatModel, Reply, Schema
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.core.system import readable
from heartloop.core.text import nearest, nearest_name
from heartloop.models.bots import HttpBot
from heartloop.models.budget import Meter, Metered, is_baseline, is_scripted
from heartloop.models.cache import AnswerCache, Cached
from heartloop.models.client import (
    CONNECTIONS,
    LOCAL,
    RETRIES,
    SERVICES,
    TIMEOUT,
    Connections,
    EndpointChat,
    base_url_of,
    provider_table,
    variable,
)
from heartloop.models.functions import PythonChat
from heartloop.models.local import LocalChat, is_local
from heartloop.models.recorded import RecordedChat

if TYPE_CHECKING:
    from heartloop.reader.model import LinearModel

_OWN_ADDRESS = {"azure": "https://NAME.openai.azure.com/openai/v1"}
"""Services whose address depends on the account, with what it looks like."""
_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FORMS = (
    "expected service/model (openai/gpt-6-luna), local/smollm2, local/PATH.gguf, heartloop/<baseline> (heartloop/reflector), "
    "python:module:function, http:bot.yaml, or, as a judge or user, student:FILE"
)


def load_env() -> None:
    """Reads `.env` of the current directory into the environment. Variables that are set keep their values."""
    from dotenv import load_dotenv

    path = Path.cwd() / ".env"
    with readable(path, "lines such as OPENAI_API_KEY=..."):
        load_dotenv(path, override=False)


def resolve(
    name: str,
    *,
    max_connections: int = CONNECTIONS,
    connections: Connections | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    seed: int = 0,
    baselines: Mapping[str, str] | None = None,
    key_later: bool = False,
    endpoint: type[EndpointChat] = EndpointChat,
) -> ChatModel:
    """The model of a name. It makes no network request before its first call.

    Args:
        connections: shared with other models, in place of `max_connections`; models at one address share its concurrency.
        seed: of a baseline.
        baselines: an environment's own, by the name after `heartloop/` (see `FunctionBaseline`).
        key_later: refuse a missing key at the first call instead, since a cache may answer every call.
        endpoint: the class of a model behind an endpoint.
    """
    if name.startswith("python:"):
        return PythonChat(name, timeout=timeout)
    if name.startswith("http:"):
        return HttpBot(
            name, timeout=timeout, retries=retries, connections=max_connections if connections is None else connections
        )
    if name.startswith("student:"):
        return StudentModel(name)
    if is_local(name):
        return LocalChat(name, slots=max_connections)
    service, _, model = name.partition("/")
    if not model.strip() or model != model.strip() or not _SERVICE.fullmatch(service):
        meant = with_service(name) or _nearest_baseline(name, baselines or {})
        raise UseError(f"model name {name!r}; {f'pass {meant!r}; ' if meant else ''}{_FORMS}")
    service = service.lower()
    base_url = base_url_of(service)
    if name.startswith(RECORDED_PREFIX) and base_url is None:
        return RecordedChat(name)
    if service == "heartloop":
        return _baseline(model, seed, baselines or {})
    key_variable, url_variable = variable(service, "API_KEY"), variable(service, "BASE_URL")
    if base_url is None and service in _OWN_ADDRESS:
        raise UseError(
            f"{name} has no address: each account has its own; set {url_variable} in the environment or in .env, "
            f"to an address such as {_OWN_ADDRESS[service]}"
        )
    if base_url is None:
        known = [*SERVICES, *_OWN_ADDRESS, *LOCAL]
        expected = f"expected one of {', '.join(known)}, or {url_variable} set to its address"
        raise UseError(f"unknown service {service!r} in {name!r}{nearest(service, known)}; {expected}")
    key = os.environ.get(key_variable, "").strip()
    served = endpoint(
        name,
        model=model,
        base_url=base_url,
        api_key=key,
        needs_key=service not in LOCAL,
        timeout=timeout,
        retries=retries,
        connections=max_connections if connections is None else connections,
    )
    if served.lacks_key and not key_later:
        raise UseError(f"{name} has no API key; set {key_variable} in the environment or in .env")
    return served


def with_service(name: str) -> str | None:
    """A model's name with the service whose documented example is of the same family, where one is.

    >>> with_service("gpt-6-luna"), with_service("mine")
    ('openai/gpt-6-luna', None)
    """
    family = re.split(r"[^a-z]", name.lower())[0]
    for example in provider_table()["examples"]:
        service, _, model = example.partition("/")
        if family and family == re.split(r"[^a-z]", model)[0]:
            return f"{service}/{name}"
    return None


def counted(model: ChatModel, meter: Meter, role: str, cache: AnswerCache | None = None) -> ChatModel:
    """The model, counted under a role and answered from the cache first unless it is scripted or may keep dialogues."""
    metered = Metered(model, meter, role)
    uncached = is_scripted(model.name) or isinstance(model, RecordedChat) or keeps_dialogues(model)
    return metered if cache is None or uncached else Cached(metered, cache, role)


def keeps_dialogues(model: ChatModel) -> bool:
    """Whether a model may hold a dialogue between its turns, so that every turn has to reach it and no cache may answer."""
    return getattr(_innermost(model), "keeps_dialogues", False)


def settings_taken_by(name: str) -> frozenset[str]:
    """The fields of `Sampling` that a model of this name makes use of; empty for those that sample nothing.

    `request.NAME` stands for one field of a request where not all are used.

    >>> sorted(settings_taken_by("heartloop/reflector")), "top_k" in settings_taken_by("openai/gpt-6-luna")
    (['seed'], True)
    """
    if is_baseline(name):
        return frozenset({"seed"})
    if is_scripted(name) or name.startswith(("python:", "http:")):
        return frozenset()
    if name.startswith("checkpoint:"):
        return frozenset({"temperature", "top_p", "top_k", "max_tokens", "seed", "request.chat_template_kwargs"})
    return frozenset(Sampling.model_fields)


def student_of(model: ChatModel | None) -> LinearModel | None:
    inner = None if model is None else _innermost(model)
    return inner.weights if isinstance(inner, StudentModel) else None


class StudentModel:
    """`student:FILE`, which `heartloop student fit` wrote. It judges replies in place of a model and does not chat."""

    def __init__(self, name: str) -> None:
        from heartloop.reader.model import LinearModel

        self.name = name
        self.weights: LinearModel = LinearModel.load(Path(name.removeprefix("student:")))

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        raise UseError(f"{self.name} judges replies and writes none; pass it as --judge or --user")


async def close(models: Iterable[ChatModel]) -> None:
    """Closes the models' sockets, except those of shared `Connections`, which their owner closes, and ends local servers."""
    for model in models:
        inner = _innermost(model)
        if isinstance(inner, (EndpointChat, LocalChat)):
            await inner.close()


def local_speed(models: Iterable[ChatModel]) -> str:
    """What the local models among these generate, e.g. `117 tokens/s`; empty without one, or before the first answer."""
    inner = map(_innermost, models)
    speed = sum(model.speed or 0.0 for model in inner if isinstance(model, LocalChat))
    return f"{speed:.0f} tokens/s" if speed else ""


def endpoint_habits(models: Iterable[ChatModel]) -> dict[str, dict[str, Any]]:
    """By model: the `address`, the calls `retried` by cause, and the number of each setting `dropped` because it was refused."""
    inner = map(_innermost, models)
    return {
        model.name: {"address": model.address, "retried": dict(model.retried), "dropped": dict(model.dropped)}
        for model in inner
        if isinstance(model, EndpointChat)
    }


def _baseline(name: str, seed: int, baselines: Mapping[str, str]) -> ChatModel:
    from heartloop.models.baselines import BASELINES, Baseline, FunctionBaseline

    if name in BASELINES:
        return Baseline(name, seed=seed)
    if name in baselines:
        return FunctionBaseline(name, baselines[name], seed=seed)
    known = [*BASELINES, *baselines]
    raise UseError(
        f"unknown baseline 'heartloop/{name}'; expected heartloop/ and one of {', '.join(known)}{nearest(name, known)}"
    )


def _nearest_baseline(name: str, baselines: Mapping[str, str]) -> str | None:
    from heartloop.models.baselines import BASELINES

    near = nearest_name(name, [*BASELINES, *baselines])
    return f"heartloop/{near}" if near else None


def _innermost(model: ChatModel) -> ChatModel:
    while isinstance(model, (Metered, Cached)):
        model = model.model
    return model
