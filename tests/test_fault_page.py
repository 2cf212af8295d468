"""The page of the fault programmes holds the committed results, and every promise in them was kept."""

from __future__ import annotations

import json

from benchmarks.fault_page import PAGE, page
from benchmarks.programme import RESULTS


def test_the_page_is_what_its_results_say() -> None:
    """`python benchmarks/fault_page.py` was run after the last measurement."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_promise_was_kept() -> None:
    for name in ("faults", "kills"):
        assert all(json.loads((RESULTS / f"{name}.json").read_text())["promises"].values()), name
    assert json.loads((RESULTS / "fuzz.json").read_text())["broken"] == []
    assert json.loads((RESULTS / "canary.json").read_text())["runs with traces"] == 0
