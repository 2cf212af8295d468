"""Model names: `resolve` turns a name into a `ChatModel`.

Covers the kinds of names (`service/model`, `local/...`, `heartloop/<baseline>`, `python:module:function`), API keys and addresses
from the environment and `.env`, and models with a meter and a cache around them. Does not cover requests to an endpoint
(`endpoint`), the process of a local model (`local`), limits on spending (`budget`, whose names are exported here too), nor the
baselines' replies (`baselines`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from heartloop.core.chat import ChatModel, Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import BudgetSpent, InputError, ModelError, TransportError, UseError
from heartloop.models.budget import Meter, Metered, Price, Spend, is_baseline, is_paid, is_scripted, load_prices
from heartloop.models.cache import AnswerCache, Cached
from heartloop.models.endpoint import CONNECTIONS, LOCAL, RETRIES, SERVICES, TIMEOUT, Connections, EndpointChat, scrub, variable
from heartloop.models.local import LocalChat, is_local

if TYPE_CHECKING:
    from heartloop.reader.linear import LinearModel

__all__ = [
    "FunctionBaseline", "Meter", "Metered", "Price", "PythonChat", "Spend", "StudentModel", "close", "counted",
    "endpoint_habits", "is_paid", "is_scripted", "load_env", "load_prices", "local_speed", "resolve",
    "settings_taken_by", "student_of",
]  # fmt: skip

_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FORMS = (
    "expected service/model (openai/gpt-4.1), local/smollm2, local/PATH.gguf, heartloop/<baseline> (heartloop/reflector), "
    "python:module:function, or, as a judge or user, student:FILE"
)
_SECRET_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")


def load_env(path: Path | None = None) -> None:
    """Reads `.env` of the current directory (or `path`) into the environment. Variables that are set keep their values.

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
    baselines: Mapping[str, str] | None = None,
    key_later: bool = False,
) -> ChatModel:
    """The model of a name. It makes no network request before its first call.

    Args:
        max_connections: maximum concurrent calls to its endpoint.
        connections: shared with other models, in place of `max_connections`; models at one address share its limit.
        timeout: seconds for one attempt.
        retries: further attempts after the first.
        seed: of a baseline.
        baselines: an environment's own, by the name after `heartloop/`: `"module:attribute"` of a function (`FunctionBaseline`).
        key_later: refuse a missing key at the first call instead, since a cache may answer every call.

    Raises:
        UseError: a malformed name, an unknown service or baseline, a missing key, or a function that cannot be imported.
    """
    if name.startswith("python:"):
        return PythonChat(name, timeout=timeout)
    if name.startswith("student:"):
        return StudentModel(name)
    if is_local(name):
        return LocalChat(name, slots=max_connections)
    service, _, model = name.partition("/")
    if not model.strip() or model != model.strip() or not _SERVICE.fullmatch(service):
        raise UseError(f"model name {name!r}; {_FORMS}")
    service = service.lower()
    if service == "heartloop":
        return _baseline(model, seed, baselines or {})
    key_variable, url_variable = variable(service, "API_KEY"), variable(service, "BASE_URL")
    base_url = os.environ.get(url_variable, "").strip() or SERVICES.get(service) or LOCAL.get(service)
    if base_url is None:
        known = ", ".join([*SERVICES, *LOCAL])
        raise UseError(f"unknown service {service!r} in {name!r}; expected one of {known}, or {url_variable} set to its address")
    key = os.environ.get(key_variable, "").strip()
    needs_key = service not in LOCAL and not _is_loopback(base_url)
    if needs_key and not key and not key_later:
        raise UseError(f"{name} has no API key; set {key_variable} in the environment or in .env")
    return EndpointChat(
        name,
        model=model,
        base_url=base_url,
        api_key=key or None,
        needs_key=needs_key,
        timeout=timeout,
        retries=retries,
        connections=max_connections if connections is None else connections,
    )


def counted(model: ChatModel, meter: Meter, role: str, cache: AnswerCache | None = None) -> ChatModel:
    """The model with its calls counted under a role and, unless it is scripted, answered from the cache first."""
    metered = Metered(model, meter, role)
    return metered if cache is None or is_scripted(model.name) else Cached(metered, cache, role)


