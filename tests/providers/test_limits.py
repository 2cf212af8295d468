"""The client at rate limits: nothing is lost, nothing is bought twice, and few calls are refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop import evaluate
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.models.client import Connections, EndpointChat
from tests.providers.clock import Clock
from tests.providers.limits import FixedWindow, Rule, SlidingWindow, TokenBucket
from tests.providers.servers import AccountEnds, Call, ConcurrencyLimit, Limit, Part, Provider, Refusal

HELLO = [Message(role="system", content="Be kind."), Message(role="user", content="My dog died on Sunday.")]
LATENCY = 2.0  # seconds of an answer


def endpoint(server: Provider, connections: Connections | int = 64, **more: Any) -> EndpointChat:
    settings = {"model": "m", "retries": 0, "connections": connections, **more}
    return EndpointChat("lab/m", base_url=server.base_url, **settings)


async def called(model: EndpointChat, calls: int, **how: Any) -> list[Reply]:
    """All calls at once; the gate holds them back. One that is lost raises."""
    async with model:
        return await asyncio.gather(*(model.complete(HELLO, **how) for _ in range(calls)))


def refused_share(server: Provider, after: float = 0.0) -> float:
    """Of the calls after so many seconds. A limit that no header names is met again and again until its window is known."""
    statuses = [call.status for call in server.calls if call.at >= after]
    return statuses.count(429) / len(statuses)


RULES: dict[str, Callable[[int, float], Rule]] = {
    "fixed window": lambda n, window: FixedWindow(n, window, refused_count=True),
    "sliding window": lambda n, window: SlidingWindow(n, window),
    "sliding window, refused calls count": lambda n, window: SlidingWindow(n, window, refused_count=True),
    "bucket": lambda n, window: TokenBucket(n, window),
    "a second's share": lambda n, window: TokenBucket(n, window, capacity=max(1, round(n / window)), refused_count=True),
}


@pytest.mark.parametrize(
    ("rule", "tells"),
    [
        ("fixed window", ()),
        ("fixed window", ("openai", "seconds")),
        ("sliding window", ()),
        ("sliding window", ("date",)),
        ("sliding window, refused calls count", ("ms",)),
        ("bucket", ("google",)),
        ("bucket", ("day",)),
        ("a second's share", ()),
    ],
)
def test_three_calls_a_second(rule: str, tells: tuple[Any, ...], clock: Clock) -> None:
    server = Provider(Limit(RULES[rule](180, 60.0), *tells), latency=LATENCY)
    with clock.serving(server):
        model = endpoint(server)
        replies = clock.run(called(model, 400))
    assert len(replies) == 400
    assert server.finished == 400
    assert refused_share(server) <= 0.1
    assert model.retried.total() == server.refused[429]
    assert clock.now() < 1.4 * 400 / 3


@pytest.mark.parametrize("rule", ["sliding window, refused calls count", "a second's share"])
def test_thirty_calls_a_second(rule: str, clock: Clock) -> None:
    server = Provider(Limit(RULES[rule](300, 10.0)), latency=LATENCY)
    with clock.serving(server):
        clock.run(called(endpoint(server, 256), 800))
    assert server.finished == 800
    assert refused_share(server) <= 0.05


def test_tokens_a_minute(clock: Clock) -> None:
    """A call counts the tokens of its prompt and those that its answer may have: 8 + 400."""
    server = Provider(Limit(SlidingWindow(40_800, 60.0), "openai", per="tokens"), latency=LATENCY)
    with clock.serving(server):
        clock.run(called(endpoint(server), 300, sampling=Sampling(max_tokens=400)))
    assert server.finished == 300
    assert refused_share(server) <= 0.1


@pytest.mark.parametrize("allowed", [4, 16])
def test_a_limit_of_concurrent_calls(allowed: int, clock: Clock) -> None:
    server = Provider(ConcurrencyLimit(allowed), latency=LATENCY)
    with clock.serving(server):
        clock.run(called(endpoint(server), 300))
    assert server.finished == 300
    assert refused_share(server) <= 0.1


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Callable[[Provider], None]:
    def at(server: Provider) -> None:
        monkeypatch.setenv("LAB_BASE_URL", server.base_url)
        monkeypatch.setenv("LAB_API_KEY", "sk-lab-0123456789")

    return at


@pytest.mark.parametrize("tells", [(), ("seconds",)])
def test_whole_dialogues_at_sixty_calls_a_minute(
    tells: tuple[Any, ...],
    clock: Clock,
    tmp_path: Path,
    lab: Callable[[Provider], None],
) -> None:
    server = Provider(Limit(SlidingWindow(60, 60.0), *tells), latency=LATENCY)
    with clock.serving(server):
        lab(server)
        run = evaluate("sage", "lab/policy", user="lab/person", limit=16, options={"max_turns": 4}, yes=True, retries=0,
                       out=tmp_path / "run", progress=False)  # fmt: skip
    assert [one.scored for one in run.transcripts] == [True] * 16
    assert server.finished == server.accepted == 2 + sum(len(one.calls) for one in run.transcripts)  # 2 before the run
    assert refused_share(server, after=60.0) <= 0.05


def test_dialogues_that_began_first_end_first(clock: Clock, tmp_path: Path, lab: Callable[[Provider], None]) -> None:
    """Of 16 dialogues of 11 calls, more than half are finished when the account ends after 130 of the 176 calls."""
    server = Provider(Limit(SlidingWindow(60, 60.0)), AccountEnds("balance", after=130), latency=LATENCY)
    with clock.serving(server):
        lab(server)
        with pytest.warns(RuntimeWarning, match="Stopped early"):
            run = evaluate("sage", "lab/policy", user="lab/person", limit=16, options={"max_turns": 4}, yes=True,
                           out=tmp_path / "run", progress=False)  # fmt: skip
    assert len(run.transcripts) >= 8


def test_models_at_one_address_share_its_concurrency_and_others_have_their_own(clock: Clock) -> None:
    first, second = Provider(latency=LATENCY), Provider(latency=LATENCY)
    with clock.serving(first), clock.serving(second):
        shared = Connections(3)
        models = [endpoint(server, shared, model=name) for server, name in ((first, "a"), (first, "b"), (second, "c"))]

        async def all_at_once() -> None:
            async with shared:
                await asyncio.gather(*(model.complete(HELLO) for model in models for _ in range(20)))

        clock.run(all_at_once())
    assert (first.most_in_flight, second.most_in_flight) == (3, 3)
    assert (first.finished, second.finished) == (40, 20)


class OneModelRefused(Part):
    """Every call of model `bad` is answered 429."""

    def refuse(self, call: Call) -> Refusal | None:
        refused = Refusal(429, {"error": {"message": "Too many requests"}}, {})
        return refused if call.body["model"] == "bad" else None


def test_a_model_that_is_always_limited_holds_up_no_other_at_its_address(
    clock: Clock, tmp_path: Path, lab: Callable[[Provider], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is left out after two minutes, with the count of its refusals; nothing of it is recorded as failed."""
    server = Provider(OneModelRefused(), latency=LATENCY)
    with clock.serving(server):
        lab(server)
        with pytest.warns(RuntimeWarning) as warned:
            run = evaluate("sage", ["lab/bad", "lab/good"], user="lab/person", limit=8, options={"max_turns": 4}, yes=True,
                           retries=1, out=tmp_path / "run", progress=True)  # fmt: skip
    stopped = str(warned[-1].message)
    assert "lab/bad" in stopped
    assert re.search(r"rate limited \d+ times in 1\d\d s: 429 Too many requests", stopped)
    assert [(one.model, one.scored) for one in run.transcripts] == [("lab/good", True)] * 8
    assert max(call.at for call in server.calls if call.body["model"] == "good") < 60  # 8 dialogues of 11 calls of 2 s
    assert 120 < clock.now() < 240
    assert "8/16 dialogues" in (shown := capsys.readouterr().err)
    assert "for the rate limit of bad at " in shown
