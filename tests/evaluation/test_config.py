"""`heartloop eval --config` and `--policy-prompt`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import heartloop
from heartloop.core.dialogue import read_transcripts
from heartloop.environments.episode import OWN_PROMPT
from heartloop.environments.registry import load_environment, specs
from heartloop.evaluation.settings import Shard, read_config
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
        "environment: sage\nmodels: [heartloop/silent, heartloop/reflector]\nroles: {user: embedded}\n"
        "options: {max_turns: 3, preset: released}\nlimit: 2\nseed: 4\ntags: [illness]\n",
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
        "environment: empa\nmodels: [heartloop/silent]\nroles: {user: embedded, judge: embedded, director: embedded}\nlimit: 1\n",
        encoding="utf-8",
    )
    assert command("eval", "--config", "run.yaml", "--out", "a", "-E", "max_turns=2", cwd=tmp_path).code == 0
    for words, said in ((("--role", "director=nobody"), "director"), (("--user", "nobody"), "--user")):
        refused("eval", "--config", "run.yaml", *words, "--out", "b", cwd=tmp_path, said=said)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("environment: sage\nmodel: [heartloop/silent]\n", ("line 2", "'model'", "'models'")),
        ("environment: sage\nmodels: []\n", ("line 2, models", "at least 1")),
        ("environment: sage\nmodels: [heartloop/silent]\nrepeats: 0\nroles: {user: embedded}\n", ("line 3, repeats", "0")),
        ("- sage\n", ("str", "mapping")),
        ("environment: sage\nseed: 1\nseed: 2\n", ("line 3, seed", "twice")),
        ("", ("0 records", "mapping")),
        ("models: [heartloop/silent]\n", ("environment", "--config")),
        ("environment: sage\n", ("--model", "--config")),
        ("environment: sage\nmodels: [heartloop/silent]\nrejudged: {}\n", ("rejudged", "played")),
        (
            "environment: sage\nmodels: [heartloop/silent]\nroles: {user: embedded}\nsampling: {user: {temperature: 1}}\n",
            ("user.temperature=1.0", "embedded"),
        ),
        ("environment: sage\nmodels: [heartloop/silent]\nroles: {user: embedded}\nshard: 9/8\n", ("shard", "9/8")),
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


def test_words_of_yaml_stay_texts_and_a_shard_may_be_written_as_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("exclude_tags: [no, 12:30]\nshard: 1/2\n", encoding="utf-8")
    read = read_config(tmp_path / "run.yaml")
    assert (read["exclude_tags"], read["shard"]) == (("no", "12:30"), Shard(index=1, count=2))
