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
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ChatModel, Reply, ScriptedChat, estimate_tokens
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import EndpointStopped, MalformedReply, ModelError, RefusedByServer, TransportError, UseError
from heartloop.models.client import Connections, EndpointChat, pause_before, scrub
from heartloop.models.formats import Trouble, _json, read_refusal, read_reply
from tests.faulty_server import FAULTS, FaultyServer

KEY = "sk-test-0123456789abcdefghijklmnop"
HELLO = [Message(role="system", content="Be kind."), Message(role="user", content="My dog died on Sunday.")]
SCHEMA: dict[str, Any] = {"title": "Answer", "type": "object", "properties": {"a": {"type": "integer"}}}


@asynccontextmanager
async def served(*faults: str, **options: Any) -> AsyncIterator[tuple[FaultyServer, EndpointChat]]:
    """A server with faults, and a client of it whose pauses take a thousandth of their time."""
    of_client: dict[str, Any] = {name: options.pop(name) for name in ("timeout", "retries", "api_key") if name in options}
    shared = Connections(options.pop("connections", 64), factor=options.pop("factor", 0.001))
    async with FaultyServer(*faults, **options) as server, shared:
        settings: dict[str, Any] = {"api_key": KEY, "timeout": 20.0, "connections": shared, **of_client}
        yield server, EndpointChat("lab/small", model="small-1", base_url=server.base_url, **settings)


async def failure(model: ChatModel, kind: type[ModelError], **asked: Any) -> str:
    with pytest.raises(kind) as caught:
        await model.complete(HELLO, **asked)
    return str(caught.value)


async def test_a_call_sends_the_messages_and_only_the_settings_that_are_set() -> None:
    async with served() as (server, model):
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
    assert model.retried.total() == 0


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with served(api_key=None) as (server, model):
        await model.complete(HELLO)
    assert server.requests[0].authorization == ""


async def test_a_schema_is_sent_as_json_schema() -> None:
    async with served() as (server, model):
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
        ("error_500", TransportError, "500"),
        ("error_502", TransportError, "502"),
        ("drop", TransportError, "connection"),
        ("drop_body", TransportError, "connection"),
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
    async with served(f"{fault}:2", retries=3) as (server, model):
        assert (await model.complete(HELLO)).text
        assert len(server.requests) == 3
        assert model.retried.total() == 2
    async with served(fault, retries=1) as (server, model):
        text = await failure(model, kind)
        assert len(server.requests) == 2
        assert text.startswith(f"lab/small at {server.base_url}")
    assert part in text
    assert "2 tries" in text


@pytest.mark.parametrize("fault", ["timeout", "stall"])
async def test_a_timeout_is_tried_once_more_and_counted(fault: str) -> None:
    """The server may have finished the answer, and bills it."""
    async with served(f"{fault}:1", timeout=0.2) as (server, model):
        assert (await model.complete(HELLO)).abandoned == 1
        assert len(server.requests) == 2
    async with served(fault, timeout=0.1) as (server, model):
        with pytest.raises(TransportError, match=r"no byte within 0\.1 s") as caught:
            await model.complete(HELLO)
        assert len(server.requests) == caught.value.abandoned == 2


async def test_retries_are_counted_by_cause() -> None:
    async with served("error_500:1", "timeout:1", "html:1", timeout=0.2, retries=9) as (_, model):
        assert (await model.complete(HELLO)).text
        assert model.retried == {"status 500": 1, "time-out": 1, "no completion": 1}


@pytest.mark.parametrize(("path", "hint"), [("", True), ("/v1", False), ("/openai/v1beta/x", False)])
async def test_404_names_the_path_that_an_address_lacks(path: str, hint: bool) -> None:
    async with FaultyServer() as server:
        address = server.base_url.removesuffix("/v1") + path
        model = EndpointChat("lab/a", model="a", base_url=address if path != "/v1" else f"{address}/no")
        assert ("/v1" in (await failure(model, RefusedByServer)).partition("404")[2]) is hint
        await model.close()


async def test_a_closed_port_is_a_transport_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with Connections(factor=0.001) as shared:
        model = EndpointChat("lab/small", model="m", base_url=address, retries=2, connections=shared)
        text = await failure(model, TransportError)
    assert "3 tries" in text
    assert address.removeprefix("http://").removesuffix("/v1") + " (" in text
    assert "ssl" not in text


