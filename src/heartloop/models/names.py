"""A name becomes a `ChatModel`.

Covers the three kinds of names, `service/model`, `heartloop/<supporter>` and `python:module:function`; keys, addresses
and `.env`. Does not cover how an endpoint is spoken to (`endpoint`), what may be spent (`spending`, whose names are
offered here too, so that a caller has one door), nor what the scripted supporters say (`supporters`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import inspect
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from heartloop.core.chat import ChatModel, Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import BudgetSpent, InputError, ModelError, TransportError, UseError
from heartloop.models.budget import Meter, Metered, Price, Spend, is_paid, is_scripted, load_prices
from heartloop.models.cache import AnswerCache, Cached
from heartloop.models.endpoint import CONNECTIONS, LOCAL, RETRIES, SERVICES, TIMEOUT, Connections, EndpointChat, scrub, variable

__all__ = [
    "Meter",
    "Metered",
    "Price",
    "PythonChat",
    "Spend",
    "close",
    "counted",
    "endpoint_habits",
    "is_paid",
    "is_scripted",
    "load_env",
    "load_prices",
    "resolve",
]

_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FORMS = "expected service/model (openai/gpt-4.1), heartloop/<supporter> (heartloop/listener) or python:module:function"
_SECRET_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")


def load_env(path: Path | None = None) -> None:
    """Reads `.env` of the current directory (or `path`) into the environment; what is already set stays.

    Raises:
        InputError: the file cannot be read.
    """
    from dotenv import load_dotenv

    path = path or Path.cwd() / ".env"
    try:
        load_dotenv(path, override=False)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {type(error).__name__}; expected lines such as OPENAI_API_KEY=...") from error


def resolve(
    name: str,
    *,
    max_connections: int = CONNECTIONS,
    connections: Connections | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    seed: int = 0,
) -> ChatModel:
    """The model of a name. Nothing is asked of the network before its first call.

    Args:
        max_connections: calls in flight at its endpoint.
        connections: shared with other models, in place of `max_connections`; models at one address share its limit.
        timeout: seconds one attempt at an endpoint may take.
        retries: further attempts after the first.
        seed: of a scripted supporter.

    Raises:
        UseError: a malformed name, an unknown service or supporter, a missing key, a function that is not there.
    """
    if name.startswith("python:"):
        return PythonChat(name, timeout=timeout)
    service, _, model = name.partition("/")
    if not model.strip() or model != model.strip() or not _SERVICE.fullmatch(service):
        raise UseError(f"model name {name!r}; {_FORMS}")
    service = service.lower()
    if service == "heartloop":
        from heartloop.models.baselines import Baseline

        return Baseline(model, seed=seed)
    key_variable, url_variable = variable(service, "API_KEY"), variable(service, "BASE_URL")
    base_url = os.environ.get(url_variable, "").strip() or SERVICES.get(service) or LOCAL.get(service)
    if base_url is None:
        known = ", ".join([*SERVICES, *LOCAL])
        raise UseError(f"unknown service {service!r} in {name!r}; set {url_variable} to its address, or use one of {known}")
    key = os.environ.get(key_variable, "").strip()
    if not key and service not in LOCAL and not _is_loopback(base_url):
        raise UseError(f"{name} needs a key; set {key_variable} in the environment or in .env")
    return EndpointChat(
        name,
        model=model,
        base_url=base_url,
        api_key=key or None,
        timeout=timeout,
        retries=retries,
        connections=max_connections if connections is None else connections,
    )


def counted(model: ChatModel, meter: Meter, role: str, cache: AnswerCache | None = None) -> ChatModel:
    """The model with its calls counted in a role; with a cache, what was answered before is not asked again.

    What scripted supporters say is worked out, not paid for: the cache is passed by.
    """
    metered = Metered(model, meter, role)
    return metered if cache is None or is_scripted(model.name) else Cached(metered, cache, role)


async def close(models: Iterable[ChatModel]) -> None:
    """Closes the sockets of those models that have some; shared `Connections` are left to whoever made them."""
    for model in models:
        inner = _innermost(model)
        if isinstance(inner, EndpointChat):
            await inner.close()


def endpoint_habits(models: Iterable[ChatModel]) -> dict[str, dict[str, Any]]:
    """What was learned of each endpoint: `address`, calls `retried`, settings `dropped` because it refused them, with counts."""
    found: dict[str, dict[str, Any]] = {}
    for model in models:
        inner = _innermost(model)
        if isinstance(inner, EndpointChat):
            found[inner.name] = {"address": inner.address, "retried": inner.retried, "dropped": dict(inner.dropped)}
    return found


def _innermost(model: ChatModel) -> ChatModel:
    while isinstance(model, (Metered, Cached)):
        model = model.model
    return model


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in {"localhost", "::1"} or host.startswith("127.")


class PythonChat:
    """A model that is a Python function: `python:module:function`, the current directory included in the search.

    The function takes `messages`, a list of dicts with `role` and `content`, and returns a text or a `Reply`. An
    `async def` runs in the loop; a plain function runs in threads, several at a time, so it has to bear that.
    It gets no schema and no sampling settings. `source` is the SHA-256 of the module's file.

    Raises:
        UseError: no such module or function, or the module does not import.
    """

    def __init__(self, name: str, *, timeout: float = TIMEOUT) -> None:
        self._name = name
        self._timeout = timeout
        self._function = _load(name)
        self.source = _source_of(self._function)
        called = getattr(self._function, "__call__", None)  # noqa: B004 - an object's own __call__ may be the coroutine
        self._is_async = inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(called)

    @property
    def name(self) -> str:
        return self._name

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One call of the function.

        Raises:
            ModelError: it raised, with what and where, or returned neither a text nor a `Reply`.
        """
        given = [{"role": m.role, "content": m.content} for m in messages]
        try:
            answer: Any = await asyncio.wait_for(self._answer(given), self._timeout)
        except (ModelError, BudgetSpent):
            raise
        except TimeoutError as error:
            raise TransportError(f"{self._name} gave no answer within {self._timeout:g} s; raise --timeout or mend it") from error
        except Exception as error:
            said = _unkeyed(f"{type(error).__name__}: {error}")
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{self._name} raised {said} ({Path(last.filename).name}, line {last.lineno})"
            # a message that held a key is not chained, or the traceback would print it
            raise ModelError(text) from (error if said.endswith(str(error)) else None)
        text = answer.text if isinstance(answer, Reply) else answer
        if not isinstance(text, str):
            raise ModelError(f"{self._name} returned {type(text).__name__}; expected a text or a heartloop.core.chat.Reply")
        text = writable(text)
        usage = answer.usage if isinstance(answer, Reply) else Usage()
        if not usage.total:
            usage = estimate_usage(messages, text)
        return answer._replace(text=text, usage=usage) if isinstance(answer, Reply) else Reply(text, usage=usage)

    async def _answer(self, given: list[dict[str, str]]) -> Any:
        if self._is_async:
            return await self._function(given)
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Any] = loop.create_future()

        def settle(answer: Any, error: BaseException | None) -> None:
            if told.done():  # nobody waits any more
                return
            if error is not None:
                told.set_exception(error)
            else:
                told.set_result(answer)

        def work() -> None:
            try:
                answer, error = self._function(given), None
            except Exception as raised:
                answer, error = None, raised
            except BaseException as raised:  # sys.exit() in somebody's function ends the call, not the run
                answer, error = None, ModelError(f"{self._name} raised {type(raised).__name__}({raised})")
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run ended without us
                loop.call_soon_threadsafe(settle, answer, error)

        # a thread of its own, not a pool: as many at once as dialogues, and a hanging one keeps nobody from leaving
        threading.Thread(target=work, daemon=True, name=self._name).start()
        answer = await told
        return await answer if inspect.isawaitable(answer) else answer


