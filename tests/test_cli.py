"""The command line: wrong use, and evaluations over HTTP with every fault in turn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import read_transcripts
from heartloop.core.errors import EnvironmentBroken
from heartloop.environments.sage.scenario import load_scenarios
from tests.commands import KEY, LAB, files_with, heartloop, over_http
from tests.faulty_server import FaultyServer

EMBEDDED = ("eval", "sage", "--user", "embedded", "--model", "heartloop/reflector")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "mars", "--user", "embedded", "--model", "heartloop/assistant"), "'mars'"),
        (("eval", "sage", "--model", "heartloop/assistant"), "--user"),
        (("eval", "sage", "--model", "heartloop/assistant", "--user", "robot"), "'robot'"),
        (("eval", "sage", "--model", "heartloop/assistant", "--user", "embeded"), "--user is 'embeded'"),
        (("eval", "sage", "--model", "heartloop/assistant", "--user", "embeded"), "the nearest is 'embedded'"),
        (("eval", "empa", "--model", "heartloop/assistant", "--user", "embedded", "--judge", "embeded"), "--judge is 'embeded'"),
        ((*EMBEDDED, "--role", "user=embedded", "--role", "user=lab/x"), "user"),
        ((*EMBEDDED, "--simulator", "lab/x"), "--simulator"),
        (("eval", "sage", "--model", "heartloop/nobody", "--user", "embedded"), "heartloop/nobody"),
        (("eval", "sage", "--model", "nowhere/model", "--user", "embedded"), "NOWHERE_BASE_URL"),
        (("eval", "sage", "--model", "openai/gpt-4.1", "--user", "embedded"), "OPENAI_API_KEY"),
        (("eval", "sage", "--model", "gpt", "--user", "embedded"), "expected service/model"),
        (("eval", "sage", "--model", "python:nothing_here:reply", "--user", "embedded"), "no module 'nothing_here'"),
        ((*EMBEDDED, "--model", "heartloop/reflector"), "twice"),
        ((*EMBEDDED, "--scenarios", "mars"), "'mars'"),
        ((*EMBEDDED, "--exclude-tag", "weather"), "'weather'"),
        ((*EMBEDDED, "--tag", "weather"), "'weather'"),
        ((*EMBEDDED, "--scenario", "support-lisen-01"), "the nearest is 'support-listen-01'"),
        ((*EMBEDDED, "--scenario", "support-listen-01", "--scenario", "chat-interest-01"), "several sets"),
        ((*EMBEDDED, "--scenario", "support-listen-01", "--limit", "1"), "--limit"),
        ((*EMBEDDED, "-E", "preset=best"), "'best'"),
        ((*EMBEDDED, "-E", "max_connections=4"), "--max-connections"),
        ((*EMBEDDED, "--request", "user.seed=1"), "user is embedded"),
        ((*EMBEDDED, "--shard", "9/8"), "--shard"),
        ((*EMBEDDED, "--request", "policy.temperature=0.5"), "takes only seed"),
        (("eval", "sage", "--model", "ollama/a", "--user", "embedded", "--max-cost", "0"), "--max-cost"),
        ((*EMBEDDED, "--repeats", "0"), "--repeats"),
        ((*EMBEDDED, "--max-tokens", "0"), "--max-tokens"),
        ((*EMBEDDED, "--prices", "no-such-file.toml"), "no-such-file.toml"),
        ((*EMBEDDED, "--out", "file/run"), "file/run"),
        ((*EMBEDDED, "--out", "full"), "settings.json"),
        (("report", "nothing"), "nothing"),
        (("report", "full"), "full"),
        (("scenarios", "show", "sage", "support-listen-99"), "'support-listen-99'"),
        (("scenarios", "list", "broken.jsonl"), "broken.jsonl, line 2"),
        (("scenarios", "list", "schema.jsonl"), "schema.jsonl, line 1, goal"),
        (("scenarios", "list", "empty.jsonl"), "empty.jsonl"),
        (("check", "mars"), "'mars'"),
        (("environments", "show", "mars"), "'mars'"),
    ],
)  # fmt: skip
def test_wrong_use_gets_one_sentence_and_exit_code_2(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    record = load_scenarios()[0].model_dump(mode="json")
    (tmp_path / "broken.jsonl").write_text(f"{json.dumps(record)}\n{{not json\n")
    (tmp_path / "schema.jsonl").write_text(json.dumps({k: v for k, v in record.items() if k != "goal"}) + "\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    before = sorted(tmp_path.rglob("*"))
    done = heartloop(*words, cwd=tmp_path)
    assert done.code == 2, done
    assert said in done.err.replace("\n", " ")
    assert sorted(tmp_path.rglob("*")) == before


def test_scenarios_are_chosen_by_id_and_tag_and_a_limit_above_the_set_is_said(tmp_path: Path) -> None:
    ids = ["support-praise-08", "support-listen-01"]
    heartloop(*EMBEDDED, "--scenario", ids[0], "--scenario", ids[1], "--out", "ids", cwd=tmp_path)
    settings = json.loads((tmp_path / "ids" / "settings.json").read_text())
    assert (list(settings["scenarios"]), settings["scenario_set"]) == (ids, "support")
    done = heartloop(*EMBEDDED, "--tag", "illness", "--limit", "999", "--out", "tag", cwd=tmp_path)
    tagged = [one.id for one in load_scenarios("support") if "illness" in one.tags]
    assert list(json.loads((tmp_path / "tag" / "settings.json").read_text())["scenarios"]) == tagged
    assert "--limit 999" in done.err
    assert f"all {len(tagged)}" in done.err


def test_check_of_a_broken_environment_ends_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Mock(side_effect=EnvironmentBroken("the rewards do not add up"))
    monkeypatch.setattr("heartloop.environments.check.check_environment", broken)
    done = CliRunner().invoke(app, ["check", "sage"])
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "heartloop: the rewards do not add up\n")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, heartloop\n"
        "print([m for m in sys.modules if m.startswith('heartloop.')])\n"
        "import heartloop.cli.main\n"
        "print([m for m in ('pydantic', 'numpy', 'scipy', 'aiohttp', 'pandas', 'jinja2', 'sklearn', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


MENDED = [
    "rate_limit:3", "drop:3", "truncated_json:3", "error_in_200:2", "no_schema", "no_usage", "reasoning", "thinking@policy",
    "refusal@policy", "silence", "length@policy", "null_content@policy", "bad_json:2", "out_of_range:2", "speaks_for_npc:2",
    "length@user:2", "timeout:1",
]  # fmt: skip
"""One of each kind; all that a client meets are in tests/test_chat.py."""
BROKEN = {
    "unauthorized": ("policy", "RefusedByServer"),
    "unknown_model@policy": ("policy", "RefusedByServer"),
    "html@user": ("user", "MalformedReply"),
    "timeout@user": ("user", "TransportError"),
    "bad_json": ("user", "AnswerError"),
    "out_of_range": ("user", "AnswerError"),
    "length@user": ("user", "AnswerError"),
}


@pytest.mark.parametrize("fault", MENDED)
async def test_a_passing_fault_costs_no_dialogue(fault: str, tmp_path: Path) -> None:
    async with FaultyServer(fault, retry_after="0") as server:
        done = await over_http(server, *LAB, "--timeout", "2", cwd=tmp_path)
        assert server.fired, "the fault was never shown"
    assert done.code == 0, done
    played = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert [t.scored for t in played] == [True] * 4
    if fault in ("silence", "null_content@policy"):
        assert all(turn.silent for t in played for turn in t.turns)


@pytest.mark.parametrize("fault", list(BROKEN))
async def test_a_lasting_fault_leaves_dialogues_unscored_with_their_cause(fault: str, tmp_path: Path) -> None:
    async with FaultyServer(fault, retry_after="0") as server:
        done = await over_http(server, *LAB, "--timeout", "0.3", "--retries", "1", cwd=tmp_path)
    assert done.code == 1, done
    played = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert len(played) == 2, "a pilot of which every dialogue failed ends the run"
    for transcript in played:
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.kind) == BROKEN[fault]
        assert transcript.score is None
        assert transcript.stop == "failed"
    assert "every dialogue of the pilot failed" in done.err
    assert f"2 x {BROKEN[fault][0]}, {BROKEN[fault][1]}: " in done.err
    assert "100.0% of the dialogues are unscored" in done.err
    assert KEY not in done.out + done.err
    assert files_with(KEY, tmp_path) == []


async def test_the_run_goes_on_beside_what_failed_and_retries_it_only_when_asked(tmp_path: Path) -> None:
    async with FaultyServer("bad_json:3") as server:  # the first dialogue's first appraisal, three times
        first = await over_http(server, *LAB, "--max-connections", "1", cwd=tmp_path)
        assert first.code == 1
        assert "1 failed" in first.out
        again = await over_http(server, *LAB, cwd=tmp_path)
        assert again.code == 1
        assert "0 dialogues played" in again.out
        retried = await over_http(server, *LAB, "--retry-failed", cwd=tmp_path)
        assert retried.code == 0, retried
        assert "1 dialogue played" in retried.out


async def test_a_token_limit_stops_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        words = (*LAB, "--max-connections", "1")
        stopped = await over_http(server, *words, "--max-tokens", "12000", cwd=tmp_path)
        assert stopped.code == 1
        assert "--max-tokens 12000 is too low for another dialogue" in stopped.err
        kept = len(list(read_transcripts(tmp_path / "run" / "transcripts.jsonl")))
        assert kept < 4
        higher = await over_http(server, *words, "--max-tokens", "10000000", cwd=tmp_path)
        assert higher.code == 0, higher
        assert f"{4 - kept} dialogues played" in higher.out


async def test_a_dot_env_file_names_the_endpoint(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        (tmp_path / ".env").write_text(f"HOME_LAB_BASE_URL={server.base_url}\nHOME_LAB_API_KEY={KEY}\n")
        done = await over_http(
            server, "eval", "sage", "--yes", "--model", "home-lab/x", "--user", "embedded", "--limit", "1", cwd=tmp_path
        )
    assert done.code == 0, done


def test_the_same_command_resumes_and_gives_the_same_transcripts(tmp_path: Path) -> None:
    words = (*EMBEDDED, "--model", "heartloop/fixer", "--limit", "3")
    first = heartloop(*words, cwd=tmp_path)
    assert first.code == 0, first
    (run,) = (tmp_path / "runs").iterdir()
    before = (run / "transcripts.jsonl").read_bytes()
    again = heartloop(*words, cwd=tmp_path)
    assert "0 dialogues played" in again.out
    assert (run / "transcripts.jsonl").read_bytes() == before
    mixed = heartloop(*words, "--out", str(run), "-E", "preset=released", cwd=tmp_path)
    assert (mixed.code, "options.preset" in mixed.err) == (2, True)
    other = heartloop(*words, "--out", "other", cwd=tmp_path)
    assert other.code == 0

    def body(path: Path) -> list[dict[str, Any]]:
        rows = [t.model_dump(exclude={"seconds"}) for t in read_transcripts(path / "transcripts.jsonl")]
        return sorted(rows, key=lambda row: (row["model"], row["scenario"], row["repeat"]))

    assert body(run) == body(tmp_path / "other")


def test_a_python_function_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "my_agent.py").write_text(
        "def reply(messages):\n    return 'What happened then? ' + messages[-1]['content'][:20]\n"
    )
    done = heartloop("eval", "sage", "--user", "embedded", "--model", "python:my_agent:reply", "--limit", "2", cwd=tmp_path)
    assert done.code == 0, done
