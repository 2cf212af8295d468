"""A bot behind a JSON API of its own (`http:bot.yaml`), asked at real servers on this machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

import heartloop
from heartloop.core.chat import ChatModel, dialogue_id
from heartloop.core.dialogue import Message
from heartloop.core.errors import BotError, InputError, RefusedByServer, TransportError, UseError
from heartloop.models.bots import HttpBot
from heartloop.models.client import Connections
from heartloop.models.names import close, resolve
from tests.commands import heartloop as command
from tests.write_docs import ROOT

DIALOGUE = [
    Message(role="system", content="You are a friend."),
    Message(role="user", content="My dog died."),
    Message(role="assistant", content="Oh no."),
    Message(role="user", content='On "Sunday".'),
]

WHOLE = """
url: http://127.0.0.1:$BOT_PORT/v2/chat
headers:
  Authorization: Bearer ${BOT_TOKEN}
body:
  model: house
  options: {price: 5 $$, beam: 2}
  turns: $dialogue
answer: choices.0.message.text
"""
LAST = """
url: http://127.0.0.1:$BOT_PORT/sessions/$dialogue_id/messages
body: {input: {text: "$last_message", about: $system}, conversation: $session}
answer: reply
session: conversation.id
"""


class Server:
    """A bot's server, with all that it was asked: path, headers, body."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append((request.path, request.headers, body))
        given = self.answer(body)
        if given is None:  # the connection breaks
            assert request.transport is not None
            request.transport.abort()
        if isinstance(given, float):
            await asyncio.sleep(given)
        if isinstance(given, int):
            return web.json_response({"error": "no such thing as Bearer token-of-the-house"}, status=given)
        return given if isinstance(given, web.StreamResponse) else web.json_response(given)


@asynccontextmanager
async def served(answer: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    server = Server(answer)
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("BOT_PORT", str(runner.addresses[0][1]))
    monkeypatch.setenv("BOT_TOKEN", "token-of-the-house")
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def opened(name: str, **how: Any) -> AsyncIterator[ChatModel]:
    """The model, whose pauses between tries are short."""
    model = resolve(name, connections=Connections(8, factor=0.001), **how)
    try:
        yield model
    finally:
        await close([model])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "whole.yaml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "last.yaml").write_text(LAST, encoding="utf-8")
    return tmp_path


# 1. Two shapes


async def test_a_bot_that_takes_the_whole_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        served(lambda body: {"choices": [{"message": {"text": f"{len(body['turns'])} turns"}}]}, monkeypatch) as server,
        opened("http:whole.yaml") as model,
    ):
        reply = await model.complete(DIALOGUE)
    assert (reply.text, reply.usage.estimated) == ("3 turns", True)
    [(path, headers, body)] = server.asked
    assert (path, headers["Authorization"]) == ("/v2/chat", "Bearer token-of-the-house")
    assert body == {
        "model": "house",
        "options": {"price": "5 $", "beam": 2},
        "turns": [{"role": m.role, "content": m.content} for m in DIALOGUE[1:]],
    }


async def test_a_bot_that_keeps_the_dialogue_gets_the_last_message_and_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of heartloop is the same in a dialogue and another in the next; the session is what the server gave the dialogue."""
    count = iter(range(1, 9))

    def answer(body: Any) -> Any:
        return {"reply": f"so, {body['input']['text']}", "conversation": {"id": body["conversation"] or f"c{next(count)}"}}

    async def dialogue(model: ChatModel) -> None:
        dialogue_id.set(uuid4().hex)
        for _ in range(2):
            assert (await model.complete(DIALOGUE)).text == 'so, On "Sunday".'
            await asyncio.sleep(0.01)  # the other dialogue's turn

    async with served(answer, monkeypatch) as server, opened("http:last.yaml") as model:
        await asyncio.gather(dialogue(model), dialogue(model))
    ids = [path.split("/")[2] for path, _, _ in server.asked]
    assert server.asked[0][2]["input"] == {"text": 'On "Sunday".', "about": "You are a friend."}
    by_id = {key: [body["conversation"] for path, _, body in server.asked if key in path] for key in ids}
    assert sorted(by_id.values()) == [["", "c1"], ["", "c2"]]


async def test_a_run_asks_the_bot_in_every_turn_and_again_if_its_file_changed(
    monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    """A cache does not answer for it, since its server may keep the dialogue; a finished run is not played again."""

    def play(text: str) -> int:
        (files / "last.yaml").write_text(text, encoding="utf-8")
        before = len(server.asked)
        heartloop.evaluate("sage", ["http:last.yaml"], user="embedded", limit=1, cache="answers.sqlite", progress=False)
        return len(server.asked) - before

    async with served(lambda body: {"reply": "I hear you.", "conversation": {"id": 7}}, monkeypatch) as server:
        first, second, changed = [await asyncio.to_thread(play, text) for text in (LAST, LAST, LAST + "# changed")]
    assert first == changed > 5
    assert second == 0
    assert len(list((files / "runs").iterdir())) == 2


# 2. What fails


@pytest.mark.parametrize(
    ("answer", "kind", "part", "tries"),
    [
        (500, BotError, "500", 3),
        (503, BotError, "503", 3),  # of a provider a limit on calls, which is waited for
        ({"other": 1}, BotError, "text at reply", 3),
        ({"reply": None}, BotError, "text at reply", 3),
        (web.Response(text="<html>"), BotError, "no JSON with a text", 3),
        (5.0, BotError, "no byte within", 2),
        (422, RefusedByServer, "last.yaml", 1),
        (404, RefusedByServer, "url", 1),
        (None, TransportError, "connection failed", 3),
    ],
    ids=str,
)
async def test_what_its_server_does_is_the_bots_and_the_way_there_is_not(
    answer: Any, kind: type[Exception], part: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(body: Any) -> Any:
        return web.Response(text=answer.text) if isinstance(answer, web.Response) else answer

    async with served(once, monkeypatch) as server, opened("http:last.yaml", timeout=0.3) as model:
        with pytest.raises(kind, match=part) as caught:
            await model.complete(DIALOGUE)
        assert type(caught.value) is kind
    assert len(server.asked) == tries


async def test_no_server_is_the_way_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_PORT", "9")
    async with opened("http:last.yaml") as model:
        with pytest.raises(TransportError, match=r"url in last\.yaml"):
            await model.complete(DIALOGUE)


async def test_a_token_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(lambda body: 500, monkeypatch), opened("http:whole.yaml") as model:
        with pytest.raises(BotError, match=r"Bearer \*\*\*") as caught:
            await model.complete(DIALOGUE)
    assert "token-of" not in str(caught.value) + repr(model)


async def test_a_server_that_fails_is_silence_that_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reply comes, the second never: the dialogue is scored, and counts what failed."""

    def answer(body: Any) -> Any:
        return 500 if body["conversation"] else {"reply": "Tell me more.", "conversation": {"id": 1}}

    async with served(answer, monkeypatch):
        with pytest.warns(RuntimeWarning, match="failed and are scored as silence"):
            run = await asyncio.to_thread(
                lambda: heartloop.evaluate("sage", ["http:last.yaml"], user="embedded", limit=1, retries=0, progress=False)
            )
    [transcript] = run.transcripts
    assert transcript.scored
    assert [turn.error is None for turn in transcript.turns[:2]] == [True, False]


