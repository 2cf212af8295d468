"""The command line: wrong use, evaluations over HTTP with every fault in turn, and commands on finished runs."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
import typer.main
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.cli.running import say
from heartloop.core.dialogue import read_transcripts
from heartloop.core.errors import EnvironmentBroken
from heartloop.environments.registry import specs
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.evaluation.store import stored_transcripts
from heartloop.training.recipe import recipe_names
from tests.commands import KEY, LAB, environment, files_with, heartloop, over_http, refused
from tests.faulty_server import FaultyServer
from tests.write_docs import contexts

SLOW = """
import asyncio
from pathlib import Path

async def reply(messages):
    Path("asked").touch()
    await asyncio.sleep(60)
"""
EMBEDDED = ("eval", "sage", "--user", "embedded", "--model", "heartloop/reflector")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "mars", "--user", "embedded", "--model", "heartloop/assistant"), "'mars'"),
        (("eval", "sage", "--model", "heartloop/assistant"), "--user"),
        (("eval", "sage", "--model", "heartloop/assistant", "--user", "embeded"), "the nearest is 'embedded'"),
        (("eval", "empa", "--model", "heartloop/assistant", "--user", "embedded", "--judge", "embeded"), "--judge is 'embeded'"),
        ((*EMBEDDED, "--simulator", "lab/x"), "--simulator"),
        (("eval", "sage", "--model", "heartloop/nobody", "--user", "embedded"), "heartloop/nobody"),
        (("eval", "sage", "--model", "openai/gpt-4.1", "--user", "embedded"), "OPENAI_API_KEY"),
        (("eval", "sage", "--model", "mine", "--user", "embedded"), "expected service/model"),
        (("eval", "sage", "--model", "gpt-4o", "--user", "embedded"), "'openai/gpt-4o'"),
        (("eval", "sage", "--model", "heartloop/silent", "--user", "gpt-4o"), "openai/gpt-4o"),
        (("eval", "sage", "--model", "reflector", "--user", "embedded"), "'heartloop/reflector'"),
        (("eval", "sgae", "--model", "heartloop/silent", "--user", "embedded"), "the nearest is 'sage'"),
        (("talk", "sgae"), "no scenario or environment 'sgae'; the nearest is 'sage'"),
        ((*EMBEDDED, "--model", "opneai/gpt-4o"), "the nearest is 'openai'"),
        (("environments", "sgae"), "the nearest is 'sage'"),
        (("scenarios", "check", "sgae"), "the nearest is 'sage'"),
        ((*EMBEDDED, "--scenarios", "mars"), "'mars'"),
        ((*EMBEDDED, "--tag", "weather"), "'weather'"),
        ((*EMBEDDED, "--scenario", "support-listen-01", "--scenario", "chat-interest-01"), "several sets"),
        ((*EMBEDDED, "--scenario", "support-listen-01", "--limit", "1"), "--limit"),
        ((*EMBEDDED, "-E", "max_connections=4"), "--max-connections"),
        ((*EMBEDDED, "--shard", "9/8"), "--shard"),
        ((*EMBEDDED, "--repeats", "0"), "--repeats"),
        ((*EMBEDDED, "--max-tokens", "0"), "--max-tokens"),
        ((*EMBEDDED, "--out", "file/run"), "file/run"),
        ((*EMBEDDED, "--out", "full"), "settings.json"),
        (("report", "nothing"), "nothing"),
        (("scenarios", "list", "broken.jsonl"), "broken.jsonl, line 2"),
        (("scenarios", "list", "schema.jsonl"), "schema.jsonl, line 1, goal"),
        (("scenarios", "list", "empty.jsonl"), "empty.jsonl"),
        (("check", "mars"), "'mars'"),
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
    refused(*words, cwd=tmp_path, said=said)


def test_scenarios_are_chosen_by_id_and_tag_and_a_limit_above_the_set_is_said(tmp_path: Path) -> None:
    ids = ["support-praise-08", "support-listen-01"]
    heartloop(*EMBEDDED, "--scenario", ids[0], "--scenario", ids[1], "--out", "ids", cwd=tmp_path)
    settings = json.loads((tmp_path / "ids" / "settings.json").read_text())
    assert (list(settings["scenarios"]), settings["scenario_set"]) == (ids, "support")
    done = heartloop(*EMBEDDED, "--tag", "illness", "--limit", "999", "--out", "tag", cwd=tmp_path)
    tagged = [one.id for one in load_scenarios("support") if "illness" in one.tags]
    assert list(json.loads((tmp_path / "tag" / "settings.json").read_text())["scenarios"]) == tagged
    assert f"all {len(tagged)}" in done.err


def test_a_bare_group_lists_and_a_name_after_it_shows() -> None:
    def printed(*words: str) -> str:
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    for spec in specs():
        assert f"{spec.name:10} " in printed("environments")
        assert printed("environments", spec.name) == printed("environments", "show", spec.name)
    assert printed("scenarios") == printed("scenarios", "list")
    assert [line.split()[0] for line in printed("train").splitlines()] == recipe_names()


def test_check_of_a_broken_environment_ends_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Mock(side_effect=EnvironmentBroken("the rewards do not add up"))
    monkeypatch.setattr("heartloop.environments.check.check_environment", broken)
    done = CliRunner().invoke(app, ["check", "sage"])
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "heartloop: the rewards do not add up\n")


@pytest.mark.slow
@pytest.mark.parametrize("interrupt", [signal.SIG_DFL, signal.SIG_IGN], ids=["in front", "in the background of a script"])
def test_sigterm_ends_a_command_as_ctrl_c_does(interrupt: signal.Handlers, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("eval", "sage", "--user", "embedded", "--model", "python:slow:reply", "--limit", "1", "--out", "run")
    with subprocess.Popen(
        [sys.executable, "-m", "heartloop.cli", *words], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupt),
    ) as running:  # fmt: skip
        try:
            until = time.monotonic() + 30
            while not (tmp_path / "asked").exists() and time.monotonic() < until:
                time.sleep(0.01)
            running.terminate()
            said = running.communicate(timeout=10)[1]
        finally:
            running.kill()
    assert running.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])


def test_help_groups_the_commands_by_what_they_are_for(tmp_path: Path) -> None:
    found = re.findall(r"^(\w+):\n((?:  .*\n?)+)", heartloop("--help", cwd=tmp_path, code=0).out, re.MULTILINE)
    groups = {panel: re.findall(r"^  (\w+)  ", rows, re.MULTILINE) for panel, rows in found if panel != "Options"}
    assert list(groups) == ["Try", "Measure", "Compare", "Author", "Train"]
    assert groups["Try"] == ["demo", "talk"]
    assert {"train", "student"} == set(groups["Train"])


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
        done = await over_http(server, *LAB, "--timeout", "2", cwd=tmp_path, code=0)
        assert server.fired, "the fault was never shown"
    played = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert [t.scored for t in played] == [True] * 4
    if fault == "timeout:1":
        assert "lab/policy: 1 call sent again (1 x time-out)" in done.err
    if fault in ("silence", "null_content@policy"):
        assert all(turn.silent for t in played for turn in t.turns)


@pytest.mark.parametrize("fault", list(BROKEN))
async def test_a_lasting_fault_leaves_dialogues_unscored_with_their_cause(fault: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["lab/policy"]\ninput = 1.0\noutput = 1.0\n')  # a server of one's own is free without
    async with FaultyServer(fault, retry_after="0") as server:
        many = ("--limit", "16", "--max-connections", "4", "--prices", "prices.toml", "--yes")
        done = await over_http(server, *LAB, *many, "--timeout", "0.3", "--retries", "1", cwd=tmp_path, code=1)
    played = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert 8 <= len(played) < 16, "a run of which the first dialogues fail in the same way stops; those in progress are finished"
    for transcript in played:
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.kind) == BROKEN[fault]
        assert (transcript.score, transcript.stop) == (None, "failed")
    assert "Stopped early: the first 8 dialogues failed" in done.err
    assert f"{len(played)} x {BROKEN[fault][0]}: " in done.err
    assert "100.0% of the dialogues are unscored" in done.err
    assert KEY not in done.out + done.err
    assert files_with(KEY, tmp_path) == []


async def test_a_key_that_is_not_valid_any_more_ends_the_run_as_a_limit_does(tmp_path: Path) -> None:
    async with FaultyServer("unauthorized") as server:
        done = await over_http(server, *LAB, cwd=tmp_path, code=1)
    assert list(stored_transcripts(tmp_path / "run")) == []
    assert "LAB_API_KEY" in done.err
    assert KEY not in done.out + done.err
    assert files_with(KEY, tmp_path) == []


async def test_where_the_token_limit_leaves_only_thinking_one_sentence_says_what_to_set(tmp_path: Path) -> None:
    limit = ("--request", "policy.max_tokens=50")
    async with FaultyServer("only_thinking@policy", retry_after="0") as server:
        done = await over_http(server, *LAB, *limit, cwd=tmp_path, code=0)
    words = " ".join(done.err.split())
    assert words.count("the limit of 50 tokens was used up before the answer") == 1
    assert "--request policy.max_tokens=N" in words
    assert all(turn.silent for t in read_transcripts(tmp_path / "run" / "transcripts.jsonl") for turn in t.turns)
    async with FaultyServer("only_thinking@user", retry_after="0") as server:
        done = await over_http(server, *LAB, "--request", "user.max_tokens=50", "--out", "user", cwd=tmp_path, code=1)
    assert "the limit of 50 tokens was used up before the answer" in " ".join(done.err.split())


EVAL = ("eval", "sage", "--user", "embedded", "--limit", "8", "-E", "max_turns=4")
BOTH = ("--model", "heartloop/reflector", "--model", "heartloop/hostile")


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards with two models, merged."""
    folder = tmp_path_factory.mktemp("runs")
    for index in ("1", "2"):
        assert heartloop(*EVAL, *BOTH, "--limit", "12", "--shard", f"{index}/2", "--out", index, cwd=folder).code == 0
    done = heartloop("merge", "1", "2", "--out", "whole", cwd=folder, code=0)
    assert "24 dialogues of 2 runs." in done.out
    assert "heartloop/reflector" in done.out
    return folder


