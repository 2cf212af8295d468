"""The live page of runs that are still going on.

1. What it shows of an evaluation and of a training run.
2. Files are read again when they have changed, not more often than they take; a broken file leaves the last state.
3. The server answers on the loopback address only, to its own name, and serves nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from heartloop.core.dialogue import Failure, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.report.live import POINTS, Follower, serve, state_of

Talk = Callable[..., Transcript]
WriteRun = Callable[..., Path]


def append(run: Path, *dialogues: Transcript) -> None:
    with (run / "transcripts.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(dialogue.model_dump_json() + "\n" for dialogue in dialogues)


# 1. the state


def test_an_evaluation_has_running_means_failures_and_the_newest_dialogue(talk: Talk, write_run: WriteRun) -> None:
    broken = Failure(role="user", kind="AnswerError", detail="no JSON")
    run = write_run([
        talk("m", "s1", [5]), talk("m", "s2", [-5]), talk("m", "s3", [1], stop="failed", failure=broken), talk("n", "s1", [10]),
    ])  # fmt: skip
    state = state_of(run)
    by_name = {row["name"]: row for row in state["models"]}
    assert by_name["m"]["running"] == [[1, 45.0], [2, 40.0]]
    assert (by_name["m"]["played"], by_name["m"]["unscored"], by_name["m"]["mean"]) == (3, 1, 40.0)
    assert by_name["n"]["running"] == [[1, 50.0]]
    assert state["failures"] == [["user, AnswerError: no JSON", 1]]
    assert (state["newest"]["model"], state["newest"]["score"]) == ("n", 50.0)
    assert [change for who, _, change in state["newest"]["lines"] if who == "person"][-1] == 10.0
    assert json.dumps(state)


def test_a_long_curve_is_thinned_and_keeps_its_end(talk: Talk, write_run: WriteRun) -> None:
    (row,) = state_of(write_run([talk("m", f"s{number}", [1]) for number in range(3 * POINTS + 1)]))["models"]
    assert len(row["running"]) <= POINTS + 1
    assert row["running"][-1][0] == 3 * POINTS + 1


def test_a_run_without_a_dialogue_yet_is_shown(write_run: WriteRun) -> None:
    state = state_of(write_run([]))
    assert (state["newest"], state["done"]) == (None, False)


def test_a_training_run_has_its_curves(tmp_path: Path, talk: Talk) -> None:
    recipe = {"name": "r", "environment": {"name": "sage"}, "batch": {"steps": 3}}
    (tmp_path / "settings.json").write_text(json.dumps({"recipe": recipe}), encoding="utf-8")
    steps: Sequence[dict[str, Any]] = [
        {"step": step, "attempt": "001", "data": {"dialogue/score": 10.0 * step, "actor/kl_loss": 0.01 * step}} for step in (1, 2)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps), encoding="utf-8")
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "transcripts" / "train-000001.jsonl").write_text(talk("m", "s1", [5]).model_dump_json() + "\n", encoding="utf-8")
    state = state_of(tmp_path)
    assert {curve["title"]: curve["points"] for curve in state["curves"]} == {
        "Training score": [[1, 10.0], [2, 20.0]], "KL to the start": [[1, 0.01], [2, 0.02]],
    }  # fmt: skip
    assert ["step", "2 of 3"] in state["facts"]
    assert state["newest"]["scenario"] == "s1"


# 2. following


def test_a_run_is_read_again_only_when_it_changed_and_not_at_once(talk: Talk, write_run: WriteRun) -> None:
    run, now = write_run([talk("m", "s1", [5])]), [0.0]
    follower = Follower(run, clock=lambda: now[0])
    append(run, talk("m", "s2", [5]))
    assert follower.state()["models"][0]["played"] == 1, "too soon"
    now[0] = 5.0
    second = follower.state()
    assert second["models"][0]["played"] == 2
    now[0] = 10.0
    assert follower.state() is second


def test_a_line_that_is_being_written_waits_and_a_broken_one_is_named(talk: Talk, write_run: WriteRun) -> None:
    run, now = write_run([talk("m", "s1", [5])]), [0.0]
    follower = Follower(run, clock=lambda: now[0])
    with (run / "transcripts.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"scenario": ')
    now[0] = 5.0
    assert "problem" not in follower.state()
    with (run / "transcripts.jsonl").open("a", encoding="utf-8") as file:
        file.write("}\n")
    now[0] = 10.0
    state = follower.state()
    assert "transcripts.jsonl" in state["problem"]
    assert state["models"][0]["played"] == 1


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        Follower(tmp_path)


# 3. the server


@asynccontextmanager
async def served(*runs: Path) -> AsyncIterator[str]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(runs, ready=address.set_result))
    try:
        yield await asyncio.wait_for(address, 5)
    finally:
        serving.cancel()


async def test_the_page_and_its_state_are_served_and_nothing_else(talk: Talk, write_run: WriteRun) -> None:
    run = write_run([talk("<b>m</b>", "s1", [5])])
    async with served(run) as address, aiohttp.ClientSession() as client:
        async with client.get(address) as page:
            assert "script-src 'self'" in page.headers["Content-Security-Policy"]
            assert 'src="assets/live.js"' in await page.text()
        for name in ("live.js", "report.css"):
            async with client.get(f"{address}assets/{name}") as asset:
                assert asset.status == 200
        async with client.get(f"{address}state.json") as answer:
            (state,) = (await answer.json())["runs"]
        for path in ("assets/site.py", "assets/..%2Flive.py", "transcripts.jsonl"):
            async with client.get(address + path) as other:
                assert other.status == 404, path
        async with client.get(address, headers={"Host": "elsewhere.example"}) as foreign:
            assert foreign.status == 403
    assert state["models"][0]["name"] == "<b>m</b>", "as text; the page puts nothing in as markup"


async def test_a_port_that_is_taken_is_named(write_run: WriteRun) -> None:
    run = write_run([])
    async with served(run) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(UseError, match=f"port {port}"):
            await serve([run], port=port)
