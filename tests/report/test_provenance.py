"""The settings page: everything a run recorded, and the command that repeats it."""

from __future__ import annotations

import html
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.evaluation.store import read_run
from heartloop.report.provenance import command_of, provenance_of
from heartloop.report.site import write_site
from tests.report.talks import WriteRun, talk

SETTINGS: dict[str, Any] = {
    "environment": "sage", "models": ["openai/a", "b c/d"], "roles": {"user": "x/y"},
    "options": {"preset": "corrected", "variant": "vanilla", "max_turns": 8, "leaves_at": None, "success_at": 100.0},
    "scenario_set": "my file.jsonl", "scenarios": {"s1": "f" * 16}, "exclude_tags": ["death"], "limit": None,
    "shard": {"index": 1, "count": 4}, "repeats": 2, "seed": 7, "prices": {"x/y": {"input": 1.0, "output": 2.0}},
    "sampling": {"policy": {"temperature": 0.2, "top_p": None}},
}  # fmt: skip


def test_the_command_makes_a_run_of_the_same_settings(tmp_path: Path) -> None:
    asked = "eval sage --user embedded --model heartloop/silent --model heartloop/fixer --limit 6 --repeats 2 --seed 3"
    more = "-E preset=released -E variant=challenging -E max_turns=2 --exclude-tag death --exclude-tag eating --shard 2/3"
    first, second = tmp_path / "first", tmp_path / "second"
    runner = CliRunner()
    assert runner.invoke(app, [*asked.split(), *more.split(), "--request", "policy.seed=5", "--out", str(first)]).exit_code == 0
    command, caveat = command_of(read_run(first))
    assert command is not None
    assert "the dialogues are the same" in caveat
    assert runner.invoke(app, [*shlex.split(command)[1:], "--out", str(second)]).exit_code == 0
    assert (first / "settings.json").read_text() == (second / "settings.json").read_text()


def test_names_with_blanks_are_quoted_and_only_options_that_differ_are_written(write_run: WriteRun) -> None:
    command, caveat = command_of(read_run(write_run([], **SETTINGS)))
    assert command == (
        "heartloop eval sage --model openai/a --model 'b c/d' --user x/y --scenarios 'my file.jsonl' --repeats 2 --seed 7 "
        "-E max_turns=8 --exclude-tag death --shard 1/4 --request policy.temperature=0.2"
    )
    assert "a file of yours" in caveat
    assert "--prices" in caveat


@pytest.mark.parametrize(
    ("environment", "roles", "flags"),
    [
        ("empa", {"user": "x/u", "judge": "x/u", "director": "x/u"}, "--user x/u"),
        ("empa", {"user": "x/u", "judge": "x/j", "director": "embedded"}, "--user x/u --judge x/j --role director=embedded"),
        ("perm", {"judge": "x/j"}, "--user x/j"),
    ],
)
def test_roles_are_written_where_they_differ(write_run: WriteRun, environment: str, roles: dict[str, str], flags: str) -> None:
    given = {**SETTINGS, "environment": environment, "models": ["x/m"], "roles": roles, "options": {"max_turns": 1}}
    command, _ = command_of(read_run(write_run([], **given)))
    assert command is not None
    assert command.split(" --scenarios ")[0] == f"heartloop eval {environment} --model x/m {flags}"


@pytest.mark.parametrize(
    ("change", "command", "caveat"),
    [
        (
            {"rescored": {"from": "runs/a", "options": {**SETTINGS["options"], "preset": "released"}}},
            "heartloop rescore runs/a -E preset=corrected",
            "calls no model",
        ),
        ({"rescored": {"from": "runs/a"}}, None, "rescored"),
        (
            {"rejudged": {"from": "runs/a", "preset": "released"}, "roles": {"judge": "x/j"}},
            "heartloop rejudge runs/a --judge x/j -E preset=corrected",
            "judge",
        ),
        ({"rejudged": "x"}, None, "rejudged"),
        ({"roles": {}}, None, "does not name roles"),
    ],
)
def test_other_runs_have_their_own_command_or_a_reason(
    write_run: WriteRun, change: dict[str, Any], command: str | None, caveat: str
) -> None:
    found = command_of(read_run(write_run([], **{**SETTINGS, **change})))
    assert found[0] == command
    assert caveat in found[1]


def test_the_page_holds_everything_that_the_run_wrote_down(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([talk("openai/a", "s1", [5])], **SETTINGS, unknown={"a": [1, 2]})
    habits = {"x/y": {"address": "http://127.0.0.1:8000/v1", "retried": 7, "dropped": {"temperature": 12}}}
    entry = {"started": "2026-01-01T00:00:00+00:00", "endpoints": habits, "new": "field", "absent": None}
    (run / "log.jsonl").write_text(
        json.dumps(entry) + '\nnot json\n{"started": "2026-01-02T00:00:00+00:00", "stopped": "interrupted"}\n'
    )
    page = html.unescape((write_site([run], tmp_path / "site").parent / "settings.html").read_text(encoding="utf-8"))
    for words in ('{"a": [1, 2]}', "f" * 16, "0123456789ab", "http://127.0.0.1:8000/v1", "new: field", '"input": 1.0'):
        assert words in page, words
    assert json.dumps(json.loads((run / "settings.json").read_text()), indent=2) in page
    assert "absent:" not in page, "what a process noted without a value is not listed"


@pytest.mark.parametrize("broken", [{"scenarios": 3}, {"scenarios": ["s1"]}, {"sampling": []}, {"prices": 1}, {"prompts": None}])
def test_settings_of_another_form_are_shown_as_they_are(write_run: WriteRun, broken: dict[str, Any]) -> None:
    assert provenance_of(read_run(write_run([], **{**SETTINGS, **broken})))["raw"]