@pytest.mark.parametrize(
    ("new", "old", "gate", "code"),
    [
        ("hostile", "reflector", ("--worse-than", "5"), 1),
        ("hostile", "reflector", ("--worse-than", "90"), 0),
        ("reflector", "hostile", ("--worse-than", "0"), 0),
    ],
)
def test_compare_is_a_gate(merged: Path, new: str, old: str, gate: tuple[str, ...], code: int) -> None:
    models = ("--model-a", f"heartloop/{old}", "--model-b", f"heartloop/{new}")
    done = heartloop("compare", "whole", *models, *gate, cwd=merged, code=code)
    assert "Paired on 12 dialogues of 12 scenarios" in done.out
    assert "permutation test p 0.0005 (exact, by scenario)" in done.out  # 2 of 2^12
    assert ("Gate: worse." if code == 1 else "Gate: shown not worse.") in done.out
    refused("compare", "whole", *models, "--worse-than", "-1", cwd=merged, said="--worse-than is -1.0")


def test_a_report_of_several_runs_replaces_that_of_none_and_names_them(merged: Path, tmp_path: Path) -> None:
    for run in ("1", "2"):
        shutil.copytree(merged / run, tmp_path / run)
        heartloop("report", run, cwd=tmp_path, code=0)
    own = [(tmp_path / run / "report" / "index.html").read_bytes() for run in ("1", "2")]
    both = heartloop("report", "1", "2", cwd=tmp_path, code=0)
    assert "Report: 1-2-report/index.html" in both.out
    (tmp_path / ".editor").mkdir()
    (tmp_path / ".editor" / "settings.json").write_text("{}")
    collected = heartloop("report", ".", cwd=tmp_path, code=0)
    assert "2 runs: 1, 2\nReport: report/index.html" in collected.out
    assert [(tmp_path / run / "report" / "index.html").read_bytes() for run in ("1", "2")] == own