def settings_taken_by(name: str) -> frozenset[str]:
    """The fields of `Sampling` that a model of this name makes use of; empty for those that sample nothing.

    `request.NAME` stands for one field of a request where not all are used.

    >>> sorted(settings_taken_by("heartloop/reflector")), "top_k" in settings_taken_by("openai/gpt-4.1")
    (['seed'], True)
    """
    if is_baseline(name):
        return frozenset({"seed"})
    if is_scripted(name) or name.startswith("python:"):
        return frozenset()
    if name.startswith("checkpoint:"):
        return frozenset({"temperature", "top_p", "top_k", "max_tokens", "seed", "request.chat_template_kwargs"})
    return frozenset(Sampling.model_fields)


def student_of(model: ChatModel | None) -> LinearModel | None:
    """The weights of a student, where the model is one."""
    inner = None if model is None else _innermost(model)
    return inner.weights if isinstance(inner, StudentModel) else None


class StudentModel:
    """`student:FILE`, which `heartloop student fit` wrote. It judges replies in place of a model and does not chat.

    Raises:
        InputError: no such file, or not a student's.
    """

    def __init__(self, name: str) -> None:
        from heartloop.reader.linear import LinearModel

        self.name = name
        self.weights: LinearModel = LinearModel.load(Path(name.removeprefix("student:")))

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        raise UseError(f"{self.name} judges replies and writes none; pass it as --judge or --user")


async def close(models: Iterable[ChatModel]) -> None:
    """Closes the models' sockets, except those of shared `Connections`, which their owner closes, and ends local servers."""
    for model in models:
        inner = _innermost(model)
        if isinstance(inner, (EndpointChat, LocalChat)):
            await inner.close()


def local_speed(models: Iterable[ChatModel]) -> str:
    """What the local models among these generate, e.g. `117 tokens/s`; empty without one, or before the first answer."""
    inner = [_innermost(model) for model in models]
    speeds = [model.speed for model in inner if isinstance(model, LocalChat)]
    known = sum(speed for speed in speeds if speed is not None)
    return f"{known:.0f} tokens/s" if known else ""


def endpoint_habits(models: Iterable[ChatModel]) -> dict[str, dict[str, Any]]:
    """By model: the `address`, the number of calls `retried`, and the count of each setting `dropped` because it was refused."""
    habits: dict[str, dict[str, Any]] = {}
    for model in models:
        inner = _innermost(model)
        if isinstance(inner, EndpointChat):
            habits[inner.name] = {"address": inner.address, "retried": inner.retried, "dropped": dict(inner.dropped)}
    return habits


def _baseline(name: str, seed: int, baselines: Mapping[str, str]) -> ChatModel:
    from heartloop.models.baselines import BASELINES, Baseline

    if name in BASELINES:
        return Baseline(name, seed=seed)
    if name in baselines:
        return FunctionBaseline(name, baselines[name], seed=seed)
    known = ", ".join([*BASELINES, *baselines])
    raise UseError(f"unknown baseline 'heartloop/{name}'; expected heartloop/ and one of {known}")


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


