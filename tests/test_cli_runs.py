"""Commands on finished runs: merge, compare, rescore, report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import heartloop, refused

EVAL = ("eval", "sage", "--user", "embedded", "--limit", "8", "-E", "max_turns=4")
BOTH = ("--model", "heartloop/reflector", "--model", "heartloop/hostile")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards with two models, merged."""
    folder = tmp_path_factory.mktemp("runs")
    for index in ("1", "2"):
        assert heartloop(*EVAL, *BOTH, "--shard", f"{index}/2", "--out", index, cwd=folder).code == 0
    done = heartloop("merge", "1", "2", "--out", "whole", cwd=folder, code=0)
    assert "16 dialogues of 2 runs." in done.out
    assert "heartloop/reflector" in done.out
    return folder


@pytest.mark.parametrize(
    ("new", "old", "gate", "code"),
    [
        ("hostile", "reflector", ("--worse-than", "5"), 1),
        ("hostile", "reflector", ("--worse-than", "90"), 0),
        ("reflector", "hostile", ("--worse-than", "0"), 0),
    ],
)
def test_compare_is_a_gate(place: Path, new: str, old: str, gate: tuple[str, ...], code: int) -> None:
    models = ("--model-a", f"heartloop/{old}", "--model-b", f"heartloop/{new}")
    done = heartloop("compare", "whole", *models, *gate, cwd=place, code=code)
    assert "Paired on 8 dialogues of 8 scenarios" in done.out
    assert "permutation test p 0.0078 (exact, by scenario)" in done.out  # 2 of 2^8
    assert ("B is worse than A by more than 5." in done.err) is (code == 1)
    refused("compare", "whole", *models, "--worse-than", "-1", cwd=place, said="--worse-than is -1.0")


def test_rescore_writes_a_run_beside_that_report_and_compare_open(place: Path) -> None:
    done = heartloop("rescore", "whole", "-E", "preset=released", cwd=place, code=0)
    assert "Run: whole-released" in done.out
    assert json.loads((place / "whole-released" / "settings.json").read_text())["rescored"]["from"] == "whole"
    done = heartloop("report", "whole", "whole-released", "--out", "site", cwd=place, code=0)
    assert (place / "site" / "measurement-2.html").exists()
    models = ("--model-a", "heartloop/reflector", "--model-b", "heartloop/reflector")
    done = heartloop("compare", "whole", "whole-released", *models, cwd=place, code=0)
    assert "The preset is corrected in A and released in B" in done.out
    assert "B was rescored" in done.out