def test_compare_writes_its_numbers_and_its_gate_and_may_require_that_it_is_shown(merged: Path) -> None:
    words = ("compare", "whole", "--model-a", "heartloop/hostile", "--model-b", "heartloop/reflector", "--json", "numbers.json")
    done = heartloop(*words, "--worse-than", "0", "--require-shown", "--junit", "gate.xml", cwd=merged, code=0)
    written = json.loads((merged / "numbers.json").read_text(encoding="utf-8"))
    assert written["gate"]["passed"]
    assert written["gate"]["reason"] in done.out
    assert ElementTree.parse(merged / "gate.xml").getroot()[0].get("failures") == "0"
    (merged / "gate.xml").unlink()
    heartloop(*words, cwd=merged, code=0)
    assert json.loads((merged / "numbers.json").read_text(encoding="utf-8"))["gate"] is None
    for option in (("--require-shown",), ("--junit", "gate.xml")):
        refused(*words, *option, cwd=merged, said=(option[0], "--worse-than"))
    refused("compare", "whole", *words[2:6], "--json", "missing/numbers.json", cwd=merged, said="missing/numbers.json")


def test_a_bot_that_raises_is_scored_as_silence_and_the_first_cause_is_printed(tmp_path: Path) -> None:
    (tmp_path / "raising_bot.py").write_text("def reply(messages):\n    raise RuntimeError('no database')\n", encoding="utf-8")
    done = heartloop(*EVAL, "--limit", "2", "--model", "python:raising_bot:reply", "--out", "run", cwd=tmp_path, code=1)
    assert "8 of 8 replies failed and are scored as silence" in done.err
    assert "8 of 8 replies of python:raising_bot:reply failed" in done.err.splitlines()[-1]
    assert "no database" in done.err
    transcripts = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert all(t.scored and t.counts["failed replies"] == len(t.turns) for t in transcripts)