def test_backoff_doubles_with_half_of_it_jitter_and_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are drawn between half of and all of 2, 4, 8, 16, 32, 60, 60 s."""
    monkeypatch.setattr(random, "uniform", lambda low, high: (low, high))
    pauses: list[Any] = [pause_before(tries) for tries in range(2, 9)]
    assert [high for _, high in pauses] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert all(low == high / 2 for low, high in pauses)


@pytest.mark.parametrize(
    ("fault", "status", "advice"),
    [
        ("unknown_model", "404", "LAB_BASE_URL"),
        ("bad_request", "400", "sampling settings"),
        ("redirect", "307", "LAB_BASE_URL"),
    ],
)
async def test_a_permanent_fault_raises_at_once_with_advice(fault: str, status: str, advice: str) -> None:
    async with served(fault) as (server, model):
        text = await failure(model, RefusedByServer)
        assert len(server.requests) == 1
    problem, _, todo = text.rpartition("; ")
    assert status in problem
    assert advice in todo


@pytest.mark.parametrize(("fault", "part"), [("unauthorized", "401 Incorrect API key provided: ***"), ("no_quota", "429")])
async def test_an_account_that_answers_no_more_calls_stops_as_a_limit_does(fault: str, part: str) -> None:
    async with served(fault) as (server, model):
        with pytest.raises(EndpointStopped, match="LAB_API_KEY") as caught:
            await model.complete(HELLO)
        assert len(server.requests) == 1
    assert part in str(caught.value)


@pytest.mark.parametrize("fault", ["rate_limit", "rate_limit_bare", "rate_limit_odd", "error_503", "error_in_200"])
async def test_a_limit_costs_no_try_and_one_that_is_never_lifted_stops_all_calls(fault: str) -> None:
    """Pauses and patience take a thousandth: the gate gives up after 0.6 s, or at once where it has to wait a second (1,000)."""
    async with served(f"{fault}:3", retries=0, retry_after="0.1", factor=0.02) as (server, model):
        assert (await model.complete(HELLO)).text
        assert (len(server.requests), model.retried.total()) == (4, 3)
    async with served(fault, retries=0) as (server, model):
        calls = [model.complete(HELLO) for _ in range(20)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, EndpointStopped) for error in ended)
    assert ("503" if "503" in fault or "200" in fault else "429") in str(ended[0])


async def test_a_long_message_is_shortened() -> None:
    trouble = read_refusal(400, b'{"message": "' + b"far too long " * 500 + b'"}')
    async with served("unknown_model") as (_, model):
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
    async with served(fault, answer=lambda _: "All of it.") as (server, model):
        reply = await model.complete(HELLO)
        assert len(server.requests) == 1
    assert (reply.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize("fault", ["reasoning", "parts"])
async def test_reasoning_beside_the_answer_is_separate(fault: str) -> None:
    async with served(fault, answer=lambda _: "All of it.") as (_, model):
        reply = await model.complete(HELLO)
    assert (reply.text, reply.reasoning) == ("All of it.", "They sound hurt.")


async def test_tokens_are_estimated_where_the_server_does_not_count() -> None:
    """8 and 22 characters asked, 10 answered, at four characters a token: 2 + 6, and 3."""
    async with served("no_usage", answer=lambda _: "All of it.") as (_, model):
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
    async with served(*faults) as (server, model):
        await model.complete(HELLO, schema=SCHEMA)
        await model.complete(HELLO, schema=SCHEMA)
        await model.complete(HELLO)
        assert [body.get("response_format", {}).get("type") for body in server.bodies] == [*formats, None]
        assert model.retried.total() == 0
        assert model.dropped == {"response_format": 2}


async def test_max_tokens_becomes_max_completion_tokens() -> None:
    async with served("no_max_tokens") as (server, model):
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
    async with served(f"no_{name}") as (server, model):
        for _ in range(3):
            await model.complete(HELLO, sampling=Sampling(temperature=0.5, top_p=0.9, seed=3))
    assert [name in body for body in server.bodies] == [True, False, False, False]
    assert all("top_p" in body for body in server.bodies)
    assert model.dropped == {name: 3}


async def test_several_unsupported_settings_are_detected_in_one_call() -> None:
    faults = ["no_max_tokens", "no_temperature", "no_seed", "no_json"]
    async with served(*faults) as (server, model):
        sampling = Sampling(temperature=0.5, seed=3, max_tokens=9)
        assert (await model.complete(HELLO, schema=SCHEMA, sampling=sampling)).text
        asked = len(server.requests)
        await model.complete(HELLO, schema=SCHEMA, sampling=sampling)
        assert len(server.requests) == asked + 1
    assert server.bodies[-1].keys() == {"model", "messages", "max_completion_tokens"}


async def test_a_fault_that_does_not_depend_on_a_setting_is_not_remembered() -> None:
    """A context that is too long names no schema, so the call fails at once, and the next one sends the schema again."""
    async with served("bad_request:1") as (server, model):
        await failure(model, RefusedByServer, schema=SCHEMA)
        assert len(server.requests) == 1
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
    async with served("error_500:0.1", "drop:0.05", delay=0.005, connections=40) as (server, model):
        ask = [[Message(role="user", content=f"Call {number}.")] for number in range(300)]
        replies = await asyncio.gather(*(model.complete(messages) for messages in ask))
        assert len(replies) == 300
        assert all(reply.text for reply in replies)
        assert server.most_in_flight <= 40
        assert server.most_in_flight > 8
        assert server.fired["error_500"] > 5
        assert len(server.requests) == 300 + model.retried.total()


async def test_waiting_for_a_slot_is_not_a_timeout() -> None:
    async with served(delay=0.1, connections=1, timeout=0.4, retries=0) as (_, model):
        assert len(await asyncio.gather(*(model.complete(HELLO) for _ in range(8)))) == 8


async def test_a_slot_is_free_while_a_call_waits_for_its_retry() -> None:
    """With one connection and pauses of half a second, the second call ends before the first is sent again."""
    async with FaultyServer("error_500:1") as server, Connections(1, factor=0.3) as shared:
        model = EndpointChat("lab/m", model="m", base_url=server.base_url, connections=shared)
        first = asyncio.create_task(model.complete(HELLO))
        while not server.fired:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await model.complete(HELLO)
        assert not first.done()
        await first


async def test_a_cancelled_call_releases_its_slot() -> None:
    async with served("timeout:1", connections=1) as (server, model):
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
    async with served(fault, retries=1, answer=lambda _: f"Your key is {KEY}, isn't it?") as (_, model):
        try:
            shown += repr(await model.complete(HELLO, schema=SCHEMA, sampling=Sampling(max_tokens=5, seed=1)))
        except (ModelError, EndpointStopped) as error:
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
    async with served(api_key="EMPTY", answer=lambda _: "The house is so EMPTY now.") as (_, model):
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
