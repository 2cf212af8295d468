"""Python source as a syntax tree, without a fault of CPython 3.11. It is parsed, never run."""

from __future__ import annotations

import ast
import gc

__all__ = ["syntax_tree"]


def syntax_tree(text: str) -> ast.Module:
    """The syntax tree of a module's source, parsed while garbage collection is off.

    CPython 3.11 to 3.11.7 counts the depth of all trees that are being built in one place. If garbage is collected meanwhile, and
    a finalizer parses source too, as showing a traceback does, a valid text raises SystemError (python/cpython issue 106905).

    Raises:
        SyntaxError: the text is no Python.
        ValueError: it has a null character.
        RecursionError: it is nested too deeply.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_on:
            gc.enable()
