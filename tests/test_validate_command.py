"""`heartloop validate` over HTTP and with the embedded rules, on EMPA's suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.environments.empa.perturbations import PERTURBATIONS
from heartloop.validity.strategies import GROUPS, LABELS
from tests.commands import KEY, files_with, heartloop, over_http, refused
from tests.faulty_server import FaultyServer

EVAL = ("eval", "empa", "--user", "embedded", "-E", "max_turns=3", "--limit", "2", "--out", "run")
SUITE = ("--suite", "perturbation")
JUDGE = ("validate", "run", *SUITE, "--judge", "lab/judge")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validate")
    assert heartloop(*EVAL, "--model", "heartloop/reflector", cwd=folder).code == 0
    sage = ("eval", "sage", "--user", "embedded", "--model", "heartloop/silent", "--limit", "1", "--out", "sage")
    assert heartloop(*sage, cwd=folder).code == 0
    return folder


def test_with_the_rules_and_again(place: Path) -> None:
    before = {path: path.read_bytes() for path in (place / "run").rglob("*") if path.is_file()}
    words = ("validate", "run", *SUITE, "--judge", "embedded", "--out", "v")
    small = heartloop(*words, "--limit", "1", cwd=place, code=0)
    assert small.out.count("1 dialogue judged") == 5
    more = heartloop(*words, cwd=place, code=0)
    assert more.out.count("1 dialogue judged") == 5
    assert more.out.count("1 finished before") == 5
    assert "persona flipped" in more.out
    record = json.loads((place / "v" / "validity.json").read_text())
    assert record["compared"] == dict.fromkeys(PERTURBATIONS[1:], 2)
    assert (place / "v" / "report" / "index.html").is_file()
    assert {path: path.read_bytes() for path in before} == before
    settings = json.loads((place / "v" / "run" / "persona_flip" / "settings.json").read_text())
    assert (settings["rejudged"]["suite"], settings["rejudged"]["variant"]) == ("perturbation", "persona_flip")


async def test_a_model_judges_twice_a_reply_and_is_the_only_one_called(place: Path) -> None:
    async with FaultyServer() as server:
        await over_http(server, *JUDGE, "--limit", "1", "--out", "asked", cwd=place, code=0)
        await over_http(server, *JUDGE, "--yes", "--out", "m", "--cache", "kept.sqlite", cwd=place, code=0)
        calls = len(server.requests)
        await over_http(server, *JUDGE, "--yes", "--out", "n", "--cache", "kept.sqlite", cwd=place, code=0)
        assert len(server.requests) == calls
        assert {request.part for request in server.requests} == {"feel"}
    read = {variant: list(read_transcripts(place / "m" / "run" / variant / "transcripts.jsonl")) for variant in PERTURBATIONS}
    for found in read.values():
        assert {t.scored for t in found} == {True}
        assert {call.purpose for t in found for call in t.calls if call.role == "judge"} == {"adjudicate", "impression"}
        assert all("direct" in turn.evidence for t in found for turn in t.turns)
    assert (place / "m" / "validity.json").read_bytes() == (place / "n" / "validity.json").read_bytes()
    assert files_with(KEY, place) == []


def test_the_terminal_has_the_question_a_verdict_and_a_legend_of_the_columns(place: Path) -> None:
    done = heartloop("validate", "run", "--suite", "strategies", "--out", "terminal", cwd=place, code=0)
    asked, verdict, *_ = done.out.splitlines()
    assert asked.endswith("?")
    assert "heartloop/reflector" in verdict
    legend = " ".join(done.out.split())
    assert all(f"{letter}: {LABELS[letter].lower()}" in legend for letter in GROUPS)
    assert verdict in (place / "terminal" / "report" / "index.html").read_text()


@pytest.mark.slow
async def test_the_estimate_is_of_all_variants_and_a_broken_judge_of_none(place: Path) -> None:
    assert heartloop(*EVAL[:-1], "four", "--model", "heartloop/assistant", "--limit", "4", cwd=place).code == 0
    words = ("validate", "four", *SUITE, "--judge", "lab/judge")
    async with FaultyServer() as server:
        pilot = await over_http(server, *words, "--out", "p", "--pilot", cwd=place, code=0)
        assert "Pilot: 18 more dialogues will take about 108 calls" in pilot.err, "2 and 4 x 4, of 3 replies and 2 calls each"
        assert "Rerun the same command" in pilot.out
        await over_http(server, *words, "--out", "s", "--max-tokens", "60000", cwd=place, code=1)
    async with FaultyServer("bad_json:3") as server:
        broken = await over_http(server, *JUDGE, "--yes", "--out", "b", "--max-connections", "1", cwd=place, code=1)
        assert "1 x judge: lab/judge answered" in broken.err
        assert json.loads((place / "b" / "validity.json").read_text())["left_out"] == dict.fromkeys(PERTURBATIONS[1:], 1)
        await over_http(server, *JUDGE, "--yes", "--out", "b", "--retry-failed", cwd=place, code=0)
        assert json.loads((place / "b" / "validity.json").read_text())["left_out"] == dict.fromkeys(PERTURBATIONS[1:], 0)
        (place / "b" / "run" / PERTURBATIONS[-1] / "transcripts.jsonl").unlink()
        await over_http(server, *JUDGE, "--out", "b", "--max-tokens", "1", cwd=place, code=1)
    left_out = json.loads((place / "b" / "validity.json").read_text())["left_out"]
    assert left_out == {**dict.fromkeys(PERTURBATIONS[1:], 0), PERTURBATIONS[-1]: 2}, "a result of what was judged"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("sage", *SUITE, "--judge", "embedded"), ("sage",)),
        (("run", "sage", *SUITE, "--judge", "embedded"), ("empa", "sage")),
        (("run", "--suite", "perturbed", "--judge", "embedded"), ("'perturbed'", "the nearest is 'perturbation'")),
        (("run", *SUITE), ("--judge", "embedded")),
        (("run", *SUITE, "--judge", "embedded", "-E", "preset=best"), ("'best'", "released", "paper")),
        (("run", *SUITE, "--judge", "embedded", "--request", "judge.seed=1"), ("--request", "embedded")),
    ],
)
def test_wrong_use_gets_one_sentence_and_exit_code_2(place: Path, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    refused("validate", *words, cwd=place, said=parts)
