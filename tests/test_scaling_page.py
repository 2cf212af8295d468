"""`docs/scaling.md`: its pilots against a local server run as written, and its costs are those of the recorded runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import big_run, run_cost, scaling
from benchmarks.page import part
from benchmarks.programme import table
from tests.commands import environment
from tests.write_docs import ROOT


@pytest.mark.slow
def test_the_pilots_of_playing_and_of_two_judges_estimate_the_whole_plan(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    [commands] = [block for block in re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "--pilot" in block]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    here = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=environment(**here), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    pilots = re.findall(r"Pilot: (.*?) more dialogues will take about .*? calls, .*? tokens and .*?, cost about", done.stderr)
    assert pilots == ["19,980", "19,998", "19,998"], done.stderr


@pytest.mark.slow
def test_the_committed_counts_are_those_of_the_recorded_runs(tmp_path: Path) -> None:
    assert run_cost.measured(tmp_path) == json.loads(run_cost.RESULTS.read_text(encoding="utf-8"))


def test_the_page_has_the_columns_that_are_measured() -> None:
    assert scaling.table({}) in part(scaling.PAGE, "scaling")
    assert table(big_run.COLUMNS, []) in part(big_run.PAGE, "big_run")
