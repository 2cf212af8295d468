"""`heartloop scenarios`: list, show and save, for any environment; `check` is in test_new_scenarios.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.errors import InputError, UseError
from heartloop.environments.registry import specs


def scenarios(*words: str) -> str:
    done = CliRunner().invoke(app, ["scenarios", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_sets_are_listed_with_their_environment_and_scenarios_by_set() -> None:
    sets = {tuple(line.split()) for line in scenarios("list").splitlines()}
    assert sets == {(name, spec.name) for spec in specs() for name in spec.scenarios.sets}
    assert len(scenarios("list", "cases").splitlines()) == 30
    assert "support-listen-01" in scenarios("show", "support-listen-01")


@pytest.mark.parametrize("name", [name for spec in specs() for name in spec.scenarios.sets if name != "train"])
def test_a_saved_set_is_read_back_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    scenarios("save", name, "--out", str(path))
    spec = next(spec for spec in specs() if name in spec.scenarios.sets)
    assert list(spec.scenarios.load(str(path))) == list(spec.scenarios.load(name))
    with pytest.raises(UseError, match="exists; choose"):
        scenarios("save", name, "--out", str(path))


def test_a_file_without_marks_needs_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": "x"}) + "\n")
    with pytest.raises(UseError, match=r"mine\.jsonl"):
        scenarios("list", str(path))
    with pytest.raises(InputError, match=r"line 1, id: is 'x'; expected a text that matches .*more errors"):
        scenarios("list", str(path), "--environment", "perm")