def _load(name: str) -> Callable[[list[dict[str, str]]], Any]:
    module_name, _, path = name.removeprefix("python:").partition(":")
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module_name) or not path:
        raise UseError(f"model name {name!r}; expected python:module:function, such as python:my_agent:reply")
    here = str(Path.cwd())
    if here not in sys.path:  # stays there, for what the module imports later
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            raise UseError(f"{name}: no module {module_name!r} in {here} or installed; run from its directory") from error
        said = _unkeyed(f"{type(error).__name__}: {error}")
        raise UseError(f"{name}: importing {module_name!r} raised {said}; mend the module") from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise UseError(f"{name}: module {module_name!r} has no {path!r}; name a function that takes messages")
        found = getattr(found, part)
    if not callable(found):
        raise UseError(f"{name}: {path!r} is {type(found).__name__}; expected a function that takes messages")
    return found  # type: ignore[no-any-return]


def _source_of(function: Callable[..., Any]) -> str:
    """SHA-256 of the file that a function stands in; empty where there is none, as in an interpreter's own."""
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(str(getattr(module, "__file__", ""))).read_bytes()).hexdigest()
    return ""


def _unkeyed(text: str) -> str:
    """The text without any key that the environment holds."""
    for name, value in os.environ.items():
        if _SECRET_NAMES.search(name) and len(value) >= 8:
            text = scrub(text, value)
    return text
