"""What the workers of a run share: one gate for each address, one budget, one answer cache."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from heartloop.core.dialogue import total_usage
from heartloop.evaluation.runner import OpenModels
from heartloop.evaluation.store import stored_transcripts
from heartloop.integrations.ray import _Driver, _Member
from heartloop.models.client import Connections
from tests.commands import over_http
from tests.faulty_server import FaultyServer
from tests.providers.limits import FixedWindow
from tests.providers.servers import Limit, Provider

pytestmark = pytest.mark.usefixtures("cluster")
EVAL = ("eval", "sage", "--yes", "-m", "lab/policy", "--user", "lab/person", "--max-connections", "8")


async def test_no_more_calls_are_sent_at_once_than_one_process_sends(tmp_path: Path) -> None:
    most: dict[str, int] = {}
    for name, further in (("alone", ()), ("ray", ("--ray",))):
        async with FaultyServer(delay=0.2) as server:  # sixteen calls: too few to learn that it bears more than four at once
            words = (*EVAL, "--limit", "8", "-E", "max_turns=1", "--out", name, *further)
            await over_http(server, *words, cwd=tmp_path, code=0)
            most[name] = server.most_in_flight
    assert most == {"alone": 4, "ray": 4}


async def test_a_rate_limit_is_learned_once_for_all_workers(tmp_path: Path) -> None:
    async with Provider(Limit(FixedWindow(40, 1.0), "seconds"), latency=0.02) as server:
        words = (*EVAL, "--limit", "12", "-E", "max_turns=4", "--out", "run", "--ray")
        await over_http(server, *words, cwd=tmp_path, code=0)  # type: ignore[arg-type]
    calls = sum(len(one.calls) for one in stored_transcripts(tmp_path / "run"))
    assert server.accepted == calls + 2, "with the two calls of the check"
    assert server.refused[429] <= 0.15 * server.accepted


async def test_a_limit_of_tokens_is_one_for_all_workers(tmp_path: Path) -> None:
    spent: dict[str, int] = {}
    words = (*EVAL, "--limit", "24", "-E", "max_turns=3")
    async with FaultyServer() as server:
        await over_http(server, *words, "--out", "whole", cwd=tmp_path, code=0)
        whole = total_usage(call.usage for one in stored_transcripts(tmp_path / "whole") for call in one.calls).total
        for name, further in (("alone", ()), ("ray", ("--ray",))):
            limited = (*words, "--max-tokens", str(whole // 2), "--out", name, *further)
            done = await over_http(server, *limited, cwd=tmp_path, code=1)
            assert "Stopped early: --max-tokens" in done.err
            spent[name] = int(done.out.partition("; ")[2].split(" tokens")[0].replace("about ", "").replace(",", ""))
    assert 0.3 * whole < spent["ray"] <= max(0.5 * whole, spent["alone"])


async def test_a_request_that_several_workers_have_is_sent_once(tmp_path: Path) -> None:
    sent: dict[str, Counter[str]] = {}
    for name, further in (("cached", ("--cache", "answers.sqlite")), ("uncached", ())):
        async with FaultyServer("silence@policy", delay=0.05) as server:  # so that the person is asked the same by all models
            words = (*EVAL, "-m", "lab/b", "-m", "lab/c", "--limit", "3", "-E", "max_turns=2", "--out", name, "--ray", *further)
            done = await over_http(server, *words, cwd=tmp_path, code=0)
            sent[name] = Counter(one.digest for one in server.served if one.part != "policy")
    assert set(sent["cached"].values()) == {1}
    assert set(sent["uncached"].values()) == {3}
    assert set(sent["cached"]) == set(sent["uncached"])
    again = await asyncio.to_thread(list, stored_transcripts(tmp_path / "cached"))
    assert len(again) == 9, done.err


async def test_a_call_cancelled_while_its_refusal_is_reported_keeps_no_place_in_the_gate() -> None:
    connections = Connections(4)
    driver, member = object.__new__(_Driver), _Member(Path(), None)
    driver._models = OpenModels()
    driver._models.connections = connections
    driver.on_asked(member, 1, "acquire", "http://127.0.0.1:9", "lab/policy", 0, 0)
    await asyncio.sleep(0.01)
    assert connections.gate("http://127.0.0.1:9", "lab/policy").pace.in_flight == 1
    driver.on_asked(member, 1, "refused", "429", None, None)
    driver.on_dropped(member, 1)
    await asyncio.sleep(0.01)
    assert connections.gate("http://127.0.0.1:9", "lab/policy").pace.in_flight == 0