def test_rescore_writes_a_run_beside_that_report_and_compare_open(merged: Path) -> None:
    done = heartloop("rescore", "whole", "-E", "preset=released", cwd=merged, code=0)
    assert "Run: whole-released" in done.out
    assert json.loads((merged / "whole-released" / "settings.json").read_text())["rescored"]["from"] == "whole"
    done = heartloop("report", "whole", "whole-released", "--out", "site", cwd=merged, code=0)
    assert (merged / "site" / "measurement-2.html").exists()
    models = ("--model-a", "heartloop/reflector", "--model-b", "heartloop/reflector")
    done = heartloop("compare", "whole", "whole-released", *models, cwd=merged, code=0)
    assert "The preset is corrected in A and released in B" in done.out
    assert "B was rescored" in done.out


def test_a_flag_takes_a_value_in_every_command_or_in_none() -> None:
    kinds: dict[str, set[bool]] = {}
    for context in contexts(typer.main.get_command(app), "heartloop"):
        for option in context.command.params:
            for flag in option.opts:
                kinds.setdefault(flag, set()).add(getattr(option, "is_flag", False))
    assert (kinds["--report"], kinds["--limit"]) == ({True}, {False})
    assert [flag for flag, found in kinds.items() if len(found) > 1] == []


def test_a_token_limit_that_counts_nothing_is_named(tmp_path: Path) -> None:
    done = heartloop(*EMBEDDED, "--limit", "1", "--max-tokens", "5", "--out", "run", cwd=tmp_path, code=0)
    assert "--max-tokens limits nothing here" in done.err


@pytest.mark.parametrize("err", [False, True])
def test_sentences_wrap_at_the_width_of_a_terminal_and_not_in_a_file(
    err: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "Stopped early: one two three four five six.\n  direction of the change: equal after 90 % of 10 replies"
    say(lines, err=err)
    assert capsys.readouterr()[err] == lines + "\n"
    monkeypatch.setattr(sys.stderr if err else sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "24")
    say(lines, err=err)
    shown = capsys.readouterr()[err].splitlines()
    assert max(map(len, shown)) <= 24
    assert " ".join(" ".join(shown).split()) == " ".join(lines.split())
