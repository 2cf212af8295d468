"""Python functions that are passed as models: their names and hashes.

Covers the name under which a function stands in settings and reports, and the hash that says whether it has changed. Does not
cover calling it, nor functions given by name (`names.PythonChat`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pkgutil
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from heartloop.core.errors import UseError
from heartloop.models.names import PythonChat

__all__ = ["function_model", "function_name", "function_source"]

_PLAIN = (str, int, float, bool, type(None))


def function_name(function: Callable[..., Any]) -> str:
    """`python:<module>:<qualified name>`; of a callable object, that of its class.

    >>> def reply(messages): return "Tell me more."
    >>> function_name(reply).endswith(":reply")
    True

    Raises:
        UseError: it is a class.
    """
    if inspect.isclass(function):
        raise UseError(f"a model is the class {function.__name__}; expected a name, or a function that takes messages")
    named: Any = _inner(function)
    if not hasattr(named, "__qualname__"):
        named = type(named)
    return f"python:{named.__module__}:{named.__qualname__}"


def function_source(function: Callable[..., Any]) -> str:
    """A SHA-256 that changes with the function.

    It covers the function's source (its bytecode where there is none), plain values (texts, numbers, lists, dicts) among its
    defaults, closure and globals, and the functions of the same module that it uses. It does not cover other modules, or the
    state of objects.
    """
    digest = hashlib.sha256()
    _add(digest, function, set())
    return digest.hexdigest()


def function_model(name: str, function: Callable[..., Any], timeout: float) -> PythonChat:
    """The model of a function.

    A function that its name imports has the hash of its file, like the same function given by name, so that `heartloop eval
    --model python:module:function` resumes its runs. Others, as those of a notebook or script, have `function_source`.
    """
    module, _, path = name.removeprefix("python:").partition(":")
    if module != "__main__":
        try:
            importable = pkgutil.resolve_name(f"{module}:{path}") is function
        except (ImportError, AttributeError, ValueError):
            importable = False
        if importable:
            return PythonChat(name, timeout=timeout)
    return PythonChat(name, timeout=timeout, function=function, source=function_source(function))


def _inner(function: Any) -> Any:
    """The function beneath partial objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


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
    defaults = function.__defaults__ or ()
    values: dict[str, Any] = {**(function.__kwdefaults__ or {}), **{str(place): value for place, value in enumerate(defaults)}}
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
