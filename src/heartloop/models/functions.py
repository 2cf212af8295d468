"""Python functions as models: calling them, their names, and hashes that tell whether they have changed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from heartloop.core.chat import Reply, Schema, dialogue_id, estimate_usage
from heartloop.core.dialogue import Message, Sampling, writable
from heartloop.core.errors import BotError, BudgetSpent, ModelError, UseError
from heartloop.models.client import TIMEOUT, scrub

_SECRET_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_PLAIN = (str, int, float, bool, type(None))


class PythonChat:
    """A Python function as a model: `python:module:function`, searched in the current directory too.

    The function takes `messages`, a list of dicts with `role` and `content`, and returns a text or a `Reply`. If it has a
    parameter `dialogue_id`, that is one text in all turns of a dialogue, and another in each dialogue. An `async def`
    runs in the event loop. A plain function runs in threads, several at a time, and has to be thread-safe. It gets no schema and
    no sampling settings. `source` is the SHA-256 of the module's file, or the `function_source` of a given `function`.
    """

    def __init__(self, name: str, *, timeout: float = TIMEOUT, function: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._timeout = timeout
        self._function = _load(name) if function is None else function
        self.source = _source_of(self._function) if function is None else function_source(function)
        called = getattr(self._function, "__call__", None)  # noqa: B004 - an object's own __call__ may be the coroutine
        self._is_async = inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(called)

        self.keeps_dialogues = _takes_dialogue_id(self._function)

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        """One call of the function; `BotError` where it raises, takes too long, or returns neither a text nor a `Reply`.

        A `ModelError` that it raises passes: the function called a provider through heartloop, and the way there failed.
        """
        plain = [{"role": m.role, "content": m.content} for m in messages]
        try:
            answer: Any = await asyncio.wait_for(self._answer(plain), self._timeout)
        except (ModelError, BudgetSpent):
            raise
        except TimeoutError as error:
            raise BotError(
                f"{self.name} returned nothing within {self._timeout:g} s; raise --timeout or make it faster"
            ) from error
        except Exception as error:
            description = _without_keys(f"{type(error).__name__}: {error}")
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{self.name} raised {description} ({Path(last.filename).name}, line {last.lineno})"
            # an error that contained a key is not chained, or the traceback would print it
            raise BotError(message) from (error if description.endswith(str(error)) else None)
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        text: Any = reply.text
        if not isinstance(text, str):
            raise BotError(f"{self.name} returned {type(text).__name__}; expected a text or a heartloop.core.chat.Reply")
        text = writable(text)
        return reply._replace(text=text, usage=reply.usage if reply.usage.total else estimate_usage(messages, text))

    async def _answer(self, messages: list[dict[str, str]]) -> Any:
        given = {"dialogue_id": dialogue_id.get()} if self.keeps_dialogues else {}
        if self._is_async:
            try:
                return await self._function(messages, **given)
            except SystemExit as error:  # which asyncio lets end the process
                raise BotError(f"{self.name} raised SystemExit({error})") from error
        result: Future[Any] = Future()
        result.set_running_or_notify_cancel()  # a call that timed out still ends in its thread

        def work() -> None:
            try:
                result.set_result(self._function(messages, **given))
            except Exception as error:
                result.set_exception(error)
            except BaseException as error:  # sys.exit() in the function ends the call, not the run
                result.set_exception(BotError(f"{self.name} raised {type(error).__name__}({error})"))

        # one daemon thread a call, no pool: concurrency is that of the dialogues, and a hanging call cannot block the exit
        threading.Thread(target=work, daemon=True, name=self.name).start()
        answer = await asyncio.wrap_future(result)
        return await answer if inspect.isawaitable(answer) else answer


def function_name(function: Callable[..., Any]) -> str:
    """`python:<module>:<qualified name>`; of a callable object, that of its class."""
    if inspect.isclass(function):
        raise UseError(f"a model is the class {function.__name__}; expected a name, or a function that takes messages")
    named: Any = function
    while isinstance(named, functools.partial):
        named = named.func
    if not hasattr(named, "__qualname__"):
        named = type(named)
    return f"python:{named.__module__}:{named.__qualname__}"


def function_source(function: Callable[..., Any]) -> str:
    """A SHA-256 that changes with the function.

    It covers the function's source (or bytecode), plain values (texts, numbers, lists, dicts) among its defaults, closure and
    globals, and the functions of the same module that it uses; not other modules or the state of objects.
    """
    digest = hashlib.sha256()
    _add(digest, function, set())
    return digest.hexdigest()


def function_model(name: str, function: Callable[..., Any], timeout: float) -> PythonChat:
    """The model of a function.

    A function that its name imports has the hash of its file, like the same function given by name, so that `heartloop eval
    --model python:module:function` resumes its runs. Others, as those of a notebook or script, have `function_source`.
    """
    path = name.removeprefix("python:")
    if not path.startswith("__main__:"):
        with contextlib.suppress(ImportError, AttributeError, ValueError):
            if pkgutil.resolve_name(path) is function:
                return PythonChat(name, timeout=timeout)
    return PythonChat(name, timeout=timeout, function=function)


def _add(digest: Any, function: Any, known: set[int]) -> None:
    while isinstance(function, functools.partial):
        digest.update(repr([_plain(value) for value in function.args]).encode())
        digest.update(repr(sorted((name, _plain(value)) for name, value in function.keywords.items())).encode())
        function = function.func
    if not isinstance(function, FunctionType):
        function = getattr(function, "__func__", None) or vars(type(function)).get("__call__")
    function = inspect.unwrap(function) if function is not None else None
    if not isinstance(function, FunctionType) or id(function) in known:
        return
    known.add(id(function))
    try:
        digest.update(inspect.getsource(function).encode())
    except (OSError, TypeError):  # typed at a prompt that keeps no source
        _add_code(digest, function.__code__)
    values: dict[str, Any] = {str(place): value for place, value in enumerate(function.__defaults__ or ())}
    values |= function.__kwdefaults__ or {}
    with contextlib.suppress(ValueError):  # a closure over a name that has no value yet
        used = inspect.getclosurevars(function)
        values |= {**used.globals, **used.nonlocals}
    for key in sorted(values):
        value = values[key]
        digest.update(repr((key, _plain(value))).encode())
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _add(digest, value, known)


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())


def _plain(value: Any) -> Any:
    """A value whose `repr` is the same in every process, or its type's name."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return sorted(((str(key), _plain(part)) for key, part in value.items()), key=str)
    return type(value).__qualname__


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
            raise UseError(f"{name}: no module {module_name!r} in {here} or installed; run the command in its folder") from error
        description = _without_keys(f"{type(error).__name__}: {error}")
        raise UseError(f"{name}: importing {module_name!r} raised {description}; fix the module") from None
    for part in path.split("."):
        if not hasattr(target, part):
            raise UseError(f"{name}: module {module_name!r} has no {path!r}; expected a function that takes messages")
        target = getattr(target, part)
    if not callable(target):
        raise UseError(f"{name}: {path!r} is {type(target).__name__}; expected a function that takes messages")
    return target  # type: ignore[no-any-return]


def _takes_dialogue_id(function: Callable[..., Any]) -> bool:
    try:
        return "dialogue_id" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in, without a signature
        return False


def _source_of(function: Callable[..., Any]) -> str:
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(str(getattr(module, "__file__", ""))).read_bytes()).hexdigest()
    return ""


def _without_keys(text: str) -> str:
    for name, value in os.environ.items():
        if _SECRET_NAMES.search(name) and len(value) >= 8:
            text = scrub(text, value)
    return text
