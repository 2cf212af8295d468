"""The endpoint client, against a local HTTP server that injects faults."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ChatModel, Reply, ScriptedChat, estimate_tokens
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import MalformedReply, ModelError, RefusedByServer, TransportError, UseError
from heartloop.models.client import Connections, EndpointChat, scrub
from heartloop.models.formats import Trouble, _json, read_refusal, read_reply
from tests.faulty_server import FAULTS, FaultyServer

KEY = "sk-test-0123456789abcdefghijklmnop"
HELLO = [Message(role="system", content="Be kind."), Message(role="user", content="My dog died on Sunday.")]
SCHEMA: dict[str, Any] = {"title": "Answer", "type": "object", "properties": {"a": {"type": "integer"}}}


class Clock:
    """Replaces `asyncio.sleep`: records the seconds and returns at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def served(*faults: str, **options: Any) -> AsyncIterator[tuple[FaultyServer, EndpointChat, Clock]]:
    """A server with faults, a client of it, and the client's clock."""
    of_client: dict[str, Any] = {
        name: options.pop(name) for name in ("timeout", "retries", "connections", "api_key") if name in options
    }
    clock = Clock()
    async with FaultyServer(*faults, **options) as server:
        settings: dict[str, Any] = {"api_key": KEY, "timeout": 20.0, **of_client}
        async with EndpointChat("lab/small", model="small-1", base_url=server.base_url, sleep=clock, **settings) as model:
            yield server, model, clock


async def failure(model: ChatModel, kind: type[ModelError], **asked: Any) -> str:
    with pytest.raises(kind) as caught:
        await model.complete(HELLO, **asked)
    return str(caught.value)


async def test_a_call_sends_the_messages_and_only_the_settings_that_are_set() -> None:
    async with served() as (server, model, _):
        assert isinstance(model, ChatModel)
        reply = await model.complete(HELLO)
        await model.complete(HELLO, sampling=Sampling(temperature=0.0, top_p=0.9, max_tokens=50, seed=7))
    plain, full = server.bodies
    assert plain == {"model": "small-1", "messages": [m.model_dump() for m in HELLO]}
    assert {k: full[k] for k in full.keys() - plain.keys()} == {"temperature": 0.0, "top_p": 0.9, "max_tokens": 50, "seed": 7}
    assert server.requests[0].authorization == f"Bearer {KEY}"
    assert reply.finish_reason == "stop"
    assert reply.reasoning is None
    assert reply.usage == Usage(prompt_tokens=7, completion_tokens=len(reply.text.split()))
    assert model.retried == 0


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with served(api_key=None) as (server, model, _):
        await model.complete(HELLO)
    assert server.requests[0].authorization == ""


async def test_a_schema_is_sent_as_json_schema() -> None:
    async with served() as (server, model, _):
        await model.complete(HELLO, schema=SCHEMA)
        await model.complete(HELLO, schema={**SCHEMA, "title": f"An answer {'x' * 80}"})
    assert server.bodies[1]["response_format"]["json_schema"]["name"] == "Ananswer" + 56 * "x"
    assert server.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Answer", "strict": False, "schema": SCHEMA},
    }


@pytest.mark.parametrize(
    ("fault", "kind", "part"),
    [
        ("rate_limit", TransportError, "429"),
        ("rate_limit_bare", TransportError, "429"),
        ("rate_limit_odd", TransportError, "429"),
        ("error_500", TransportError, "500"),
        ("error_502", TransportError, "502"),
        ("error_503", TransportError, "503 503 Service Unavailable"),  # tags, styles and scripts are left out
        ("drop", TransportError, "connection"),
        ("drop_body", TransportError, "connection"),
        ("error_in_200", TransportError, "503"),
        ("truncated_json", MalformedReply, "not JSON"),
        ("html", MalformedReply, "Please log in"),
        ("empty_choices", MalformedReply, "choice"),
        ("broke_off", MalformedReply, "finish_reason 'error'"),
        ("huge", MalformedReply, "4 MiB"),
        ("huge_stream", MalformedReply, "4 MiB"),
        ("bad_utf8", MalformedReply, "not JSON"),
        ("garbage", MalformedReply, "not JSON"),
        ("bad_gzip", TransportError, "connection"),
        ("no_http", TransportError, "connection"),
        ("wrong_types", MalformedReply, "choice"),
    ],
)
async def test_a_transient_fault_is_retried_and_a_lasting_one_raises(fault: str, kind: type[ModelError], part: str) -> None:
    async with served(f"{fault}:2", retries=3) as (server, model, clock):
        assert (await model.complete(HELLO)).text
        assert len(server.requests) == 3
        assert model.retried == len(clock.slept) == 2
    async with served(fault, retries=1) as (server, model, _):
        text = await failure(model, kind)
        assert len(server.requests) == 2
        assert text.startswith(f"lab/small at {server.base_url}")
    assert part in text
    assert "2 tries" in text


