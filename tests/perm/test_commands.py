"""PERM's options on the command line: in the run, in the report, in `rescore`, and refused elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.core.errors import UseError
from heartloop.environments.perm.scoring import perm_reward
from heartloop.evaluation.store import read_run
from heartloop.report.provenance import command_of

PLAY = ["eval", "perm", "--user", "embedded", "--model", "heartloop/reflector", "--limit", "4"]


def heartloop(*words: str) -> str:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def dialogues(run: Path) -> list[Transcript]:
    return list(read_transcripts(run / "transcripts.jsonl", torn_tail=False))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perm") / "run"
    heartloop(*PLAY, "--out", str(path))
    return path


def test_the_rules_are_settings_of_the_run_and_words_of_its_command(tmp_path: Path) -> None:
    heartloop(
        *PLAY, "-E", "bystander_weight=1.0", "-E", 'without=["length", "resonation"]', "--report", "--out", str(tmp_path / "r")
    )
    settings = json.loads((tmp_path / "r" / "settings.json").read_text())
    assert (settings["options"]["bystander_weight"], settings["options"]["without"]) == (1.0, ["resonation", "length"])
    command, _ = command_of(read_run(tmp_path / "r"))
    assert command is not None
    assert """-E bystander_weight=1.0 -E 'without=["resonation", "length"]'""" in command
    page = (tmp_path / "r" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Left out of the reward" in page
    for dialogue in dialogues(tmp_path / "r"):
        scores = dialogue.turns[0].evidence["scores"]
        right = perm_reward(
            None, scores["expression"], scores["reception"], scores["bystander"], 0, parts=("expression", "reception"),
            bystander_weight=1.0,
        )  # fmt: skip
        assert dialogue.score == right.total


def test_rescored_it_is_what_it_would_have_been_and_calls_nobody(run: Path, tmp_path: Path) -> None:
    heartloop(*PLAY, "-E", "bystander_weight=1.0", "--out", str(tmp_path / "live"))
    said = heartloop("rescore", str(run), "-E", "bystander_weight=1.0", "--out", str(tmp_path / "anew"))
    assert "4 scores changed" in said
    assert [d.score for d in dialogues(tmp_path / "anew")] == [d.score for d in dialogues(tmp_path / "live")]
    command, _ = command_of(read_run(tmp_path / "anew"))
    assert command is not None
    assert command.endswith("-E bystander_weight=1.0")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["eval", "perm", "-E", "without=warmth"], "without"),
        (["eval", "perm", "-E", "bystander_weight=-1"], "bystander_weight"),
        (["eval", "perm", "-E", 'without=["resonation", "expression", "reception"]'], "without"),
        (["eval", "sage", "-E", "bystander_weight=1"], "bystander_weight"),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], named: str, tmp_path: Path) -> None:
    with pytest.raises(UseError, match=named):
        CliRunner().invoke(
            app,
            [*words, "--user", "embedded", "--model", "heartloop/assistant", "--out", str(tmp_path / "r")],
            catch_exceptions=False,
        )
