"""PERM's options on the command line: settings of the run, words of its command, and `rescore`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import read_transcripts
from heartloop.environments.perm.scoring import perm_reward
from heartloop.evaluation.store import read_run
from heartloop.report.provenance import command_of

PLAY = ("eval", "perm", "--user", "embedded", "--model", "heartloop/reflector", "--limit", "4")


def heartloop(*words: str) -> str:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def scores(run: Path) -> list[float | None]:
    return [dialogue.score for dialogue in read_transcripts(run / "transcripts.jsonl")]


def test_the_rules_are_settings_of_the_run_and_words_of_its_command_and_can_be_changed_by_rescore(tmp_path: Path) -> None:
    rules = ("-E", "bystander_weight=1.0", "-E", 'without=["length", "resonation"]')
    heartloop(*PLAY, *rules, "--out", str(tmp_path / "live"))
    settings = json.loads((tmp_path / "live" / "settings.json").read_text())
    assert (settings["options"]["bystander_weight"], settings["options"]["without"]) == (1.0, ["resonation", "length"])
    for dialogue in read_transcripts(tmp_path / "live" / "transcripts.jsonl"):
        grades = {**dialogue.turns[0].evidence["scores"], "resonation": None}
        assert dialogue.score == perm_reward(**grades, tokens=0, parts=("expression", "reception"), bystander_weight=1.0).total

    heartloop(*PLAY, "--out", str(tmp_path / "run"))
    assert "4 scores changed" in heartloop("rescore", str(tmp_path / "run"), *rules, "--out", str(tmp_path / "rescored"))
    assert scores(tmp_path / "rescored") == scores(tmp_path / "live")
    for name in ("live", "rescored"):
        command, _ = command_of(read_run(tmp_path / name))
        assert command is not None
        assert """-E bystander_weight=1.0 -E 'without=["resonation", "length"]'""" in command
