"""What calls cost: token counts as providers report them, prices, what is free, marks for caching, attempts that timed out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from heartloop import evaluate
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import InputError, TransportError
from heartloop.evaluation.store import read_log
from heartloop.models.budget import Meter, Metered, Price, is_own, is_paid, load_prices
from heartloop.models.cache import AnswerCache, Cached
from heartloop.models.check import EndpointCheck
from heartloop.models.client import EndpointChat
from heartloop.models.formats import read_reply
from heartloop.models.names import resolve
from tests.faulty_server import FaultyServer

HELLO = [Message(role="system", content="Be kind."), Message(role="user", content="My dog died on Sunday.")]
DIALOGUE = [*HELLO, Message(role="assistant", content="I am sorry."), Message(role="user", content="He was old.")]


def usage_of(counts: Any) -> Usage:
    body = {"choices": [{"message": {"content": "I am sorry."}, "finish_reason": "stop"}], "usage": counts}
    reply = read_reply(json.dumps(body).encode(), HELLO)
    assert isinstance(reply, Reply)
    return reply.usage


def counts(prompt: int, completion: int, read: int = 0, written: int = 0, reasoning: int = 0) -> Usage:
    return Usage.of_counts((prompt, completion, read, written, reasoning))


# 1. counts


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        # OpenAI: reasoning is part of the completion
        (
            {
                "prompt_tokens": 1486, "completion_tokens": 651, "total_tokens": 2137,
                "prompt_tokens_details": {"cached_tokens": 1408}, "completion_tokens_details": {"reasoning_tokens": 512},
            },
            counts(1486, 651, read=1408, reasoning=512),
        ),
        # DeepSeek
        (
            {
                "prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950,
                "prompt_cache_hit_tokens": 832, "prompt_cache_miss_tokens": 68,
            },
            counts(900, 50, read=832),
        ),
        # Gemini: reasoning is in the total only
        ({"prompt_tokens": 758, "completion_tokens": 102, "total_tokens": 1725}, counts(758, 967, reasoning=865)),
        # xAI: reasoning is outside of the completion, 32 + 9 + 94 = 135
        (
            {
                "prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
                "prompt_tokens_details": {"cached_tokens": 6}, "completion_tokens_details": {"reasoning_tokens": 94},
            },
            counts(32, 103, read=6, reasoning=94),
        ),
        # the same without a total
        ({"prompt_tokens": 32, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 94}},
         counts(32, 103, reasoning=94)),
        # OpenRouter before an Anthropic model, and a gateway with Anthropic's own names
        (
            {
                "prompt_tokens": 10339, "completion_tokens": 60, "total_tokens": 10399,
                "prompt_tokens_details": {"cached_tokens": 10000, "cache_write_tokens": 300},
            },
            counts(10339, 60, read=10000, written=300),
        ),
        (
            {"prompt_tokens": 500, "completion_tokens": 5, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 100},
            counts(500, 5, read=300, written=100),
        ),
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, counts(7, 3)),
    ],
)  # fmt: skip
def test_each_providers_counts_are_read_alike(reported: dict[str, Any], expected: Usage) -> None:
    assert usage_of(reported) == expected


@pytest.mark.parametrize("bad", [-1, 10**12, 10**400, True, "7", None, [], {}, 1.5, 1001])
@pytest.mark.parametrize("field", ["cached_tokens", "cache_write_tokens", "reasoning_tokens", "total_tokens", "details"])
def test_a_part_that_cannot_be_is_ignored(field: str, bad: Any) -> None:
    """Of 1,000 prompt tokens no more can be cached; a total above prompt and completion is reasoning."""
    reported: dict[str, Any] = {"prompt_tokens": 1000, "completion_tokens": 5}
    if field == "details":
        reported |= {"prompt_tokens_details": bad, "completion_tokens_details": bad}
    elif field == "total_tokens":
        reported["total_tokens"] = bad
    else:
        reported["completion_tokens_details" if field == "reasoning_tokens" else "prompt_tokens_details"] = {field: bad}
    expected = counts(1000, 1006, reasoning=1001) if (field, bad) == ("reasoning_tokens", 1001) else counts(1000, 5)
    assert usage_of(reported) == expected


def test_counts_without_parts_are_stored_as_before() -> None:
    plain = Usage(prompt_tokens=3, completion_tokens=2)
    assert plain.model_dump_json() == '{"prompt_tokens":3,"completion_tokens":2,"estimated":false}'
    assert Usage.model_validate_json(plain.model_dump_json()) == plain
    parted = counts(3, 2, read=1, reasoning=2)
    assert json.loads(parted.model_dump_json()).keys() == plain.model_dump().keys() | {"cached_input_tokens", "reasoning_tokens"}
    assert Usage.model_validate_json(parted.model_dump_json()) == parted
    assert parted + parted - parted == parted
    assert parted - (parted + parted) == Usage()


async def test_the_answer_cache_keeps_the_parts_also_in_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    used = counts(300, 20, read=256, written=30, reasoning=15)

    class Model:
        name = "lab/a"

        async def complete(self, messages: Any, **_: Any) -> Reply:
            return Reply("I am sorry.", usage=used)

    path = tmp_path / "answers.sqlite"
    with AnswerCache(path) as cache:
        await Cached(Model(), cache, "policy").complete(HELLO)
    with sqlite3.connect(path) as file:  # as version 0.9 made it
        for name in ("cached_input_tokens", "cache_write_tokens", "reasoning_tokens"):
            file.execute(f"ALTER TABLE answers DROP COLUMN {name}")
    file.close()
    with AnswerCache(path) as cache:
        cached = Cached(Model(), cache, "policy")
        assert (await cached.complete(HELLO)).usage == counts(300, 20)
        await cached.complete(DIALOGUE)
        assert (await Cached(Model(), cache, "policy").complete(DIALOGUE)).usage == used  # not yet written
    with AnswerCache(path) as cache:
        again = await Cached(Model(), cache, "policy").complete(DIALOGUE)
    assert (again.usage, again.cached) == (used, True)


# 2. prices


def test_each_kind_of_token_has_its_price() -> None:
    """600 fresh at 2, 300 read at 0.2, 100 written at 2.5; 40 of 100 completion tokens are reasoning at 3, the others cost 8."""
    usage = counts(1000, 100, read=300, written=100, reasoning=40)
    full = Price(2.0, 8.0, cached_input=0.2, cache_write=2.5, reasoning=3.0)
    assert full.of(usage) * 1e6 == pytest.approx(1200 + 60 + 250 + 480 + 120)
    assert Price(2.0, 8.0).of(usage) * 1e6 == pytest.approx(2000 + 800)
    assert full.at_most(1000, 100) * 1e6 == pytest.approx(2500 + 800)
    assert Price(2.0, 8.0, cached_input=0.2).at_most(1000, 100) * 1e6 == pytest.approx(2000 + 800)


async def test_a_limit_counts_what_was_read_from_the_providers_cache_at_its_price() -> None:
    """A call costs 900 x 0.1 + 100 x 1 + 10 x 1 = 200 millionths, at full price 1010; five fit where two would."""

    class Caching:
        name = "openai/a"

        async def complete(self, messages: Any, **_: Any) -> Reply:
            return Reply("ok", usage=counts(1000, 10, read=900))

    meter = Meter(max_cost=0.002, prices={"openai/a": Price(1.0, 1.0, cached_input=0.1)})
    for _ in range(5):
        await Metered(Caching(), meter, "policy").complete(HELLO)
    assert meter.spend().cost == pytest.approx(0.001)


def test_a_price_file_may_have_parts_and_a_date(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(
        '["a/b"]\ninput = 2\noutput = 8\ncached_input = 0.2\ncache_write = 2.5\nreasoning = 3\nchecked = 2026-11-27\n'
    )
    assert load_prices(path) == {"a/b": Price(2.0, 8.0, 0.2, 2.5, 3.0)}
    for line in ("cached_input = -1", 'cached_input = "free"', 'checked = "yesterday"', "checked = 2026", "cache_read = 1"):
        path.write_text(f'["a/b"]\ninput = 2\noutput = 8\n{line}\n')
        with pytest.raises(InputError, match="table 'a/b'"):
            load_prices(path)


def test_the_example_prices_are_read() -> None:
    path = Path(__file__).parents[1] / "examples" / "prices.toml"
    prices = load_prices(path)
    assert all(price.cached_input is not None and price.cached_input < price.input < price.output for price in prices.values())
    assert path.read_text().count("checked = ") == len(prices) > 2


# 3. what is free


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("http://127.0.0.1:8000/v1", True), ("http://127.8.9.1/v1", True), ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True), ("http://LOCALHOST./v1", True), ("http://192.168.1.7:8000/v1", True),
        ("http://10.1.2.3/v1", True), ("http://172.16.0.9/v1", True), ("http://169.254.1.1/v1", True),
        ("http://[fd00::7]/v1", True), ("http://[fe80::1]/v1", True), ("http://gpu-2:8000/v1", True),
        ("http://box.local/v1", True), ("http://host.docker.internal:11434/v1", True),
        ("https://api.openai.com/v1", False), ("http://8.8.8.8/v1", False), ("http://172.32.0.1/v1", False),
        ("https://127.0.0.1.example.com/v1", False), ("https://10.example.com/v1", False),
        ("https://local.example.com/v1", False),
        ("http://[bad/v1", False), ("", False), ("localhost:8000", False),
    ],
)  # fmt: skip
def test_an_address_is_ones_own_or_not(address: str, own: bool) -> None:
    assert is_own(address) is own


def test_the_address_decides_what_is_free_and_a_price_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_paid(name) for name in ("openai/a", "vllm/a", "ollama/a", "lab/a")] == [True, False, False, True]
    monkeypatch.setenv("VLLM_BASE_URL", "https://gpus.example.com/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:4000/v1")
    monkeypatch.setenv("LAB_BASE_URL", "http://gpu-2:8000/v1")
    assert [is_paid(name) for name in ("openai/a", "vllm/a", "ollama/a", "lab/a")] == [False, True, False, False]
    assert is_paid("openai/a", {"openai/a": Price(0.0, 1.0)})
    assert not is_paid("vllm/a", {"vllm/a": Price(0.0, 0.0)})
    assert Meter(prices={"openai/a": Price(0.0, 1.0)}).is_paid("openai/a")
    assert Meter().spend().cost == 0.0
    meter = Meter()
    meter.record("vllm/a", "policy", counts(5, 5))
    assert meter.spend().cost is None


# 4. marks


async def test_what_stays_the_same_is_marked_where_caching_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def marked(body: dict[str, Any]) -> list[bool]:
        return [isinstance(m["content"], list) and "cache_control" in m["content"][0] for m in body["messages"]]

    async with FaultyServer() as server:
        for service in ("OPENROUTER", "OPENAI"):
            monkeypatch.setenv(f"{service}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"{service}_API_KEY", "EMPTY")
        for name in ("openrouter/anthropic/claude", "openrouter/deepseek/flash", "openai/gpt"):
            model = resolve(name)
            assert isinstance(model, EndpointChat)
            async with model:
                for messages in (HELLO, DIALOGUE, HELLO[1:]):
                    await model.complete(messages)
    found = [marked(body) for body in server.bodies]
    assert found[:3] == [[True, False], [True, False, False, True], [False]]
    assert not any(map(any, found[3:]))
    texts = [
        [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in b["messages"]] for b in server.bodies
    ]
    assert texts[:3] == texts[3:6] == [[m.content for m in messages] for messages in (HELLO, DIALOGUE, HELLO[1:])]


# 5. attempts that timed out


class Late:
    """Answers after `abandoned` attempts that timed out, or fails after them."""

    name = "openai/a"

    def __init__(self, abandoned: int, *, fails: bool = False) -> None:
        self.abandoned, self.fails = abandoned, fails

    async def complete(self, messages: Any, **_: Any) -> Reply:
        if self.fails:
            error = TransportError("no response")
            error.abandoned = self.abandoned
            raise error
        return Reply("ok", usage=Usage(prompt_tokens=100, completion_tokens=20), abandoned=self.abandoned)


async def test_attempts_that_timed_out_are_charged_as_estimated() -> None:
    """8 tokens of prompt by estimate; 20 of completion, as the model answered before."""
    meter = Meter(prices={"openai/a": Price(1.0, 10.0)})
    await Metered(Late(0), meter, "policy").complete(HELLO)
    before = meter.spend()
    with pytest.raises(TransportError):
        await Metered(Late(3, fails=True), meter, "policy").complete(HELLO)
    after = meter.spend()
    assert (after.prompt_tokens - before.prompt_tokens, after.completion_tokens - before.completion_tokens) == (24, 60)
    assert (after.failed, after.estimated) == (1, True)
    assert after.cost == pytest.approx((124 + 10 * 80) / 1e6)
    meter.finish([("openai/a", "policy", Usage(prompt_tokens=100, completion_tokens=20))])
    assert meter.lost == {("openai/a", "policy"): Usage(prompt_tokens=24, completion_tokens=60, estimated=True)}


async def test_the_answer_after_them_is_charged_as_counted() -> None:
    meter = Meter()
    await Metered(Late(2), meter, "policy").complete(HELLO)
    # nothing was answered before: 512 tokens are expected of an answer, or as many as it may have
    assert meter.spend()[2:4] == (100 + 2 * 8, 20 + 2 * 512)
    limited = Meter()
    await Metered(Late(1), limited, "policy").complete(HELLO, sampling=Sampling(max_tokens=50))
    assert limited.spend()[2:4] == (108, 70)


async def test_a_time_out_of_a_server_is_charged() -> None:
    meter = Meter()
    async with FaultyServer("timeout:1") as server:
        async with EndpointChat("lab/m", model="m", base_url=server.base_url, timeout=0.3) as endpoint:
            reply = await Metered(endpoint, meter, "policy").complete(HELLO, sampling=Sampling(max_tokens=50))
        assert len(server.requests) == 2
    assert reply.abandoned == 1
    assert meter.spend().tokens == reply.usage.total + 8 + 50


async def test_a_resumed_run_counts_them_once_also_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two dialogues of three turns has one call with an attempt that timed out."""
    asked: list[int] = []

    async def complete(self: EndpointChat, messages: Any, **_: Any) -> Reply:
        asked.append(len(messages))
        late = len(messages) == 4  # system, opening, reply, answer
        return Reply("I see.", usage=Usage(prompt_tokens=100, completion_tokens=2), abandoned=int(late))

    async def nothing(self: EndpointCheck, *_: Any, **__: Any) -> None: ...

    monkeypatch.setattr(EndpointChat, "complete", complete)
    monkeypatch.setattr(EndpointCheck, "ask", nothing)
    monkeypatch.setenv("LAB_BASE_URL", "https://lab.example.com/v1")
    monkeypatch.setenv("LAB_API_KEY", "EMPTY")
    meters: list[Meter] = []
    created = Meter.__init__

    def kept(self: Meter, **how: Any) -> None:
        created(self, **how)
        meters.append(self)

    monkeypatch.setattr(Meter, "__init__", kept)

    def play() -> int:
        meters.clear()
        evaluate(
            "sage", "lab/m", user="embedded", limit=2, seed=1, out=tmp_path / "run", yes=True, progress=False,
            options={"max_turns": 3},
        )  # fmt: skip
        return meters[0].spend().tokens

    first = play()
    lost = [entry for log in read_log(tmp_path / "run") for entry in log.get("lost", [])]
    assert len(lost) == asked.count(4) == 2
    assert first == len(asked) * 102 + sum(sum(entry[2:]) for entry in lost)
    assert play() == first
    log = tmp_path / "run" / "log.jsonl"
    log.write_text("".join(line + "\n" for line in log.read_text().splitlines() if "stopped" not in line))  # as a kill leaves it
    assert play() == first
