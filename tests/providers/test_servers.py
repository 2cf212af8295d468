"""The servers do what their docstrings say, where that is not obvious."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from heartloop import evaluate
from heartloop.core.dialogue import Message
from heartloop.models.client import EndpointChat
from tests.providers.limits import SlidingWindow, TokenBucket
from tests.providers.servers import (
    AccountEnds,
    AnswerModeration,
    BasicAuthProxy,
    BlankLines,
    CachedInput,
    ConcurrencyLimit,
    Flags,
    IgnoredFields,
    Limit,
    OneAnswerAtATime,
    OneBadGeneration,
    Part,
    PromptModeration,
    Provider,
    ReasoningTokens,
    RefusedFields,
    ShortContext,
    ThinkingByDefault,
)

HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "My dog died on Sunday."}]


class Answered:
    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data
        self.body = json.loads(data)

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["choices"][0]["message"]
        return found


async def post(server: Provider, proxy: str | None = None, url: str | None = None, **fields: Any) -> Answered:
    body = {"model": "m", "messages": HELLO, **fields}
    address = url or f"{server.base_url}/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(address, json=body, proxy=proxy) as response:
        return Answered(response.status, response.headers, await response.read())


def prompt(tokens: int, last: str = "And you?") -> list[dict[str, str]]:
    return [{"role": "system", "content": "x" * 4 * tokens}, {"role": "user", "content": last}]


async def test_whole_dialogues_can_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Provider(ThinkingByDefault("reasoning_effort"), CachedInput("openai"), factor=0.01) as server:
        monkeypatch.setenv("LAB_BASE_URL", server.base_url)
        monkeypatch.setenv("LAB_API_KEY", "none")
        run = await asyncio.to_thread(
            evaluate, "sage", models="lab/small", user="lab/user", out=tmp_path / "run", limit=2, yes=True
        )
    assert [transcript.scored for transcript in run.transcripts] == [True, True]
    assert server.accepted == server.finished > 10
    assert server.billed["cached"] > 0.5 * server.billed["prompt"]


async def test_times_are_multiplied_also_those_that_a_client_is_told() -> None:
    limit = Limit(TokenBucket(1, 600.0), "openai", "seconds", "ms", "google")
    async with Provider(limit, latency=5.0, factor=0.01) as server:
        began = time.monotonic()
        first = await post(server)
        assert 0.05 <= time.monotonic() - began < 2.0
        assert first.headers["x-ratelimit-remaining-requests"] == "0"
        refused = await post(server)
    wait = float(refused.headers["Retry-After"])
    assert refused.status == 429
    assert 3.0 < wait < 6.0  # of 600 s, a hundredth
    assert int(refused.headers["retry-after-ms"]) == pytest.approx(1000 * wait, abs=2)
    assert float(refused.headers["x-ratelimit-reset-requests"].removesuffix("s")) == pytest.approx(wait, abs=0.1)
    retry = refused.body[0]["error"]["details"][1]
    assert float(retry["retryDelay"].removesuffix("s")) == pytest.approx(wait, abs=0.001)
    assert (server.accepted, dict(server.refused)) == (1, {429: 1})


async def test_a_date_is_not_before_the_call_would_be_accepted() -> None:
    async with Provider(Limit(SlidingWindow(1, 30.0), "date")) as server:
        accepted_from = time.time() + 30
        await post(server)
        refused = await post(server)
    assert parsedate_to_datetime(refused.headers["Retry-After"]).timestamp() >= accepted_from - 0.1


async def test_a_limit_of_tokens_counts_the_answer_that_is_allowed() -> None:
    async with Provider(Limit(SlidingWindow(1000, 60.0), "openai", per="tokens")) as server:
        assert (await post(server, messages=prompt(500), max_tokens=400)).status == 200
        refused = await post(server, max_tokens=400)
    assert refused.status == 429
    assert refused.headers["x-ratelimit-remaining-tokens"] == "98"  # 1,000 - 500 - 2 ("And you?") - 400


@pytest.mark.parametrize("cancels", [False, True])
async def test_an_abandoned_answer_is_generated_and_billed_unless_the_server_cancels(cancels: bool) -> None:
    async with Provider(latency=10.0, factor=0.05, cancels=cancels) as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(post(server), 0.25)
        await asyncio.sleep(0.6)
        assert (server.accepted, server.finished, server.abandoned) == (1, 0 if cancels else 1, 1)
        assert bool(server.billed["completion"]) is not cancels


async def test_a_limit_of_concurrency_refuses_what_it_cannot_answer_at_once() -> None:
    async with Provider(ConcurrencyLimit(2), latency=10.0, factor=0.02) as server:
        answers = await asyncio.gather(*(post(server) for _ in range(5)))
        assert sorted(answered.status for answered in answers) == [200, 200, 429, 429, 429]
        assert (await post(server)).status == 200


async def test_one_answer_at_a_time_and_an_abandoned_request_keeps_its_place() -> None:
    async with Provider(OneAnswerAtATime(queue=2), latency=10.0, factor=0.01) as server:
        leaves = asyncio.create_task(post(server))
        await asyncio.sleep(0.02)
        began = time.monotonic()
        waits = [asyncio.create_task(post(server)) for _ in range(2)]
        await asyncio.sleep(0.02)
        assert (await post(server)).status == 503
        leaves.cancel()
        await asyncio.gather(*waits)
        assert 0.25 <= time.monotonic() - began < 5.0
        assert server.finished == 3


async def test_blank_lines_come_before_the_answer_and_the_connection_ends_after_ten_minutes() -> None:
    lines = BlankLines(queue=60.0, every=15.0)
    async with Provider(lines, factor=0.002) as server:
        answered = await post(server)
        assert answered.data.startswith(b"\n\n\n")
        assert answered.message["content"]
    async with Provider(BlankLines(queue=700.0), factor=0.0005) as server:
        with pytest.raises(aiohttp.ClientError):
            await post(server)
        assert server.finished == 0


async def test_thinking_ignores_the_temperature_and_eats_a_low_limit() -> None:
    async with Provider(ThinkingByDefault(tokens=100)) as server:
        cut = await post(server, temperature=0.0, max_tokens=80)
        whole = await post(server, temperature=0.0, max_tokens=300)
        plain = await post(server, temperature=0.0, thinking={"type": "disabled"})
    assert cut.body["choices"][0]["finish_reason"] == "length"
    assert not cut.message["content"]
    assert cut.body["usage"]["completion_tokens"] == 80
    assert whole.message["content"] == plain.message["content"]
    assert "reasoning_content" not in plain.message
    assert ["temperature" in call.used for call in server.calls] == [False, False, True]


async def test_a_block_of_thinking_that_a_limit_cuts_never_closes() -> None:
    async with Provider(ThinkingByDefault("chat_template_kwargs", tokens=100, shown=("[THINK]", "[/THINK]"))) as server:
        whole, cut = await post(server), await post(server, max_tokens=50)
    assert whole.message["content"].startswith("[THINK]They")
    assert "[/THINK]" in whole.message["content"]
    assert "[/THINK]" not in cut.message["content"]


async def test_a_cut_prompt_shows_only_in_its_count() -> None:
    messages = [HELLO[0], *({"role": "user", "content": f"{n}" * 400} for n in range(1, 10)), HELLO[1]]
    short = ShortContext(300)
    async with Provider(short) as server:
        answered = await post(server, messages=messages)
        await post(server)
    assert short.cut == 1
    assert 100 < answered.body["usage"]["prompt_tokens"] <= 152  # half of the context and 2
    assert server.calls[0].used["messages"][0] == HELLO[0]
    assert server.calls[0].used["messages"][-1] == HELLO[1]
    async with Provider(ShortContext(300)) as server:  # a system prompt that is too long by itself
        assert (await post(server, messages=prompt(1000))).body["usage"]["prompt_tokens"] <= 152
    async with Provider(ShortContext(300, cuts=False)) as server:
        assert (await post(server, messages=messages)).body["error"]["code"] == "context_length_exceeded"
        assert (await post(server)).status == 200


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("openai", {"prompt_tokens": 1502, "prompt_tokens_details": {"cached_tokens": 1408}}),  # 11 blocks of 128
        ("deepseek", {"prompt_tokens": 1502, "prompt_cache_hit_tokens": 1472, "prompt_cache_miss_tokens": 30}),  # 23 of 64
    ],
)
async def test_input_sent_before_is_counted_as_cached(form: Any, expected: dict[str, Any]) -> None:
    async with Provider(CachedInput(form)) as server:
        first = await post(server, messages=prompt(1500))
        again = await post(server, messages=prompt(1500, "And me?!"))
    assert expected.items() <= again.body["usage"].items()
    assert 0 in (first.body["usage"].get("prompt_tokens_details") or first.body["usage"]).values() or form == "deepseek"
    assert server.billed["cached"] == (1408 if form == "openai" else 1472)


async def test_a_prompt_without_marks_is_not_cached_where_marks_are_needed() -> None:
    marked = [
        {"role": "system", "content": [{"type": "text", "text": "x" * 6000, "cache_control": {"type": "ephemeral"}}]},
        HELLO[1],
    ]
    async with Provider(CachedInput("anthropic")) as server:
        for messages in (prompt(1500), prompt(1500), marked, marked):
            last = await post(server, messages=messages)
    assert server.billed["cached"] == last.body["usage"]["cache_read_input_tokens"] > 1024


@pytest.mark.parametrize(("form", "inside", "named"), [("openai", True, True), ("gemini", False, False), ("xai", False, True)])
async def test_reasoning_is_counted_inside_or_outside_of_the_answer(form: Any, inside: bool, named: bool) -> None:
    async with Provider(ReasoningTokens(form, 300), answer=lambda body: "x" * 40) as server:
        usage = (await post(server)).body["usage"]
    assert usage["completion_tokens"] == (310 if inside else 10)
    assert usage["total_tokens"] == usage["prompt_tokens"] + 310
    assert usage.get("completion_tokens_details") == ({"reasoning_tokens": 300} if named else None)
    assert (server.billed["completion"], server.billed["reasoning"]) == (310, 300)


@pytest.mark.parametrize(
    ("part", "fields", "status", "code"),
    [
        (RefusedFields("mistral"), {"seed": 1}, 422, None),
        (RefusedFields("anthropic"), {"temperature": 0.5}, 400, "invalid_request_error"),
        (RefusedFields("anthropic_both"), {"temperature": 0.5, "top_p": 0.9}, 400, "invalid_request_error"),
        (RefusedFields("deepseek"), {"response_format": {"type": "json_schema"}}, 400, "invalid_request_error"),
        (RefusedFields("openai"), {"max_tokens": 5}, 400, "unsupported_parameter"),
        (PromptModeration("azure", "dog"), {}, 400, "content_filter"),
        (PromptModeration("alibaba", "dog"), {}, 400, "data_inspection_failed"),
        (PromptModeration("openai", "dog"), {}, 400, "invalid_prompt"),
        (PromptModeration("deepseek", "dog"), {}, 400, "invalid_request_error"),
        (PromptModeration("openrouter", "dog"), {}, 403, 403),
        (AccountEnds("key", 0), {}, 401, "invalid_api_key"),
        (AccountEnds("balance", 0), {}, 402, "invalid_request_error"),
        (AccountEnds("quota", 0), {}, 429, "insufficient_quota"),
    ],
)
async def test_refusals_have_the_form_of_their_service(part: Part, fields: dict[str, Any], status: int, code: object) -> None:
    async with Provider(part) as server:
        refused = await post(server, **fields)
    assert (refused.status, server.accepted) == (status, 0)
    if code is None:
        assert refused.body["detail"][0]["loc"] == ["body", "seed"]
    else:
        assert refused.body["error"]["code"] == code


async def test_fields_are_ignored_without_a_word() -> None:
    async with Provider(IgnoredFields()) as server:
        assert (await post(server, seed=1, temperature=0.5, response_format={"type": "json_object"})).status == 200
    assert set(server.calls[0].used) == {"model", "messages", "temperature"}


async def test_a_bad_generation_comes_once_and_never_where_the_schema_is_strict() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {}}}
    loose = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
    async with Provider(OneBadGeneration(), answer=lambda body: "{}") as server:
        statuses = [(await post(server, response_format=form)).status for form in (schema, loose, loose)]
    assert statuses == [200, 400, 200]
    assert server.finished == 3  # the refused answer was generated and is billed


@pytest.mark.parametrize("partial", [False, True])
async def test_a_filtered_answer_is_a_200_without_or_with_a_part_of_the_content(partial: bool) -> None:
    flags: Flags = lambda body: len(body["messages"]) == 2  # noqa: E731
    async with Provider(AnswerModeration(flags, partial=partial)) as server:
        answered = await post(server)
    assert answered.status == 200
    assert answered.body["choices"][0]["finish_reason"] == "content_filter"
    assert bool(answered.message["content"]) is partial


async def test_an_account_ends_in_the_middle() -> None:
    async with Provider(AccountEnds("balance", after=3)) as server:
        assert [(await post(server)).status for _ in range(5)] == [200, 200, 200, 402, 402]


async def test_the_proxy_wants_its_password_and_forwards_to_the_server() -> None:
    address = "http://provider.test/v1/chat/completions"
    async with Provider() as server, BasicAuthProxy(server) as proxy:
        assert (await post(server, proxy=proxy.url, url=address)).status == 200
        with pytest.raises((aiohttp.ClientError, json.JSONDecodeError)):
            await post(server, proxy=proxy.url_without_password, url=address)
    assert (dict(proxy.hosts), proxy.refused, server.accepted) == ({"provider.test": 1}, 1, 1)
    assert "Proxy-Authorization" not in server.calls[0].headers


async def test_the_client_reads_an_answer_after_blank_lines() -> None:
    async with (
        Provider(BlankLines(queue=30.0, every=5.0), factor=0.005) as server,
        EndpointChat("lab/m", model="m", base_url=server.base_url) as model,
    ):
        assert (await model.complete([Message(role="user", content="Hello.")])).text
