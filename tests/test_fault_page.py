"""The page of the fault programmes holds the committed results, and every check in them passed."""

from __future__ import annotations

import json

from benchmarks.fault_page import PAGE, parts
from benchmarks.page import part
from benchmarks.programme import RESULTS


def test_the_page_is_current() -> None:
    """`python -m benchmarks.fault_page` was run after the last measurement."""
    assert {name: part(PAGE, name) for name in parts()} == parts()


def test_every_check_passed() -> None:
    for name in ("faults", "kills"):
        assert all(json.loads((RESULTS / f"{name}.json").read_text())["checks"].values()), name
    assert json.loads((RESULTS / "fuzz.json").read_text())["broken"] == []
    assert json.loads((RESULTS / "canary.json").read_text())["runs with traces"] == 0
