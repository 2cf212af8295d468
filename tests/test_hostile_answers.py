"""What a server may answer that nobody expects, and what it must not do to a run."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message
from heartloop.core.errors import EndpointStopped, MalformedReply, ModelError
from heartloop.models.client import EndpointChat, scrub
from heartloop.models.formats import Habits, Trouble, read_refusal, read_reply
from tests.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("no_pauses")
HELLO = [Message(role="user", content="Hello there")]
KEY = "CANARY-KEY-0123456789abcdef"


def completion(**choice: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop", **choice}]}).encode()


def client(server: FaultyServer, **how: Any) -> EndpointChat:
    settings = {"model": "m", "base_url": server.base_url, "api_key": KEY, "timeout": 20.0, **how}
    return EndpointChat("lab/small", **settings)


# 1. memory and time


@pytest.mark.parametrize("fault", ["huge", "huge_stream"])
async def test_an_answer_too_large_is_never_held_whole(fault: str) -> None:
    async with FaultyServer("error_500:1") as server, client(server, retries=1) as model:
        await model.complete(HELLO)  # imports and pools
        server.faults = FaultyServer(fault).faults
        tracemalloc.start()
        try:
            with pytest.raises(MalformedReply, match="more than 4 MiB"):
                await model.complete(HELLO)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # the server is in this process, too, and holds its 10 MB three times; 4 MiB of a stream are held by the client
    assert held < (50 if fault == "huge" else 12) * 2**20


@pytest.mark.parametrize("said", ["unknown " * 500_000, "<" * 500_000, "<script " * 100_000, "max_tokens " * 100_000])
def test_a_long_complaint_is_read_in_no_time(said: str) -> None:
    """Searching it for the name of a parameter took time by its square, with every other call waiting."""
    started = time.monotonic()
    trouble = read_refusal(400, json.dumps({"error": {"message": said}}).encode())
    Habits().without(trouble, {"max_tokens": 5, "seed": 1})
    read_refusal(400, said.encode())
    assert time.monotonic() - started < 1.0
    assert len(trouble.text) < 30_000


# 2. wrong types


@pytest.mark.parametrize("count", [10**400, 10**10, -1, True, "7", None, 1e300])
def test_a_count_that_cannot_be_is_estimated_instead(count: Any) -> None:
    """10^400 tokens would end in an overflow as soon as a price is put to them."""
    body = json.loads(completion())
    body["usage"] = {"prompt_tokens": count, "completion_tokens": 5}
    reply = read_reply(json.dumps(body).encode(), HELLO)
    assert isinstance(reply, Reply)
    assert reply.usage.estimated
    assert reply.usage.total < 100


@pytest.mark.parametrize("body", [b'{"a":' * 100_000, b"[" * 100_000, b"9" * 10_000, b"", b"\xff\xfe", b"null", b"[]", b'"x"'])
@pytest.mark.parametrize("status", [200, 400, 503])
def test_any_body_is_a_reply_or_trouble(body: bytes, status: int) -> None:
    outcome = read_reply(body, HELLO) if status == 200 else read_refusal(status, body)
    assert isinstance(outcome, Trouble)


# 3. secrets


@pytest.mark.parametrize("before", ["", "B", "Be", "Bearer ", "x-api-key: "])
@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_hides_no_key(before: str, alphabet: Any) -> None:
    secret = "CANARY+/?>>~KEY-0123456789"
    code = alphabet((before + secret + " and more").encode()).decode()
    shown = scrub(f"You sent {code}, I think.", secret)
    assert shown.startswith("You sent ")
    assert shown.endswith("***, I think.")
    assert code[-24:] not in shown


@pytest.mark.parametrize("form", [KEY, f"Bearer {KEY}", base64.b64encode(KEY.encode()).decode()])
@pytest.mark.parametrize("place", ["finish_reason", "content", "reasoning"])
async def test_a_key_said_back_is_kept_nowhere(place: str, form: str) -> None:
    class Echo(FaultyServer):
        def __init__(self) -> None:
            super().__init__(answer=lambda _: form if place == "content" else "Yes.")

    def choice(kind: str | None, content: str, asked: Any) -> dict[str, Any]:
        message = {"content": content, "reasoning": form if place == "reasoning" else None}
        return {"choices": [{"message": message, "finish_reason": form if place == "finish_reason" else "stop"}]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.faulty_server._completion", choice)
        async with Echo() as server, client(server) as model:
            reply = await model.complete(HELLO)
    assert "***" in repr(reply)
    assert form not in repr(reply)
    assert KEY not in repr(reply)


@pytest.mark.parametrize("fault", ["no_http", "bad_gzip", "unauthorized", "redirect", "drop"])
async def test_a_key_in_the_address_is_in_no_error(fault: str) -> None:
    """aiohttp repeats the whole address in some of its errors; `api-version` and the like are no secret."""
    async with FaultyServer(fault) as server:
        address = f"{server.base_url}?api-version=2024-10-21&api-key=QUERY%2BCANARY-0123456789"
        async with client(server, base_url=address, retries=0) as model:
            with pytest.raises((ModelError, EndpointStopped)) as caught:
                await model.complete(HELLO)
    assert "CANARY" not in f"{caught.value}{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}{model!r}"
