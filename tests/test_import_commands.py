"""`heartloop import`: released logs become a run, released profiles a scenario file; wrong input writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.environments.registry import specs
from tests.commands import heartloop, over_http, refused
from tests.faulty_server import FaultyServer
from tests.released_form import course, log, profile, write


def test_every_kind_is_listed_with_its_options(tmp_path: Path) -> None:
    kinds = {line.split()[0]: line for line in heartloop("import", cwd=tmp_path).out.splitlines()}
    assert kinds.keys() == {kind for spec in specs() for kind in spec.importers} | {"sheet"}
    assert "--model, --user" in kinds["sage-logs"]
    assert "Options" not in kinds["sage-profiles"]


def test_logs_become_a_run_with_a_report(tmp_path: Path) -> None:
    # 100, 5 and 45: mean 50, one success, one failure.
    write(tmp_path / "gpt-x.jsonl", [log(0, course(100)), log(1, course(5)), log(0, [40, 45], unjudged=True)])
    done = heartloop("import", "sage-logs", "gpt-x.jsonl", cwd=tmp_path, code=0)
    assert "3 dialogues imported" in done.out
    assert "11 x a thought started with a label" in done.out  # 6 + 4 + 1 judged turns
    assert "1 x the last reply of a dialogue is not judged" in done.out
    assert "unfinished" not in done.out, "one scenario has a repeat that the other lacks, and none was planned"
    run = tmp_path / "runs" / "imported-gpt-x"
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))["models"][0]
    assert (scores["model"], scores["own"]["mean"], scores["own"]["success"], scores["own"]["failure"]) == ("gpt-x", 50.0, 1, 1)
    assert scores["roles"]["policy"] == {"calls": 0, "prompt_tokens": 0, "completion_tokens": 50, "estimated": True}
    assert json.loads((run / "log.jsonl").read_text(encoding="utf-8"))["labels taken off"] == 11
    heartloop("report", "runs/imported-gpt-x", cwd=tmp_path, code=0)
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert "imported" in page
    assert "released" in page
    refused("import", "sage-logs", "gpt-x.jsonl", cwd=tmp_path, said="is not empty; choose another --out")


async def test_profiles_become_scenarios_that_a_simulator_plays(tmp_path: Path) -> None:
    write(tmp_path / "test.jsonl", [profile(0), profile(1)])
    done = heartloop("import", "sage-profiles", "test.jsonl", cwd=tmp_path, code=0)
    assert "2 scenarios written to test-imported.jsonl" in done.out
    words = ("eval", "sage", "--model", "lab/policy", "--scenarios", "test-imported.jsonl", "-E", "max_turns=3", "--out", "run")
    async with FaultyServer() as server:
        await over_http(server, *words, "--user", "lab/person", cwd=tmp_path, code=0)
    transcripts = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert [t.scored for t in transcripts] == [True, True]
    assert {t.opening for t in transcripts} == {profile()["first_talk"]}
    embedded = ("eval", "sage", "--model", "heartloop/assistant", "--user", "embedded", "--scenarios", "test-imported.jsonl")
    refused(*embedded, "--out", "other", cwd=tmp_path, said="the embedded user understands English only")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("import", "sage-log", "people.jsonl"), "the nearest is 'sage-logs'"),
        (("import", "sage-logs"), "needs a source"),
        (("import", "sage-profiles", "people.jsonl", "--limit", "1"), "--limit does not apply to import sage-profiles"),
        (("import", "eibench-scenarios", "people.jsonl"), "holds nothing to import (1 record refused)"),
        (("import", "sage-logs", "broken.jsonl"), "broken.jsonl, line 2: not JSON"),
        (("import", "sage-logs", "people.jsonl"), "use `heartloop import sage-profiles people.jsonl`"),
        (("import", "sage-profiles", "broken.jsonl"), "use `heartloop import sage-logs broken.jsonl`"),
        (("import", "sage-profiles", "people.jsonl", "--out", "broken.jsonl"), "broken.jsonl exists"),
        (("import", "sage-profiles", "empty"), "cannot read empty"),
        (("eval", "sage", "--model", "a/b", "--user", "a/c", "--scenarios", "people.jsonl"), "run `heartloop import"),
    ],
)  # fmt: skip
def test_wrong_input_gets_one_sentence_and_writes_nothing(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "broken.jsonl", [log(0, [40, 45])])
    with (tmp_path / "broken.jsonl").open("a", encoding="utf-8") as file:
        file.write("{not json\n")
    write(tmp_path / "people.jsonl", [profile(0)])
    refused(*words, cwd=tmp_path, said=said)
