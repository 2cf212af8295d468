"""`heartloop eval --config` and `--policy-prompt`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main

import heartloop
from heartloop.cli.main import app
from heartloop.core.dialogue import read_transcripts
from heartloop.environments.episode import OWN_PROMPT
from heartloop.environments.registry import load_environment, specs
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.provenance import command_of
from tests.commands import heartloop as command
from tests.commands import refused
from tests.eqbench_checkout import write_checkout

ENVIRONMENTS = [spec.name for spec in specs()]


def dialogues(run: Path) -> list[Mapping[str, Any]]:
    return [one.model_dump(exclude={"seconds"}) for one in read_transcripts(run / "transcripts.jsonl")]


def scenarios_of(environment: str, folder: Path) -> str:
    return next(iter(load_environment(environment).scenarios.sets), "") or str(write_checkout(folder / "checkout"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_settings_of_a_finished_run_play_it_again(environment: str, tmp_path: Path) -> None:
    words = ("--user", "embedded", "--model", "heartloop/reflector", "--limit", "1", "--seed", "3", "--repeats", "2")
    command("eval", environment, *words, "--scenarios", scenarios_of(environment, tmp_path), "--out", "a", cwd=tmp_path, code=0)
    again = command("eval", "--config", "a/settings.json", "--out", "b", cwd=tmp_path, code=0)
    assert "a/settings.json" not in again.err, "nothing has changed since"
    assert dialogues(tmp_path / "a") == dialogues(tmp_path / "b")
    assert (tmp_path / "a" / "settings.json").read_bytes() == (tmp_path / "b" / "settings.json").read_bytes()


def settings(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "settings.json").read_text()))


def test_options_win_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "environment: sage\nmodel: [heartloop/silent, heartloop/reflector]\nuser: embedded\n"
        "option: {max_turns: 3, preset: released}\nlimit: 2\nseed: 4\ntag: illness\n",
        encoding="utf-8",
    )
    command("eval", "--config", "run.yaml", "--out", "plain", cwd=tmp_path, code=0)
    found = settings(tmp_path / "plain")
    assert (found["models"], found["seed"], found["limit"]) == (["heartloop/silent", "heartloop/reflector"], 4, 2)
    assert found["tags"] == ["illness"]
    assert (found["options"]["max_turns"], found["options"]["preset"]) == (3, "released")
    chosen = next(iter(found["scenarios"]))
    words = ("-E", "max_turns=2", "--model", "heartloop/silent", "--seed", "0", "--scenario", chosen)
    command("eval", "--config", "run.yaml", *words, "--out", "over", cwd=tmp_path, code=0)
    found = settings(tmp_path / "over")
    assert (found["models"], found["seed"], found["limit"]) == (["heartloop/silent"], 0, None)
    assert list(found["scenarios"]) == [chosen]
    assert (found["options"]["max_turns"], found["options"]["preset"]) == (2, "released")


def test_roles_of_the_command_line_win_by_name(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "environment: empa\nmodel: heartloop/silent\nrole: {user: embedded, judge: embedded, director: embedded}\nlimit: 1\n",
        encoding="utf-8",
    )
    assert command("eval", "--config", "run.yaml", "--out", "a", "-E", "max_turns=2", cwd=tmp_path).code == 0
    for words, said in ((("--role", "director=nobody"), "director"), (("--user", "nobody"), "--user")):
        refused("eval", "--config", "run.yaml", *words, "--out", "b", cwd=tmp_path, said=said)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("environment: sage\nmodels: [heartloop/silent]\n", ("line 2", "'models'", "'model'")),
        ("environment: sage\nmodel: []\n", ("--model", "--config")),
        ("environment: sage\nmodel: heartloop/silent\nrepeats: 0\nuser: embedded\n", ("line 3, repeats is 0",)),
        ("- sage\n", ("str", "mapping")),
        ("environment: sage\nseed: 1\nseed: 2\n", ("line 3, seed", "twice")),
        ("", ("0 records", "mapping")),
        ("model: [heartloop/silent]\n", ("environment", "--config")),
        ("environment: sage\n", ("--model", "--config")),
        ("environment: sage\nheartloop_version: 1\nrejudged: {}\n", ("rejudged", "played")),
        ("environment: sage\nheartloop_version: '1'\nrepeats: 0\n", ("line 1, models", "missing")),
        ("environment: sage\nlimit: true\n", ("line 2, limit is true; expected a whole number",)),
        ("environment: sage\nlimit: six\n", ("line 2, limit is 'six'; expected a whole number",)),
        ("environment: sage\nlimit: 0\n", ("line 2, limit is 0; expected at least 1",)),
        ("environment: sage\nlimit: [1, 2]\n", ("line 2, limit is [1, 2]",)),
        ("environment: sage\nconfig: other.yaml\n", ("line 2", "unknown key 'config'")),
        (
            "environment: sage\nmodel: heartloop/silent\nuser: embedded\nrequest: {user.temperature: 1}\n",
            ("user.temperature=1", "embedded"),
        ),
        ("environment: sage\nmodel: heartloop/silent\nuser: embedded\nshard: 9/8\n", ("shard", "9/8")),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
    refused("eval", "--config", "run.yaml", cwd=tmp_path, said=parts)


def test_what_is_otherwise_than_in_the_finished_run_is_told(tmp_path: Path) -> None:
    words = ("--user", "embedded", "--model", "heartloop/silent", "--limit", "2", "-E", "max_turns=2")
    assert command("eval", "sage", *words, "--out", "a", cwd=tmp_path).code == 0
    found = settings(tmp_path / "a")
    first, *_ = found["scenarios"]
    found["scenarios"][first] = "another"
    found["prompts"] = dict.fromkeys(found["prompts"], "0" * 12)
    (tmp_path / "a" / "settings.json").write_text(json.dumps(found))
    again = command("eval", "--config", "a/settings.json", "--out", "b", cwd=tmp_path, code=0)
    assert first in again.err
    assert "000000000000" in again.err


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_policy_prompt_reaches_models_in_every_environment_and_changes_no_baseline(
    environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[list[dict[str, str]]] = []

    def policy(messages: list[dict[str, str]]) -> str:
        heard.append(messages)
        return "I hear you."

    given: dict[str, Any] = {"user": "embedded", "limit": 1, "progress": False, "scenarios": scenarios_of(environment, tmp_path)}
    plain = heartloop.evaluate(environment, ["heartloop/reflector"], **given, out="plain")
    own = heartloop.evaluate(environment, ["heartloop/reflector", policy], **given, policy_prompt="Be brief.", out="own")
    assert {(messages[0]["role"], messages[0]["content"]) for messages in heard} == {("system", "Be brief.")}
    assert own.settings["policy_prompt"] == "Be brief."
    assert [name for name in own.transcripts[-1].prompts if name.startswith("policy")] == [OWN_PROMPT]
    baseline = [one for one in own.transcripts if one.model == "heartloop/reflector"]
    drop = {"seconds"}
    assert [one.model_dump(exclude=drop) for one in baseline] == [one.model_dump(exclude=drop) for one in plain.transcripts]
    assert all(OWN_PROMPT in one.prompts for one in own.transcripts if one.model != "heartloop/reflector")


def test_the_command_reads_a_policy_prompt_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompt.md").write_text("Be brief.\n", encoding="utf-8")
    (tmp_path / "policy_of_a_file.py").write_text("def reply(messages):\n    return 'I hear you.'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = "python:policy_of_a_file:reply"
    words = ("eval", "sage", "--user", "embedded", "--model", model, "--limit", "1", "-E", "max_turns=2")
    assert command(*words, "--policy-prompt", "prompt.md", "--out", "a", cwd=tmp_path).code == 0
    line, _ = command_of(read_run(tmp_path / "a"))
    assert line is not None
    command(*shlex.split(line)[1:], "--out", "b", cwd=tmp_path, code=0)
    assert settings(tmp_path / "b") == settings(tmp_path / "a")
    assert command(*words, "--out", "c", cwd=tmp_path).code == 0
    assert len(comparable([read_run(tmp_path / "a"), read_run(tmp_path / "c")])) == 2, "not pooled in a report"
    command("export", "a", "--to", "sft", "--best-of", "1", "--out", "sft", cwd=tmp_path, code=0)
    assert "Be brief." in "".join(path.read_text() for path in (tmp_path / "sft").rglob("*.jsonl"))
    (tmp_path / "prompt.md").write_text(" \n", encoding="utf-8")
    refused(*words, "--policy-prompt", "prompt.md", "--out", "d", cwd=tmp_path, said="prompt.md is empty")


EVAL: Any = typer.main.get_command(app).commands["eval"]  # type: ignore[attr-defined]

IN_A_FILE: dict[str, tuple[str, list[str]]] = {
    "environment": ("sage", ["sage"]),
    "model": ("[a/b, c/d]", ["--model", "a/b", "--model", "c/d"]),
    "user": ("embedded", ["--user", "embedded"]),
    "judge": ("a/b", ["--judge", "a/b"]),
    "role": ("{user: a/b}", ["--role", "user=a/b"]),
    "option": ('{max_turns: 3, roles: ["x"]}', ["-E", "max_turns=3", "-E", 'roles=["x"]']),
    "scenarios": ("mine.jsonl", ["--scenarios", "mine.jsonl"]),
    "scenario": ("[a]", ["--scenario", "a"]),
    "tag": ("[no, 12:30]", ["--tag", "no", "--tag", "12:30"]),
    "exclude_tag": ("grief", ["--exclude-tag", "grief"]),
    "limit": ("3", ["--limit", "3"]),
    "repeats": ("2", ["--repeats", "2"]),
    "seed": ("5", ["--seed", "5"]),
    "shard": ("1/2", ["--shard", "1/2"]),
    "request": ("{policy.temperature: 0.5}", ["--request", "policy.temperature=0.5"]),
    "policy_prompt": ("p.md", ["--policy-prompt", "p.md"]),
    "out": ("there", ["--out", "there"]),
    "report": ("false", ["--no-report"]),
    "timeout": ("9", ["--timeout", "9"]),
    "retries": ("0", ["--retries", "0"]),
    "max_cost": ("1.5", ["--max-cost", "1.5"]),
    "max_tokens": ("1000", ["--max-tokens", "1000"]),
    "prices": ("p.toml", ["--prices", "p.toml"]),
    "max_connections": ("4", ["--max-connections", "4"]),
    "cache": ("c.sqlite", ["--cache", "c.sqlite"]),
    "pilot": ("true", ["--pilot"]),
    "yes": ("true", ["--yes"]),
    "retry_failed": ("true", ["--retry-failed"]),
    "ray": ("auto", ["--ray", "auto"]),
}


def test_every_option_of_the_command_has_a_key_of_its_name() -> None:
    assert sorted(IN_A_FILE) == sorted(one.name for one in EVAL.params if one.name != "config")


@pytest.mark.parametrize("name", IN_A_FILE)
def test_a_key_does_what_its_option_does(name: str, tmp_path: Path) -> None:
    value, words = IN_A_FILE[name]
    (tmp_path / "run.yaml").write_text(f"{name}: {value}\n", encoding="utf-8")
    from_file = EVAL.make_context("eval", ["--config", str(tmp_path / "run.yaml")]).params
    assert from_file == EVAL.make_context("eval", words).params
    assert from_file[name] != EVAL.make_context("eval", []).params[name], "the option changes something"
