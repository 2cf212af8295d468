"""Some inputs for every parser of what comes from outside; `benchmarks/fuzz.py` tries a hundred thousand of the same.

A value in which nothing is made up, or one of our own errors; never another exception.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzzing import PARSERS, Parser


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_whatever_comes_is_a_value_or_an_error_of_ours(parser: Parser) -> None:
    @settings(max_examples=40, database=None, suppress_health_check=list(HealthCheck))
    @given(parser.inputs)
    def holds(given_: Any) -> None:
        parser.read(given_)

    holds()
