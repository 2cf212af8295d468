"""Two labelled halves, one sealed before the rules were written (docs/decisions/0001). Do not tune on the sealed one."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from heartloop.appraisal import STRATEGIES, strategies_of

ROOT = Path(__file__).parents[2]
HALVES = {name: ROOT / "tests" / "data" / f"strategies_{name}.jsonl" for name in ("tuning", "acceptance")}


def test_the_sealed_half_is_the_one_whose_hash_was_committed_before_the_rules() -> None:
    page = (ROOT / "docs" / "decisions" / "0001-labelled-sentences.md").read_text(encoding="utf-8")
    committed = re.search(r"^ {4}([0-9a-f]{64})$", page, re.MULTILINE)
    assert committed is not None
    assert hashlib.sha256(HALVES["acceptance"].read_bytes()).hexdigest() == committed[1]


@pytest.mark.parametrize("half", list(HALVES))
def test_strategy_groups_are_right_for_seventy_percent(half: str) -> None:
    rows = [json.loads(line) for line in HALVES[half].read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 120
    assert {row["strategy"] for row in rows} == set(STRATEGIES)
    found = [strategies_of(row["text"], row["context"]) for row in rows]
    right = sum(bool(read) and read[0][0][0] == row["group"] for read, row in zip(found, rows, strict=True))
    assert right / len(rows) >= 0.7, f"{right} of {len(rows)}"
