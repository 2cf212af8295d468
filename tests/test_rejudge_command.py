"""`heartloop rejudge` over HTTP: only the judge is called, a rerun resumes, faults leave dialogues unscored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop import evaluate
from heartloop.core.dialogue import Transcript, read_transcripts, write_line
from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.evaluation.rescoring import Rejudging
from tests.commands import KEY, LAB, files_with, heartloop, over_http, refused
from tests.faulty_server import FaultyServer
from tests.released_form import course, log, write

JUDGE = ("rejudge", "run", "--judge", "lab/judge", "--yes")


def dialogues(run: Path) -> dict[tuple[str, str, int], Transcript]:
    return {t.key: t for t in read_transcripts(run / "transcripts.jsonl")}


async def test_only_the_judge_is_called_and_the_source_stays(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        assert (await over_http(server, *LAB, cwd=tmp_path)).code == 0
        before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
        server.requests.clear()
        words = (*JUDGE, "--request", "judge.temperature=0.25", "--report")
        done = await over_http(server, *words, cwd=tmp_path, code=0)
        asked = list(server.requests)
        again = await over_http(server, *words, cwd=tmp_path, code=0)
        assert "0 dialogues judged" in again.out
        assert "4 finished before" in again.out
        assert len(server.requests) == len(asked)
    assert {(r.part, r.body["model"], r.body["temperature"]) for r in asked} == {("feel", "judge", 0.25)}
    assert {path: path.read_bytes() for path in before} == before
    old, new = dialogues(tmp_path / "run"), dialogues(tmp_path / "run-judged-lab-judge")
    assert old.keys() == new.keys()
    assert len(asked) == sum(turn.state is not None for t in new.values() for turn in t.turns)
    for key, read in new.items():
        assert [turn.reply for turn in read.turns] == [turn.reply for turn in old[key].turns[: len(read.turns)]]
        assert read.usage["judge"].total > 0
    assert "lab/judge against lab/person, on 4 dialogues scored by both:" in done.out
    settings = json.loads((tmp_path / "run-judged-lab-judge" / "settings.json").read_text())
    source = settings["rejudged"]
    assert (source["from"], source["user"], settings["roles"]) == ("run", "lab/person", {"judge": "lab/judge"})
    both = heartloop("compare", "run", "run-judged-lab-judge", cwd=tmp_path, code=0)
    warnings = [line for line in both.out.splitlines() if line.startswith("!")]
    named = [line.split()[1:3] for line in warnings if "lab/person" in line or "rejudged" in line]
    assert named == [["The", "judge"], ["B", "was"]]
    assert not any("user simulator" in line for line in warnings)
    assert "Rejudged: another" in (tmp_path / "run-judged-lab-judge" / "report" / "index.html").read_text()
    refused("rejudge", "run-judged-lab-judge", "--judge", "embedded", cwd=tmp_path, said="is a rejudged run")


def test_a_line_that_a_later_one_replaces_need_not_be_readable(tmp_path: Path) -> None:
    evaluate("sage", "heartloop/silent", user="embedded", limit=1, out=tmp_path / "run", progress=False)
    file = tmp_path / "run" / "transcripts.jsonl"
    (played,) = read_transcripts(file)
    lines = [write_line(played.model_copy(update={"fingerprint": "of another text"})), write_line(played)]
    file.write_text("".join(lines))
    judge = load_environment("sage").judge()
    assert len(Rejudging(tmp_path / "run", judge).jobs) == 1
    file.write_text("".join(reversed(lines)))
    with pytest.raises(InputError, match="has changed since the run"):
        Rejudging(tmp_path / "run", judge)


async def test_a_pilot_estimates_the_judging_of_all_dialogues_that_the_run_is_to_have(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["lab/policy"]\ninput = 1\noutput = 1\n["lab/judge"]\ninput = 1\noutput = 1\n')
    words = (*(word for word in LAB if word != "--yes"), "--pilot", "--prices", "prices.toml")
    async with FaultyServer() as server:
        await over_http(server, *words, cwd=tmp_path, code=0)
        stored = len(dialogues(tmp_path / "run"))
        done = await over_http(server, *JUDGE[:-1], "--pilot", "--prices", "prices.toml", cwd=tmp_path, code=0)
        further = await over_http(server, *JUDGE, "--prices", "prices.toml", cwd=tmp_path)
    judged = dialogues(tmp_path / "run-judged-lab-judge")
    assert (stored, len(judged)) == (2, 2)
    calls = sum(call.role == "judge" for one in judged.values() for call in one.calls)
    assert f"Pilot: 2 more dialogues will take about {calls} calls" in done.err
    assert "0 dialogues judged" in further.out


async def test_the_same_judge_with_the_same_cache_is_free_and_finds_the_same(tmp_path: Path) -> None:
    words = ("rejudge", "run", "--judge", "lab/person", "--cache", "kept.sqlite", "--max-tokens", "1")
    async with FaultyServer() as server:
        assert (await over_http(server, *LAB, "--cache", "kept.sqlite", cwd=tmp_path)).code == 0
        asked = len(server.requests)
        done = await over_http(server, *words, cwd=tmp_path, code=0)
        assert len(server.requests) == asked
    assert "mean difference +0.0" in done.out
    old, new = dialogues(tmp_path / "run"), dialogues(tmp_path / "run-judged-lab-person")
    assert {key: t.score for key, t in old.items()} == {key: t.score for key, t in new.items()}


async def test_a_judge_who_fails_leaves_dialogues_unscored(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        assert (await over_http(server, *LAB, cwd=tmp_path)).code == 0
    async with FaultyServer("bad_json:3") as server:
        done = await over_http(server, *JUDGE, "--max-connections", "1", cwd=tmp_path, code=1)
        assert "1 x judge: lab/judge answered" in done.err
        await over_http(server, *JUDGE, "--retry-failed", cwd=tmp_path, code=0)
    async with FaultyServer() as server:
        (tmp_path / "prices.toml").write_text('["lab/judge"]\ninput = 1.0\noutput = 1.0\n')
        dear = (*JUDGE, "--max-connections", "1", "--prices", "prices.toml", "--out", "dear")
        for _ in range(2):  # the policy has no price and needs none, when the run is resumed as well
            spent = await over_http(server, *dear, "--max-cost", "0.014", cwd=tmp_path, code=1)
            assert "--max-cost 0.014" in spent.err
        assert len(dialogues(tmp_path / "dear")) < 4
    assert files_with(KEY, tmp_path) == []


async def test_imported_dialogues_are_read_by_a_model(tmp_path: Path) -> None:
    write(tmp_path / "gpt-x.jsonl", [log(0, course(100)), log(1, course(5)), log(2, [40, 45], unjudged=True)])
    assert heartloop("import", "sage-logs", "gpt-x.jsonl", "--out", "run", cwd=tmp_path).code == 0
    async with FaultyServer() as server:
        await over_http(server, *JUDGE, "-E", "preset=corrected", cwd=tmp_path, code=0)
        assert "渡船停了三周" in server.bodies[0]["messages"][0]["content"]
    found = dialogues(tmp_path / "run-judged-lab-judge-corrected")
    assert all(t.scored for t in found.values())
    assert all(turn.state is not None for t in found.values() for turn in t.turns), "the unjudged reply was judged"
    assert {tuple(t.usage) for t in found.values()} == {("judge",)}
    refused("rejudge", "run", "--judge", "embedded", cwd=tmp_path, said="the embedded user understands English only")
    (tmp_path / "run" / "raw.jsonl").write_text("{}\n")
    nowhere = {"LAB_BASE_URL": "http://127.0.0.1:9/v1", "LAB_API_KEY": KEY}
    words = ("rejudge", "run", "--judge", "lab/judge")
    refused(*words, cwd=tmp_path, said="raw.jsonl, line 1: not scenario 0000-0000", **nowhere)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rejudge")
    words = ("eval", "sage", "--user", "embedded", "--model", "heartloop/silent", "--limit", "2", "--out", "run")
    assert heartloop(*words, "-E", "preset=released", cwd=folder).code == 0
    assert heartloop("rescore", "run", "-E", "preset=released", cwd=folder).code == 0
    (folder / "empty").mkdir()
    (folder / "empty" / "settings.json").write_text((folder / "run" / "settings.json").read_text())
    (folder / "empty" / "transcripts.jsonl").touch()
    changed = [scenario.model_copy(update={"title": "Another title"}) for scenario in load_scenarios("support")]
    (folder / "changed.jsonl").write_text("".join(scenario.model_dump_json() + "\n" for scenario in changed))
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("empty", "--judge", "embedded"), "empty"),
        (("run-released", "--judge", "embedded"), "rescored"),
        (("run", "--judge", "heartloop/reflector"), "heartloop/reflector"),
        (("run", "--judge", "embedded", "-E", "max_turns=4"), "max_turns"),
        (("run", "--judge", "embedded", "--request", "policy.seed=1"), "policy.seed=1"),
        (("run", "--judge", "embedded", "--scenarios", "chat"), "chat"),
        (("run", "--judge", "embedded", "--scenarios", "changed.jsonl"), "fingerprint"),
        (("run", "--judge", "embedded", "--out", "run"), "rejudged"),
    ],
)
def test_wrong_use_gets_one_sentence_and_exit_code_2(place: Path, words: tuple[str, ...], said: str) -> None:
    refused("rejudge", *words, cwd=place, said=said)