async def test_a_timeout_is_retried() -> None:
    for fault in ("timeout:1", "stall:1"):
        async with served(fault, timeout=0.2) as (server, model, _):
            assert (await model.complete(HELLO)).text
            assert len(server.requests) == 2
    async with served("timeout", timeout=0.1, retries=1) as (_, model, _):
        assert "within 0.1 s" in await failure(model, TransportError)


async def test_a_closed_port_is_a_transport_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        async with EndpointChat("lab/small", model="m", base_url=address, retries=2, sleep=Clock()) as model:
            text = await failure(model, TransportError)
    assert "3 tries" in text
    assert address.removeprefix("http://").removesuffix("/v1") + " (" in text
    assert "ssl" not in text


async def test_backoff_doubles_with_half_of_it_jitter_and_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are drawn between half of and all of 2, 4, 8, 16, 32, 60, 60 s."""
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    async with served("error_500", retries=7) as (_, model, clock):
        await failure(model, TransportError)
    assert clock.slept == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    monkeypatch.setattr(random, "uniform", lambda low, high: low)
    async with served("error_500", retries=2) as (_, model, clock):
        await failure(model, TransportError)
    assert clock.slept == [1.0, 2.0]


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("17", 17.0, 21.25), ("900", 60.0, 60.0), ("Wed, 21 Oct 2099 07:28:00 GMT", 60.0, 60.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1.0, 2.0), ("soon", 1.0, 2.0), ("nan", 1.0, 2.0), ("-5", 1.0, 2.0), (None, 1.0, 2.0),
    ],
)  # fmt: skip
async def test_retry_after_is_honoured_up_to_a_minute(header: str | None, least: float, most: float) -> None:
    async with served("rate_limit:1", retry_after=header) as (_, model, clock):
        await model.complete(HELLO)
    assert least <= clock.slept[0] <= most


async def test_a_retry_after_date_is_counted_from_now() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    async with served("rate_limit:1", retry_after=date) as (_, model, clock):
        await model.complete(HELLO)
    assert 27.0 <= clock.slept[0] <= 37.5


@pytest.mark.parametrize(
    ("fault", "status", "advice"),
    [
        ("unauthorized", "401 Incorrect API key provided: ***. Header was Bearer ***", "LAB_API_KEY"),
        ("unknown_model", "404", "LAB_BASE_URL"),
        ("bad_request", "400", "sampling settings"),
        ("no_quota", "429", "LAB_API_KEY"),
        ("redirect", "307", "LAB_BASE_URL"),
    ],
)
async def test_a_permanent_fault_raises_at_once_with_advice(fault: str, status: str, advice: str) -> None:
    async with served(fault) as (server, model, clock):
        text = await failure(model, RefusedByServer)
        assert len(server.requests) == 1
    problem, _, todo = text.rpartition("; ")
    assert status in problem
    assert advice in todo
    assert not clock.slept


async def test_a_long_message_is_shortened() -> None:
    trouble = read_refusal(400, b'{"message": "' + b"far too long " * 500 + b'"}')
    async with served("unknown_model") as (_, model, _):
        cleaned = model._scrubbed(trouble)
    assert len(cleaned.text) == 240
    assert cleaned.text.endswith("...")


@pytest.mark.parametrize(
    ("address", "key", "variable"),
    [
        *((text, None, "LAB_BASE_URL") for text in ("", "127.0.0.1:8000", "ftp://host/v1", "http:///v1", "http://host:port/v1")),
        ("http://[bad/v1", None, "LAB_BASE_URL"),
        ("http://me:hunter2@host/v1", None, "LAB_API_KEY"),
        ("http://host/v1", f"{KEY}\nX-Evil: 1", "LAB_API_KEY"),
    ],
)
def test_a_malformed_address_or_key_is_refused_without_repeating_a_secret(address: str, key: str | None, variable: str) -> None:
    with pytest.raises(UseError, match=variable) as caught:
        EndpointChat("lab/small", model="m", base_url=address, api_key=key)
    assert "hunter2" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "text", "finish"),
    [
        ("null_content", "", "stop"),
        ("content_filter", "", "content_filter"),
        ("refusal", "I can't help with that.", "stop"),
        ("half_emoji", "All of it. \ufffd", "stop"),
        ("length", "All o", "length"),
        ("parts", "All of it.", "stop"),
        ("thinking", "<think>They sound hurt.</think>\n\nAll of it.", "stop"),
    ],
)
async def test_any_answer_of_a_policy_is_a_reply(fault: str, text: str, finish: str) -> None:
    async with served(fault, answer=lambda _: "All of it.") as (server, model, _):
        reply = await model.complete(HELLO)
        assert len(server.requests) == 1
    assert (reply.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize("fault", ["reasoning", "parts"])
async def test_reasoning_beside_the_answer_is_separate(fault: str) -> None:
    async with served(fault, answer=lambda _: "All of it.") as (_, model, _):
        reply = await model.complete(HELLO)
    assert (reply.text, reply.reasoning) == ("All of it.", "They sound hurt.")


async def test_tokens_are_estimated_where_the_server_does_not_count() -> None:
    """8 and 22 characters asked, 10 answered, at four characters a token: 2 + 6, and 3."""
    async with served("no_usage", answer=lambda _: "All of it.") as (_, model, _):
        reply = await model.complete(HELLO)
    assert reply.usage == Usage(prompt_tokens=8, completion_tokens=3, estimated=True)


def _body(message: Any, finish: Any = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def test_further_shapes_of_an_answer() -> None:
    def text(message: Any, finish: Any = "stop", **more: Any) -> Any:
        found = read_reply(_body(message, finish, **more), HELLO)
        return found.text if isinstance(found, Reply) else None

    assert text({}) == "", "content missing"
    assert text({"content": None}, "length") == ""
    assert text({"content": None}, None) is None, "neither content nor an end"
    assert text({"content": "a"}, None) == "a"
    assert text({"content": "a"}, {"odd": 1}) == "a"
    assert text({"content": ["a", {"type": "text", "text": "b"}, {"type": "image"}]}) == "ab"
    assert text({"content": [{"type": "refusal", "refusal": "No."}]}) == "No."
    assert text({"content": 7}) is None
    assert text({"content": [7]}) is None
    assert text("a") is None
    assert text({"content": "a"}, usage={"prompt_tokens": True, "completion_tokens": -1}) == "a"
    beside = read_reply(_body({"content": "a", "reasoning": "hm"}), HELLO)
    assert isinstance(beside, Reply)
    assert beside.reasoning == "hm"


FIELDS = ["choices", "message", "content", "finish_reason", "usage", "error", "detail", "loc", "code", "type", "thinking"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
)


@given(st.binary() | JSON)
def test_whatever_body_comes_is_a_reply_or_trouble(body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    wrapped = _body(body) if not isinstance(body, bytes) else data
    for found in (read_reply(data, HELLO), read_reply(wrapped, HELLO), read_refusal(400, data)):
        assert isinstance(found, Reply | Trouble)


ODD_JSON = ['{"a": 1, "a": 2}', "[NaN, -Infinity, 1e999, -0.0, 0.1]", '"\\ud83d"', "[" * 300 + "]" * 300, '\ufeff{"a": 1}']
NO_JSON = ["1" * 4301, '"\t"', "01", "", "{", "'a'", "1 2"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_body_is_read_as_the_standard_library_reads_it(encoding: str) -> None:
    """The fast reader falls back to the standard one: half an emoji, deep nesting and other encodings are read the same."""

    def outcome(read: Callable[[bytes], Any], text: str) -> str:
        try:
            return repr(read(text.encode(encoding)))
        except ValueError:
            return "refused"

    for text in (*ODD_JSON, *NO_JSON):
        assert outcome(_json, text) == outcome(json.loads, text), text
        assert outcome(_json, text) != "refused" or text not in ODD_JSON or encoding == "utf-16", text


@given(JSON, st.sampled_from(["utf-8", "utf-16-le"]), st.booleans())
def test_whatever_json_comes_is_read_as_the_standard_library_reads_it(found: Any, encoding: str, escaped: bool) -> None:
    data = json.dumps(found, ensure_ascii=escaped).encode(encoding, "surrogatepass")
    assert _json(data) == found


@pytest.mark.parametrize(
    ("faults", "formats"),
    [(["no_schema"], ["json_schema", "json_object", "json_object"]), (["no_json"], ["json_schema", "json_object", None, None])],
)
async def test_a_schema_falls_back_to_json_then_to_the_prompt(faults: list[str], formats: list[str | None]) -> None:
    async with served(*faults) as (server, model, clock):
        await model.complete(HELLO, schema=SCHEMA)
        await model.complete(HELLO, schema=SCHEMA)
        await model.complete(HELLO)
        assert [body.get("response_format", {}).get("type") for body in server.bodies] == [*formats, None]
        assert (model.retried, clock.slept) == (0, [])
        assert model.dropped == {"response_format": 2}


async def test_max_tokens_becomes_max_completion_tokens() -> None:
    async with served("no_max_tokens") as (server, model, _):
        for _ in range(2):
            await model.complete(HELLO, sampling=Sampling(max_tokens=50))
    assert [("max_tokens" in body, body.get("max_completion_tokens")) for body in server.bodies] == [
        (True, None),
        (False, 50),
        (False, 50),
    ]
    assert not model.dropped, "it was renamed, nothing was dropped"


@pytest.mark.parametrize("name", ["temperature", "seed"])
async def test_a_setting_that_is_refused_by_name_is_dropped_and_counted(name: str) -> None:
    async with served(f"no_{name}") as (server, model, _):
        for _ in range(3):
            await model.complete(HELLO, sampling=Sampling(temperature=0.5, top_p=0.9, seed=3))
    assert [name in body for body in server.bodies] == [True, False, False, False]
    assert all("top_p" in body for body in server.bodies)
    assert model.dropped == {name: 3}


async def test_several_unsupported_settings_are_detected_in_one_call() -> None:
    faults = ["no_max_tokens", "no_temperature", "no_seed", "no_json"]
    async with served(*faults) as (server, model, _):
        sampling = Sampling(temperature=0.5, seed=3, max_tokens=9)
        assert (await model.complete(HELLO, schema=SCHEMA, sampling=sampling)).text
        asked = len(server.requests)
        await model.complete(HELLO, schema=SCHEMA, sampling=sampling)
        assert len(server.requests) == asked + 1
    assert server.bodies[-1].keys() == {"model", "messages", "max_completion_tokens"}


async def test_a_fault_that_does_not_depend_on_a_setting_is_not_remembered() -> None:
    """A context that is too long is refused with and without a schema; the next call sends the schema again."""
    async with served("bad_request:3") as (server, model, _):
        await failure(model, RefusedByServer, schema=SCHEMA)
        assert len(server.requests) == 3
        await model.complete(HELLO, schema=SCHEMA)
    assert server.bodies[-1]["response_format"]["type"] == "json_schema"
    assert not model.dropped


async def test_models_that_share_connections_share_what_was_detected() -> None:
    async with FaultyServer("no_json") as server, Connections(4) as shared:
        one, two = (EndpointChat("lab/small", model="small", base_url=server.base_url, connections=shared) for _ in range(2))
        await one.complete(HELLO, schema=SCHEMA)
        asked = len(server.requests)
        await two.complete(HELLO, schema=SCHEMA)
        assert len(server.requests) == asked + 1


async def test_three_hundred_calls_are_all_answered_with_no_more_in_flight_than_allowed() -> None:
    async with served("error_500:0.1", "drop:0.05", delay=0.005, connections=40) as (server, model, _):
        ask = [[Message(role="user", content=f"Call {number}.")] for number in range(300)]
        replies = await asyncio.gather(*(model.complete(messages) for messages in ask))
        assert len(replies) == 300
        assert all(reply.text for reply in replies)
        assert server.most_in_flight <= 40
        assert server.most_in_flight > 20
        assert server.fired["error_500"] > 5
        assert len(server.requests) == 300 + model.retried


async def test_waiting_for_a_slot_is_not_a_timeout() -> None:
    async with served(delay=0.1, connections=1, timeout=0.4, retries=0) as (_, model, _):
        assert len(await asyncio.gather(*(model.complete(HELLO) for _ in range(8)))) == 8


async def test_a_slot_is_free_while_a_call_waits_for_its_retry() -> None:
    async with FaultyServer("rate_limit:1") as server:
        others: list[Reply] = []

        async def sleep(_: float) -> None:
            others.append(await asyncio.wait_for(model.complete(HELLO), 5))

        async with EndpointChat("lab/m", model="m", base_url=server.base_url, connections=1, sleep=sleep) as model:
            await model.complete(HELLO)
    assert len(others) == 1


async def test_a_cancelled_call_releases_its_slot() -> None:
    async with served("timeout:1", connections=1) as (server, model, _):
        call = asyncio.create_task(model.complete(HELLO))
        while not server.requests:  # noqa: ASYNC110 - it has the fault, and not the call that follows
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await asyncio.wait_for(model.complete(HELLO), 5)).text


def test_a_closed_client_opens_again_in_another_loop() -> None:
    async def once(model: EndpointChat, server: FaultyServer) -> None:
        async with server:
            model._url = f"{server.base_url}/chat/completions"
            assert (await model.complete(HELLO)).text
            await model.close()

    model = EndpointChat("lab/small", model="m", base_url="http://127.0.0.1:1/v1", connections=1)
    for _ in range(2):
        asyncio.run(once(model, FaultyServer()))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UseError, match="connections is 0"):
        EndpointChat("lab/small", model="m", base_url="http://host/v1", connections=0)


async def test_a_proxy_of_the_environment_is_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyServer() as proxy, FaultyServer() as near:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with EndpointChat("lab/far", model="m", base_url="http://far.invalid/v1", retries=0) as far:
            assert (await far.complete(HELLO)).text
        async with EndpointChat("lab/near", model="m", base_url=near.base_url) as model:
            await model.complete(HELLO)
        assert (len(proxy.requests), len(near.requests)) == (1, 1)


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"timeout", "stall"}))
async def test_the_key_is_in_no_error_repr_log_or_traceback(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """The server repeats the key in every answer; tracebacks are formatted with the values of all local variables."""
    caplog.set_level(logging.DEBUG)
    shown = ""
    async with served(fault, retries=1, answer=lambda _: f"Your key is {KEY}, isn't it?") as (_, model, _):
        try:
            shown += repr(await model.complete(HELLO, schema=SCHEMA, sampling=Sampling(max_tokens=5, seed=1)))
        except ModelError as error:
            report = traceback.TracebackException.from_exception(error, capture_locals=True)
            shown += f"{error!r}{''.join(report.format())}"
        shown += f"{model!r}{model}{vars(model)!r}{vars(model._connections)!r}"
    assert KEY not in shown + caplog.text
    assert KEY[:12] not in shown + caplog.text


@pytest.mark.parametrize(
    "text", [f"bad key {KEY}", f"Bearer {KEY}!", f"key {KEY[:-6]} is cut", "url ?key=a%2Bb%2Fc%3D0123456789", "a+b/c=0123456789"]
)
def test_scrubbing_finds_the_key_whole_encoded_or_cut(text: str) -> None:
    secret = KEY if KEY[:8] in text else "a+b/c=0123456789"
    assert "***" in scrub(text, secret)
    assert secret[:10] not in scrub(text, secret)


def test_scrubbing_leaves_other_text_alone() -> None:
    assert scrub("nothing to see", KEY) == "nothing to see"
    assert scrub("no key at all", "") == "no key at all"
    assert scrub("a b c", "b") == "a b c"


async def test_a_short_placeholder_key_is_not_scrubbed() -> None:
    async with served(api_key="EMPTY", answer=lambda _: "The house is so EMPTY now.") as (_, model, _):
        assert (await model.complete(HELLO)).text == "The house is so EMPTY now."


async def test_scripted_answers_in_order_raises_and_counts() -> None:
    model = ScriptedChat(["one", TransportError("down"), Reply("three", finish_reason="length")], name="fake")
    assert isinstance(model, ChatModel)
    assert (await model.complete(HELLO, schema=SCHEMA)).text == "one"
    with pytest.raises(TransportError, match="down"):
        await model.complete(HELLO)
    assert (await model.complete(HELLO, sampling=Sampling(seed=1))).finish_reason == "length"
    with pytest.raises(ModelError, match=r"3 answers.*call 4"):
        await model.complete(HELLO)
    assert model.asked == [tuple(HELLO)] * 4
    assert model.schemas[0] is SCHEMA
    assert model.samplings[2] == Sampling(seed=1)


@given(st.text())
def test_an_estimate_is_never_below_the_words_nor_a_quarter_of_the_characters(text: str) -> None:
    assert estimate_tokens(text) >= len(text.split())
    assert len(text) / 4 <= max(estimate_tokens(text), len(text.split()))
    assert estimate_tokens("") == 0