async def test_a_wrong_path_is_found_before_the_first_dialogue(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    async with served(lambda body: {"text": "I hear you."}, monkeypatch):
        done = await asyncio.to_thread(
            command, "eval", "sage", "-m", "http:last.yaml", "--user", "embedded", "--limit", "2", cwd=files
        )
    assert done.code == 2
    assert "text at reply" in done.err
    assert "nothing was played" in done.err


# 3. The file


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("http:missing.yaml", "", r"cannot read missing\.yaml"),
        ("http://127.0.0.1:8000/chat", "", r"expected http:bot\.yaml"),
        ("http:bot.yaml", "url: [", "not YAML"),
        ("http:bot.yaml", "url: http://127.0.0.1:1/", "body: Field required"),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, body: {m: $messages}, answer: a, method: GET}", "method"),
        ("http:bot.yaml", "{url: nowhere, body: {m: $messages}, answer: a}", r"url in bot\.yaml is not an address"),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, body: {m: hello}, answer: a}", r"name \$messages"),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, body: {m: so $messages}, answer: a}", "list of messages into a text"),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, body: {m: $last_message 5 $}, answer: a}", r"\$\$ for a dollar sign"),
        (
            "http:bot.yaml",
            "{url: http://127.0.0.1:1/, body: {m: $last_mesage}, answer: a}",
            r"\$last_mesage, which .* last_message",
        ),
        (
            "http:bot.yaml",
            "{url: http://127.0.0.1:1/, body: {m: $messages, s: $session}, answer: a}",
            r"\$session, which is not set",
        ),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, headers: {K: $NO_KEY}, body: {m: $messages}, answer: a}", "NO_KEY"),
        ("http:bot.yaml", "{url: http://127.0.0.1:1/, headers: {K: ü}, body: {m: $messages}, answer: a}", "header K"),
    ],
)
def test_a_file_that_does_not_fit_says_what_to_correct(name: str, text: str, part: str, files: Path) -> None:
    (files / "bot.yaml").write_text(text, encoding="utf-8")
    with pytest.raises((UseError, InputError), match=part):
        resolve(name)


def test_a_check_of_a_provider_refuses_it(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    monkeypatch.setenv("BOT_PORT", "9")
    done = command("check", "model", "http:last.yaml", "--yes", cwd=files)
    assert (done.code, "expected service/model" in done.err) == (2, True)


# 4. A function with `dialogue_id`


@pytest.mark.parametrize("cached", [False, True])
def test_a_function_that_takes_it_gets_the_id_of_its_dialogue(cached: bool, files: Path) -> None:
    """One id for all turns of a dialogue, another for each; a cache does not answer for a function that may keep dialogues."""
    asked: dict[str, list[int]] = {}

    def remembers(messages: list[dict[str, str]], dialogue_id: str) -> str:
        asked.setdefault(dialogue_id, []).append(len(messages))
        return "I hear you."

    for _ in range(2):
        cache = str(files / "answers.sqlite") if cached else None
        heartloop.evaluate("sage", [remembers], user="embedded", limit=2, repeats=2, cache=cache, progress=False)
        (run,) = (files / "runs").iterdir()
        run.rename(files / f"run-{len(asked)}")
    assert len(asked) == 8
    assert all(turns == sorted(set(turns)) and len(turns) > 1 for turns in asked.values())


# 5. The page


def test_the_files_of_the_page_are_files_of_bots(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_URL", "http://127.0.0.1:8080")
    monkeypatch.setenv("BOT_TOKEN", "token-of-the-house")
    page = (ROOT / "docs" / "your-bot.md").read_text(encoding="utf-8")
    bots = [text for text in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if text.startswith("url:")]
    assert len(bots) == 3
    for text in bots:
        (files / "bot.yaml").write_text(text, encoding="utf-8")
        assert isinstance(resolve("http:bot.yaml"), HttpBot)
