"""The workflow of `examples/ci`: its YAML parses, and its commands run as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heartloop.environments.records import Source, sources
from tests.write_docs import ROOT

EXAMPLE = ROOT / "examples" / "ci"


def workflow() -> dict[str, Any]:
    file = EXAMPLE / "heartloop.yml"
    [record] = sources(file, file.read_text(encoding="utf-8"))
    assert isinstance(record, Source), record
    loaded: dict[str, Any] = json.loads(record.text)
    return loaded


def test_it_runs_on_pull_requests_and_may_only_read() -> None:
    assert set(workflow()["on"]) == {"pull_request"}
    assert workflow()["permissions"] == {"contents": "read"}


def play(workspace: Path) -> subprocess.CompletedProcess[str]:
    """Runs the steps that call heartloop, as a runner does; returns the last one that ran, the first that failed."""
    given = {**workflow()["env"], "FOLDER": ".", "LIMIT": "32"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    here = {"GITHUB_WORKSPACE": str(workspace), "GITHUB_STEP_SUMMARY": str(workspace / "summary.md"), "PATH": path}
    done = None
    for step in workflow()["jobs"]["compare"]["steps"]:
        if not step.get("run", "").startswith("heartloop "):
            continue
        folder = re.sub(r"\$\{\{ env\.(\w+) \}\}", lambda name: given[name[1]], step.get("working-directory", "."))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = {**os.environ, **given, **here}
        done = subprocess.run(command, cwd=workspace / folder, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode and not step.get("continue-on-error"):
            break
    assert done is not None
    return done


@pytest.mark.slow
@pytest.mark.parametrize(("head", "code"), [(None, 0), ("return 'Stop whining. You are wasting my time.'", 1)])
def test_the_gate_passes_an_unchanged_system_and_stops_a_worse_one(head: str | None, code: int, tmp_path: Path) -> None:
    source = (EXAMPLE / "assistant.py").read_text(encoding="utf-8")
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "assistant.py").write_text(source, encoding="utf-8")
    if head is not None:
        (tmp_path / "head" / "assistant.py").write_text(f"def reply(messages):\n    {head}\n", encoding="utf-8")
    done = play(tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert "\nGate: " in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert (tmp_path / "runs" / "gate.xml").is_file()
    assert (tmp_path / "runs" / "report" / "index.html").is_file()


@pytest.mark.slow
def test_a_head_that_fails_stops_and_a_base_that_fails_does_not(tmp_path: Path) -> None:
    for place, broken in ((tmp_path / "head", "head"), (tmp_path / "base", "base")):
        for name in ("base", "head"):
            (place / name).mkdir(parents=True)
            source = "def reply(messages):\n    raise KeyError\n"
            if name != broken:
                source = (EXAMPLE / "assistant.py").read_text(encoding="utf-8")
            (place / name / "assistant.py").write_text(source, encoding="utf-8")
    stopped, repaired = play(tmp_path / "head"), play(tmp_path / "base")
    assert (stopped.returncode, repaired.returncode) == (1, 0)
    assert "of python:assistant:reply failed" in stopped.stderr.splitlines()[-1]
    assert "Gate: not shown" in (tmp_path / "base" / "summary.md").read_text(encoding="utf-8")
