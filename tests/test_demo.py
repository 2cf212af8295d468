"""`heartloop demo`: no key, no network; a leaderboard for each environment, one report; an earlier demo is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.environments.registry import load_environment, specs
from heartloop.environments.spec import DemoRun

SHOWN = ("sage", "eibench", "empa", "perm")


def test_the_demo_plays_the_baselines_and_writes_one_report(demo_site: Path) -> None:
    assert sorted(path.parent.name for path in demo_site.glob("*/scores.json")) == sorted(SHOWN)
    for name in SHOWN:
        card = json.loads((demo_site / name / "scores.json").read_text(encoding="utf-8"))
        assert card["unscored"] == 0
        assert {row["scored"] for row in card["models"]} == {load_environment(name).demo.limit}  # type: ignore[union-attr]
    page = (demo_site / "index.html").read_text(encoding="utf-8")
    overview = page.split('id="environments"', 1)[1].split("</section>", 1)[0]
    titles = [f">{load_environment(name).title}</a>" for name in SHOWN]
    assert [title in overview for title in titles] == [True] * 4
    assert sorted(titles, key=overview.index) == titles


def test_an_earlier_demo_is_replaced_and_another_run_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in specs():
        monkeypatch.setattr(spec, "demo", DemoRun("general", 1) if spec.name == "perm" else None)
    for _ in range(2):
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
        assert done.exit_code == 0, done.output
        assert "heartloop/reflector" in done.output
        assert "does not rank models" in done.output
    (tmp_path / "demo" / ".demo").unlink()
    refused = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert refused.exit_code != 0
    assert (tmp_path / "demo" / "perm" / "settings.json").exists()
