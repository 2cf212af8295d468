"""Python source as a syntax tree."""

from __future__ import annotations

import ast
import gc

import pytest

from heartloop.core.system import syntax_tree


class ParsesWhenCollected:
    """Garbage, once nobody else knows it; its finalizer parses source, as showing a traceback does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        parse_within(20)


def parse_within(calls: int) -> ast.Module:
    return ast.parse("1") if calls == 0 else parse_within(calls - 1)


def test_garbage_whose_finalizer_parses_does_no_harm() -> None:
    long = "\n".join(f"x{number} = [{number}, f({number})]" for number in range(3000))
    for _ in range(5):
        ParsesWhenCollected()
    assert len(syntax_tree(long).body) == 3000


@pytest.mark.parametrize("on", [True, False])
def test_garbage_collection_is_as_before_even_after_an_error(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(SyntaxError):
            syntax_tree("x = = 1")
        assert gc.isenabled() is on
    finally:
        gc.enable()