class FunctionBaseline:
    """A baseline that an environment brings, as a `ChatModel` named `heartloop/<name>`.

    Args:
        path: `"module:attribute"` of a function `(messages, seed) -> str`. `messages` is a sequence of `Message`; `seed` is the
            call's sampling seed, which differs from turn to turn, or the one below. Equal arguments must give equal replies.
        seed: used where the call has no sampling seed.

    Raises:
        UseError: `path` cannot be imported, or is not a function.
    """

    def __init__(self, name: str, path: str, *, seed: int = 0) -> None:
        self.name = f"heartloop/{name}"
        self._seed = seed
        try:
            self._function = pkgutil.resolve_name(path)
        except (ImportError, AttributeError, ValueError) as error:
            raise UseError(
                f"heartloop/{name}: cannot load {path!r} ({error}); expected module:attribute of an installed package"
            ) from error
        if not callable(self._function):
            raise UseError(f"heartloop/{name}: {path!r} is {type(self._function).__name__}; expected a function")

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One call of the function.

        Raises:
            ModelError: it raised, or did not return a text.
        """
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed
        try:
            text = self._function(messages, seed)
        except Exception as error:
            raise ModelError(f"{self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ModelError(f"{self.name} returned {type(text).__name__}; expected a text")
        return Reply(writable(text), usage=estimate_usage(messages, text))


class PythonChat:
    """A Python function as a model: `python:module:function`, searched in the current directory too.

    The function takes `messages`, a list of dicts with `role` and `content`, and returns a text or a `Reply`. An `async def`
    runs in the event loop. A plain function runs in threads, several at a time, and has to be thread-safe. It gets no schema and
    no sampling settings. `source` is the SHA-256 of the module's file.

    Args:
        function: the function itself, where it is not imported by its name (`functions`).
        source: its hash.

    Raises:
        UseError: the module or function does not exist, or the module cannot be imported.
    """

    def __init__(
        self, name: str, *, timeout: float = TIMEOUT, function: Callable[..., Any] | None = None, source: str | None = None
    ) -> None:
        self.name = name
        self._timeout = timeout
        self._function = _load(name) if function is None else function
        self.source = _source_of(self._function) if source is None else source
        called = getattr(self._function, "__call__", None)  # noqa: B004 - an object's own __call__ may be the coroutine
        self._is_async = inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(called)

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One call of the function.

        Raises:
            TransportError: no answer within the timeout.
            ModelError: it raised, or returned neither a text nor a `Reply`.
        """
        plain = [{"role": m.role, "content": m.content} for m in messages]
        try:
            answer: Any = await asyncio.wait_for(self._answer(plain), self._timeout)
        except (ModelError, BudgetSpent):
            raise
        except TimeoutError as error:
            raise TransportError(
                f"{self.name} returned nothing within {self._timeout:g} s; raise --timeout or make it faster"
            ) from error
        except Exception as error:
            description = _without_keys(f"{type(error).__name__}: {error}")
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{self.name} raised {description} ({Path(last.filename).name}, line {last.lineno})"
            # an error that contained a key is not chained, or the traceback would print it
            raise ModelError(text) from (error if description.endswith(str(error)) else None)
        text = answer.text if isinstance(answer, Reply) else answer
        if not isinstance(text, str):
            raise ModelError(f"{self.name} returned {type(text).__name__}; expected a text or a heartloop.core.chat.Reply")
        text = writable(text)
        usage = answer.usage if isinstance(answer, Reply) else Usage()
        if not usage.total:
            usage = estimate_usage(messages, text)
        return answer._replace(text=text, usage=usage) if isinstance(answer, Reply) else Reply(text, usage=usage)

    async def _answer(self, messages: list[dict[str, str]]) -> Any:
        if self._is_async:
            return await self._function(messages)
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()

        def settle(answer: Any, error: BaseException | None) -> None:
            if result.done():  # timed out or cancelled
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(answer)

        def work() -> None:
            try:
                answer, error = self._function(messages), None
            except Exception as raised:
                answer, error = None, raised
            except BaseException as raised:  # sys.exit() in the function ends the call, not the run
                answer, error = None, ModelError(f"{self.name} raised {type(raised).__name__}({raised})")
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run ended earlier
                loop.call_soon_threadsafe(settle, answer, error)

        # one daemon thread a call, no pool: concurrency is that of the dialogues, and a hanging call cannot block the exit
        threading.Thread(target=work, daemon=True, name=self.name).start()
        answer = await result
        return await answer if inspect.isawaitable(answer) else answer


def _load(name: str) -> Callable[[list[dict[str, str]]], Any]:
    module_name, _, path = name.removeprefix("python:").partition(":")
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module_name) or not path:
        raise UseError(f"model name {name!r}; expected python:module:function, such as python:my_agent:reply")
    here = str(Path.cwd())
    if here not in sys.path:  # kept: the module may import from there later
        sys.path.insert(0, here)
    try:
        target: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            raise UseError(
                f"{name}: no module {module_name!r} in {here} or installed; run the command in its directory"
            ) from error
        description = _without_keys(f"{type(error).__name__}: {error}")
        raise UseError(f"{name}: importing {module_name!r} raised {description}; fix the module") from None
    for part in path.split("."):
        if not hasattr(target, part):
            raise UseError(f"{name}: module {module_name!r} has no {path!r}; expected a function that takes messages")
        target = getattr(target, part)
    if not callable(target):
        raise UseError(f"{name}: {path!r} is {type(target).__name__}; expected a function that takes messages")
    return target  # type: ignore[no-any-return]


def _source_of(function: Callable[..., Any]) -> str:
    """SHA-256 of the function's source file; empty without one, as for built-in functions."""
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(str(getattr(module, "__file__", ""))).read_bytes()).hexdigest()
    return ""


def _without_keys(text: str) -> str:
    """The text without the keys in the environment variables."""
    for name, value in os.environ.items():
        if _SECRET_NAMES.search(name) and len(value) >= 8:
            text = scrub(text, value)
    return text
