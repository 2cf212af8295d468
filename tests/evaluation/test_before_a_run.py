"""Before money is spent: one small request to each endpoint, and an estimate from finished dialogues."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from heartloop.core.dialogue import read_transcripts
from tests.commands import KEY, LAB, Done, heartloop, over_http, refused
from tests.faulty_server import FaultyServer

SMALL = ("eval", "sage", "--yes", "--limit", "2", "-E", "max_turns=2", "--out", "run")
NOWHERE = {"LAB_BASE_URL": "http://no-such-host.invalid/v1", "LAB_API_KEY": ""}
PRICES = '["lab/policy"]\ninput = 1000.0\noutput = 0.0\n["lab/person"]\ninput = 0.0\noutput = 1000.0\n'


def lines(run: Path) -> int:
    path = run / "transcripts.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def asked(server: FaultyServer) -> Counter[str]:
    return Counter(request.body["model"] for request in server.checks)


def one_line(done: Done) -> str:
    (line,) = done.err.splitlines()
    assert done.code == 2, done
    return line


async def test_every_endpoint_is_asked_once_and_briefly(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        await over_http(
            server, *SMALL, "--model", "lab/a", "--model", "lab/b", "--model", "heartloop/reflector", "--user", "lab/a",
            "--request", "user.min_p=0.1", cwd=tmp_path, code=0,
        )  # fmt: skip
    assert asked(server) == {"a": 2, "b": 1}, "a also with the settings of its role, which a server may refuse"
    further = [request.body.keys() - {"model", "messages", "max_tokens"} for request in server.checks]
    assert sorted(map(sorted, further)) == [[], [], ["min_p"]]
    assert all(request.body["max_tokens"] == 1 for request in server.checks)
    assert all(request.authorization == f"Bearer {KEY}" for request in server.checks)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("unauthorized", "LAB_API_KEY"),
        ("unknown_model", "'polcy'; the nearest is 'policy-large'"),
        ("bad_request", "sampling settings"),
        ("no_quota", "LAB_API_KEY"),
        ("redirect", "LAB_BASE_URL"),
        ("html", "LAB_BASE_URL"),
        ("drop", "LAB_BASE_URL"),
        ("timeout", "no byte within 0.3 s"),
    ],
)
async def test_what_no_retry_changes_is_one_line_and_leaves_no_run(fault: str, named: str, tmp_path: Path) -> None:
    async with FaultyServer(f"{fault}@any", models=["other", "policy-large"]) as server:
        words = ("--model", "lab/polcy", "--user", "lab/polcy", "--timeout", "0.3")
        line = one_line(await over_http(server, *SMALL, *words, cwd=tmp_path))
    assert server.requests == []
    assert all(text in line for text in ("lab/polcy", server.base_url, named))
    assert files(tmp_path) == []
    assert KEY not in line


async def test_a_run_that_is_resumed_stays_as_it_was(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        assert (await over_http(server, *LAB, "--pilot", cwd=tmp_path)).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    async with FaultyServer("unauthorized@any") as server:
        assert (await over_http(server, *LAB, cwd=tmp_path)).code == 2
        other = await over_http(server, *LAB, "--seed", "7", cwd=tmp_path)
        assert (other.code, "other settings: seed" in other.err) == (2, True), "refused before an endpoint is asked"
    assert len(server.checks) == 2
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


@pytest.mark.slow
async def test_judges_of_a_suite_are_asked_too_unless_the_cache_answers(tmp_path: Path) -> None:
    assert heartloop(*SMALL, "--model", "heartloop/reflector", "--user", "embedded", cwd=tmp_path).code == 0
    words = ("validate", "run", "--suite", "utterance", "--judge", "lab/judge", "--yes", "--cache", "a.sqlite", "--out")
    agreement = json.dumps({"answers": [{"why": "so", "agreement": 3}] * 15})
    async with FaultyServer("unauthorized@any") as server:
        line = one_line(await over_http(server, *words, "none", cwd=tmp_path))
        assert "lab/judge" in line
    assert (server.requests, (tmp_path / "none").exists()) == ([], False)
    async with FaultyServer(answer=lambda body: agreement) as server:
        assert (await over_http(server, *words, "one", cwd=tmp_path)).code == 0
        assert asked(server) == {"judge": 1}
        await over_http(server, *words, "two", cwd=tmp_path, code=0, **NOWHERE)
    answers = [(tmp_path / out / "answers.jsonl").read_text() for out in ("one", "two")]
    assert sorted(answers[0].splitlines()) == sorted(answers[1].splitlines())


@pytest.mark.parametrize("fault", ["rate_limit", "error_in_200"])
async def test_an_overloaded_server_is_mentioned_and_the_run_goes_on(fault: str, tmp_path: Path) -> None:
    async with FaultyServer(f"{fault}@check") as server:
        done = await over_http(server, *SMALL, "--model", "lab/a", "--user", "embedded", cwd=tmp_path, code=0)
    assert (len(server.checks), "lab/a" in done.err) == (1, True)


@pytest.mark.parametrize("fault", ["no_one_token", "no_max_tokens", "no_temperature", "null_content", "drop:2", "html:1"])
async def test_what_a_run_takes_is_taken_here(fault: str, tmp_path: Path) -> None:
    name, _, amount = fault.partition(":")
    words = ("--model", "lab/a", "--user", "embedded", "--request", "policy.temperature=0.5")
    async with FaultyServer(f"{name}@check{':' * bool(amount)}{amount}") as server:
        done = await over_http(server, *SMALL, *words, cwd=tmp_path, code=0)
    assert "lab/a at" not in done.err


async def test_a_finished_run_asks_nobody_and_a_resumed_one_whom_it_needs(tmp_path: Path) -> None:
    words = (*SMALL, "--model", "lab/a", "--model", "lab/b", "--user", "lab/person")
    async with FaultyServer() as server:
        assert (await over_http(server, *words, cwd=tmp_path)).code == 0
        server.checks.clear()
        assert (await over_http(server, *words, cwd=tmp_path)).code == 0
        assert server.checks == []
        path = tmp_path / "run" / "transcripts.jsonl"
        rows = path.read_text().splitlines(keepends=True)
        path.write_text("".join(row for row in rows if json.loads(row)["model"] == "lab/a"))
        assert (await over_http(server, *words, cwd=tmp_path)).code == 0
        assert asked(server) == {"b": 1, "person": 1}


async def test_a_cached_run_needs_neither_the_endpoint_nor_a_key(tmp_path: Path) -> None:
    words = (*LAB[:-2], "--model", "heartloop/reflector", "--cache", "a.sqlite")
    async with FaultyServer() as server:
        await over_http(server, *words, "--out", "first", cwd=tmp_path, code=0)
    again = await over_http(server, *words, "--out", "again", cwd=tmp_path, code=0, **NOWHERE)
    total = len(server.requests)
    assert f"{total} of {total} answers from the cache." in again.out
    refused(*words, "--limit", "5", "--out", "wider", cwd=tmp_path, said="LAB_API_KEY", **NOWHERE)


async def test_its_tokens_are_counted_in_no_dialogue_and_again_on_resuming(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        done = await over_http(server, *LAB, "--pilot", cwd=tmp_path)
        dialogues = sum(u.total for t in read_transcripts(tmp_path / "run" / "transcripts.jsonl") for u in t.usage.values())
        assert f"{dialogues + 2 * (5 + 1):,} tokens" in done.out, "two requests of five words, answered in one"
        again = await over_http(server, *LAB, "--pilot", cwd=tmp_path)
        assert f"{dialogues + 4 * (5 + 1):,} tokens" in again.out


async def test_finished_dialogues_give_the_estimate_and_no_pilot_is_played_again(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    words = tuple(word for word in LAB if word != "--yes")
    async with FaultyServer() as server:
        assert (await over_http(server, *words, "--pilot", cwd=tmp_path)).code == 0
        finished, sent = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl")), len(server.requests)
        done = await over_http(server, *words, "--prices", "prices.toml", cwd=tmp_path)
        assert (done.code, len(server.requests), lines(tmp_path / "run")) == (1, sent, 2), "unfinished, and no --pilot"
        usage = [t.usage for t in finished]
        tokens = sum(part.total for roles in usage for part in roles.values())
        cost = sum(roles["policy"].prompt_tokens + roles["user"].completion_tokens for roles in usage) / 1000
        said = " ".join(done.err.split())
        assert "From 2 finished dialogues: 2 more dialogues will take about" in said
        assert f"{sum(len(t.calls) for t in finished)} calls, {tokens:,} tokens" in said
        shown = re.search(r"cost about ([\d.]+) at your prices", said)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(cost, abs=0.0051), "half a cent may be rounded up or down"
        assert (await over_http(server, *LAB, cwd=tmp_path)).code == 0
        assert lines(tmp_path / "run") == 4
