"""`heartloop demo` needs no key and no network; an installed language model plays until its time is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli import demo
from heartloop.cli.main import app
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message
from heartloop.environments.registry import load_environment, specs
from heartloop.environments.spec import DemoRun
from heartloop.models.recorded import recordings

SHOWN = ("sage", "eibench", "empa", "perm")


@pytest.mark.slow
def test_the_demo_plays_the_baselines_and_writes_one_report(demo_site: Path) -> None:
    recorded = {f"recorded-{one.environment}" for one in recordings()}
    assert {path.parent.name for path in demo_site.glob("*/scores.json")} - {"language-model"} == {*SHOWN, *recorded}
    for name in SHOWN:
        card = json.loads((demo_site / name / "scores.json").read_text(encoding="utf-8"))
        assert card["unscored"] == 0
        assert {row["scored"] for row in card["models"]} == {load_environment(name).demo.limit}  # type: ignore[union-attr]
    page = (demo_site / "index.html").read_text(encoding="utf-8")
    assert recordings()[0].caption[:40] in page
    overview = page.split('id="environments"', 1)[1].split("</section>", 1)[0]
    titles = [f">{load_environment(name).title}</a>" for name in SHOWN]
    assert [title in overview for title in titles] == [True] * 4
    assert sorted(titles, key=overview.index) == titles


class Slow:
    """A language model that takes its time from its third reply on."""

    name = demo.REAL_MODEL

    async def complete(self, messages: Sequence[Message], **how: Any) -> Reply:
        if sum(message.role == "assistant" for message in messages) > 1:
            await asyncio.sleep(60)
        return Reply("I am here, and the kettle is on.")


def test_a_language_model_that_is_too_slow_is_stopped_and_its_unfinished_scenarios_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heartloop.models.names import resolve

    def instead(name: str, **how: Any) -> Any:
        return Slow() if name == demo.REAL_MODEL else resolve(name, **how)

    monkeypatch.setattr(demo, "resolve", instead)
    for spec in specs():
        monkeypatch.setattr(spec, "demo", DemoRun("general", 1) if spec.name == "sage" else None)
    monkeypatch.setattr(demo, "REAL_SECONDS", 2.0)
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    settings = json.loads((tmp_path / "language-model" / "settings.json").read_text(encoding="utf-8"))
    assert len(settings["scenarios"]) == demo.REAL_SCENARIOS
    assert [name in done.output.partition("did not finish within 2 s")[2] for name in settings["scenarios"]] == [True] * 4
    rows = [json.loads(line) for line in (tmp_path / "language-model" / "transcripts.jsonl").read_text("utf-8").splitlines()]
    assert {row["model"] for row in rows} == set(demo.REAL_BESIDE)
    assert settings["sampling"]["policy"]["max_tokens"] == demo.REAL_TOKENS


def test_an_earlier_demo_is_replaced_and_another_run_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in specs():
        monkeypatch.setattr(spec, "demo", DemoRun("general", 1) if spec.name == "perm" else None)
    monkeypatch.setattr(demo, "REAL_MODEL", "local/none.gguf")  # no such file
    for _ in range(2):
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
        assert done.exit_code == 0, done.output
        assert "heartloop/reflector" in done.output
        assert "Without a language model: " in done.output
        assert "does not rank models" in done.output
    assert not (tmp_path / "demo" / "language-model").exists()
    (tmp_path / "demo" / ".demo").unlink()
    refused = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert refused.exit_code != 0
    assert (tmp_path / "demo" / "perm" / "settings.json").exists()
