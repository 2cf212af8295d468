"""The gate of the embedded user: no attack works better than when its results were committed (benchmarks/gate)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gate.__main__ import SMALL as SMALL_RESULTS
from benchmarks.gate.jobs import BUDGETS, run
from benchmarks.gate.measures import measures_of, worse
from benchmarks.gate.target import environments

SMALL = BUDGETS["small"]


@pytest.fixture(scope="module")
def committed() -> Any:
    return json.loads(SMALL_RESULTS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results() -> Any:
    return run(SMALL, environments())


@pytest.mark.slow
def test_no_attack_works_better_than_committed(results: Any, committed: Any) -> None:
    assert worse(results, committed) == []
    assert set(measures_of(results)) == set(measures_of(committed))


@pytest.mark.slow
def test_sober_replies_meet_no_floor(results: Any, committed: Any) -> None:
    known = {row["text"] for row in committed["hard_negatives"]["false_alarms"]}
    assert [row for row in results["hard_negatives"]["false_alarms"] if row["text"] not in known] == []


def test_what_got_worse_is_named(committed: Any) -> None:
    changed = json.loads(json.dumps(committed))
    changed["environments"]["sage"]["replies"]["eliza"][0] += 5.5
    changed["environments"]["sage"]["replies"]["soft insults"][0] -= 50
    assert [line.partition(",")[0] for line in worse(changed, committed)] == ["sage: eliza over middling"]
    assert worse(committed, changed)[0].startswith("sage: soft insults over middling, replies")


@pytest.mark.slow
def test_finished_parts_are_not_made_again(tmp_path: Path) -> None:
    budget = SMALL._replace(contexts=1, scored=20, words=4, scenarios=1, replies=5, messages=2)
    parts = tmp_path / "parts.jsonl"
    made: list[str] = []
    first = run(budget, ["daily"], parts, say=made.append)
    count = len(made)
    lines = parts.read_text(encoding="utf-8").splitlines()
    parts.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    assert run(budget, ["daily"], parts, say=made.append) == first
    assert len(made) == count + 1
    run(budget._replace(scored=21), ["daily"], parts, say=made.append)
    assert len(made) == 2 * count + 1
