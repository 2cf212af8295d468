"""Python source as a syntax tree."""

from __future__ import annotations

import ast
import gc

__all__ = ["syntax_tree"]


def syntax_tree(text: str) -> ast.Module:
    """The syntax tree of a module's source, parsed while garbage collection is off.

    CPython 3.11 to 3.11.7 counts the depth of all trees that are being built in one place. If garbage is collected meanwhile, and
    a finalizer parses source too, as showing a traceback does, a valid text raises SystemError (python/cpython issue 106905).
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
