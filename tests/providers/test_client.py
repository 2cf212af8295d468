"""The client, and whole runs, at servers that behave as providers document. Times are those of the provider (`clock`)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from heartloop import evaluate
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage, read_transcripts, total_usage
from heartloop.core.errors import Moderated, PromptCut, RefusedByServer, TransportError, UseError
from heartloop.evaluation.api import Run
from heartloop.models.budget import Meter, Metered, Price
from heartloop.models.client import EndpointChat
from tests.commands import _run
from tests.providers.clock import Clock
from tests.providers.servers import (
    AccountEnds,
    AnswerModeration,
    BasicAuthProxy,
    BlankLines,
    CachedInput,
    IgnoredFields,
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

KEY = "sk-lab-0123456789abcdef"
HELLO = [Message(role="system", content="Answer in json."), Message(role="user", content="My dog died on Sunday.")]
SCHEMA = {"title": "A", "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"]}


def endpoint(server: Provider, **more: Any) -> EndpointChat:
    return EndpointChat("lab/m", **{"model": "m", "base_url": server.base_url, "api_key": KEY, **more})


async def answers(model: EndpointChat, calls: int = 1, **how: Any) -> list[Reply]:
    """One call after the other."""
    async with model:
        return [await model.complete(HELLO, **how) for _ in range(calls)]


@pytest.fixture
def play(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run of SAGE with policy and user simulator at one server."""

    def played(server: Provider, environment: str = "sage", **more: Any) -> Run:
        monkeypatch.setenv("LAB_BASE_URL", server.base_url)
        monkeypatch.setenv("LAB_API_KEY", KEY)
        options = more.pop("options", {"max_turns": 2} if environment == "sage" else {})
        settings = {"user": "lab/person", "limit": 2, "yes": True, "out": tmp_path / "run", "progress": False, **more}
        return evaluate(environment, "lab/policy", options=options, **settings)

    return played


def is_policy(body: Mapping[str, Any]) -> bool:
    return body["model"] == "policy" and len(body["messages"]) > 1  # not the question before a run


def is_person(body: Mapping[str, Any]) -> bool:
    return body["model"] == "person" and len(body["messages"][0]["content"]) > 100


# Waiting


def test_blank_lines_are_no_silence(clock: Clock) -> None:
    server = Provider(BlankLines(queue=590.0, every=15.0))
    with clock.serving(server):
        clock.run(answers(endpoint(server, timeout=60.0)))
    assert (len(server.calls), server.finished) == (1, 1)


def test_silence_is_bought_twice_at_most_and_both_are_charged(clock: Clock) -> None:
    server, meter = Provider(latency=400.0), Meter()

    async def asked() -> None:
        async with endpoint(server, timeout=300.0) as model:
            with pytest.raises(TransportError, match="--timeout"):
                await Metered(model, meter, "policy").complete(HELLO, sampling=Sampling(max_tokens=100))
        await asyncio.sleep(400.0)

    with clock.serving(server):
        clock.run(asked())
    assert (len(server.calls), server.finished) == (2, 2)
    spent = meter.spend()
    assert spent.estimated
    assert spent.prompt_tokens == pytest.approx(server.billed["prompt"], rel=0.5)
    assert spent.completion_tokens == 200


@pytest.mark.parametrize(("timeout", "answered"), [(300.0, False), (900.0, True)])
def test_a_whole_attempt_takes_ten_minutes_unless_the_time_out_is_longer(
    timeout: float,
    answered: bool,
    clock: Clock,
) -> None:
    server = Provider(BlankLines(queue=700.0, closes=1000.0))
    with clock.serving(server):
        if answered:
            clock.run(answers(endpoint(server, timeout=timeout)))
        else:
            with pytest.raises(TransportError, match="600 s"):
                clock.run(answers(endpoint(server, timeout=timeout)))
    assert len(server.calls) == (1 if answered else 2)


def test_a_server_that_answers_one_call_at_a_time_serves_32_dialogues(play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(OneAnswerAtATime(), latency=5.0)
    with clock.serving(server):
        run = play(server, limit=32, options={"max_turns": 1}, timeout=60)
    assert [one.scored for one in run.transcripts] == [True] * 32
    assert server.abandoned == 0
    assert server.finished == len(server.calls)


# Structured output


def test_after_one_bad_generation_the_schema_is_sent_again(play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(OneBadGeneration())
    with clock.serving(server):
        run = play(server)
    assert [one.scored for one in run.transcripts] == [True, True]
    assert server.refused[400] == 1
    formats = {call.body.get("response_format", {}).get("type") for call in server.calls if is_person(call.body)}
    assert formats == {"json_schema"}


def test_a_generation_that_broke_its_schema_is_charged(clock: Clock) -> None:
    server, meter = Provider(OneBadGeneration()), Meter()

    async def asked() -> None:
        async with endpoint(server) as model:
            await Metered(model, meter, "user").complete(HELLO, schema=SCHEMA)

    with clock.serving(server):
        clock.run(asked())
    assert meter.spend().estimated
    assert meter.spend().prompt_tokens == pytest.approx(server.billed["prompt"], rel=0.2)


def test_a_schema_that_is_refused_becomes_a_json_object_for_the_rest_of_the_run(clock: Clock) -> None:
    server = Provider(RefusedFields("deepseek"))
    with clock.serving(server):
        model = endpoint(server)
        clock.run(answers(model, 4, schema=SCHEMA))
    assert [call.body["response_format"]["type"] for call in server.calls] == ["json_schema", *["json_object"] * 4]
    assert model.dropped["response_format"] == 4


@pytest.mark.parametrize("part", [RefusedFields("deepseek"), IgnoredFields()], ids=["refused", "ignored"])
def test_runs_without_schemas(part: Part, play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(part)
    with clock.serving(server):
        run = play(server)
    assert [one.scored for one in run.transcripts] == [True, True]


# Fields


@pytest.mark.parametrize(
    ("form", "refused", "left_out"),
    [
        ("mistral", 1, {"seed"}),
        ("anthropic", 2, {"temperature", "top_p"}),
        ("anthropic_both", 1, {"temperature", "top_p"}),
        ("openai", 2, {"temperature"}),  # and `max_tokens`, which has another name there
    ],
)
def test_what_a_model_refuses_is_learned_once(form: Any, refused: int, left_out: set[str], clock: Clock) -> None:
    server = Provider(RefusedFields(form))
    with clock.serving(server):
        model = endpoint(server, retries=0)
        clock.run(answers(model, 5, sampling=Sampling(temperature=0.5, top_p=0.9, seed=1, max_tokens=50)))
    assert (server.refused.total(), server.finished) == (refused, 5)
    assert model.dropped == dict.fromkeys(left_out, 5)


# Moderation


@pytest.mark.parametrize("form", ["azure", "alibaba", "openai", "deepseek", "openrouter"])
def test_a_policy_that_moderation_refuses_has_refused(form: Any, play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(PromptModeration(form, is_policy))
    with clock.serving(server):
        run = play(server)
    assert [one.scored for one in run.transcripts] == [True, True]
    assert {turn.silent for one in run.transcripts for turn in one.turns} == {True}
    assert run.scores.models[0].filtered == sum(len(one.turns) for one in run.transcripts)


@pytest.mark.parametrize("partial", [False, True])
def test_an_answer_of_the_policy_that_is_filtered_is_scored_as_it_comes(
    partial: bool,
    play: Callable[..., Run],
    clock: Clock,
) -> None:
    server = Provider(AnswerModeration(is_policy, partial=partial))
    with clock.serving(server):
        run = play(server)
    assert [one.scored for one in run.transcripts] == [True, True]
    assert {turn.silent for one in run.transcripts for turn in one.turns} == {not partial}
    assert run.scores.models[0].filtered == sum(len(one.turns) for one in run.transcripts)


@pytest.mark.parametrize("form", ["azure", "alibaba", "openai", "deepseek", "openrouter"])
def test_a_user_simulator_that_moderation_refuses_leaves_the_dialogue_unscored(
    form: Any,
    play: Callable[..., Run],
    clock: Clock,
) -> None:
    server = Provider(PromptModeration(form, is_person))
    with clock.serving(server), pytest.warns(RuntimeWarning, match="2 x user: .* refused the text"):
        run = play(server)
    assert [(one.failure.role, one.failure.kind) for one in run.transcripts if one.failure] == [("user", Moderated.__name__)] * 2
    assert [cause.kind for cause in run.scores.models[0].causes] == [Moderated.__name__]


# Context and thinking


@pytest.mark.parametrize(("environment", "context"), [("sage", 1024), ("empa", 2048)])
def test_a_prompt_that_the_server_cuts_is_an_error_that_says_what_to_set(
    environment: str,
    context: int,
    play: Callable[..., Run],
    clock: Clock,
) -> None:
    part = ShortContext(context)
    server = Provider(part)
    with clock.serving(server), pytest.warns(RuntimeWarning, match="OLLAMA_CONTEXT_LENGTH"):
        run = play(server, environment, options={})
    assert part.cut
    assert {one.failure.kind for one in run.transcripts if one.failure} == {PromptCut.__name__}
    assert not any(one.scored for one in run.transcripts)


@pytest.mark.parametrize(("environment", "limit"), [("empa", 1), ("eibench", 3)])
def test_no_whole_prompt_is_taken_for_one_that_was_cut(
    environment: str,
    limit: int,
    play: Callable[..., Run],
    clock: Clock,
) -> None:
    with clock.serving(Provider()) as server:
        run = play(server, environment, limit=limit)
    assert [one.scored for one in run.transcripts] == [True] * limit


@pytest.mark.parametrize(
    "shown",
    ["reasoning_content", "reasoning", ("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"),
     ("", "</think>")],
)  # fmt: skip
def test_thinking_is_kept_apart(shown: Any, play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(ThinkingByDefault("chat_template_kwargs", tokens=50, shown=shown))
    with clock.serving(server):
        run = play(server, limit=1)
    (transcript,) = run.transcripts
    assert transcript.scored
    assert not any("They sound hurt" in turn.reply or turn.silent for turn in transcript.turns)


def test_thinking_that_uses_up_the_token_limit_is_named(play: Callable[..., Run], clock: Clock) -> None:
    server = Provider(ThinkingByDefault(tokens=100))
    with clock.serving(server), pytest.warns(RuntimeWarning, match="limit of 80 tokens was used up before the answer"):
        play(server, sampling={"policy": {"max_tokens": 80}})


# Tokens and accounts


@pytest.mark.parametrize("form", ["openai", "deepseek"])
def test_cached_input_and_reasoning_are_counted_as_the_server_bills_them(
    form: Any,
    play: Callable[..., Run],
    clock: Clock,
    tmp_path: Path,
) -> None:
    prices = {"input": 1.0, "output": 8.0, "cached_input": 0.1, "reasoning": 4.0}
    fields = "".join(f"{name} = {price}\n" for name, price in prices.items())
    (tmp_path / "prices.toml").write_text("".join(f'["lab/{name}"]\n{fields}' for name in ("policy", "person")))
    server = Provider(CachedInput(form), ReasoningTokens("openai", 30))
    with clock.serving(server):
        run = play(server, options={}, prices=tmp_path / "prices.toml", max_cost=1e6)
    spent = total_usage(one.usage[role] for one in run.transcripts for role in one.usage)
    billed, checks = server.billed, [call for call in server.calls if call.part == "check"]
    assert spent.cached_input_tokens == billed["cached"] > 0.3 * billed["prompt"]
    assert billed["prompt"] - spent.prompt_tokens == sum(len(call.body["messages"][0]["content"]) // 4 + 1 for call in checks)
    assert spent.reasoning_tokens == 30 * (len(server.calls) - len(checks))
    assert run.scores.models[0].cost == pytest.approx(Price(**prices).of(spent))


@pytest.mark.parametrize("form", ["gemini", "xai"])
def test_reasoning_outside_of_the_answer_is_counted(form: Any, clock: Clock) -> None:
    server = Provider(ReasoningTokens(form, 300), answer=lambda body: "x" * 40)
    with clock.serving(server):
        (reply,) = clock.run(answers(endpoint(server)))
    prompt = sum(math.ceil(len(message.content) / 4) for message in HELLO)
    assert reply.usage == Usage(prompt_tokens=prompt, completion_tokens=310, reasoning_tokens=300)


@pytest.mark.parametrize("form", ["key", "balance", "quota"])
def test_an_account_that_ends_stops_the_run_and_the_same_command_plays_the_rest(
    form: Any,
    clock: Clock,
    tmp_path: Path,
) -> None:
    words = ("eval", "sage", "--yes", "--model", "lab/policy", "--user", "lab/person", "--limit", "12", "-E", "max_turns=2",
             "--max-connections", "3", "--out", "run")  # fmt: skip
    account = AccountEnds(form, after=40)
    server = Provider(account, latency=1.0)
    with clock.serving(server):
        lab = {"LAB_BASE_URL": server.base_url, "LAB_API_KEY": KEY}
        stopped = _run(words, tmp_path, lab, expected=1)
        assert "LAB_API_KEY" in " ".join((stopped.out + stopped.err).split())
        finished = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
        assert all(one.scored for one in finished)
        assert 40 - 2 - sum(len(one.calls) for one in finished) <= 3 * 5, "a dialogue has 5 calls, and 3 were in flight"
        assert len(server.calls) - server.accepted <= 3
        account.after = 10**9
        before = server.accepted
        _run(words, tmp_path, lab, expected=0)
    after = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert after[: len(finished)] == finished
    assert Counter(one.scored for one in after) == {True: 12}
    assert server.accepted - before == 2 + sum(len(one.calls) for one in after[len(finished) :])


# Proxies


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"])
async def test_a_proxy_with_a_password(variable: str, proxied: Callable[[str, str], None]) -> None:
    async with Provider() as server, BasicAuthProxy(server, password="p@ss/word-of-the-proxy") as proxy:
        proxied(variable, proxy.url.replace("p@ss/word", "p%40ss%2Fword"))
        (reply,) = await answers(endpoint(server, base_url="http://provider.test/v1"))
    assert reply.text
    assert (dict(proxy.hosts), proxy.refused) == ({"provider.test": 1}, 0)


@pytest.mark.parametrize(("variable", "address"), [("HTTP_PROXY", "http"), ("HTTPS_PROXY", "https"), ("ALL_PROXY", "https")])
async def test_a_wrong_password_of_a_proxy_is_one_line_without_it(
    variable: str, address: str, proxied: Callable[[str, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Provider() as server, BasicAuthProxy(server) as proxy:
        proxied(variable, proxy.url.replace(proxy.password, "guess-of-a-password"))
        model = endpoint(server, base_url=f"{address}://provider.test/v1")
        with pytest.raises(RefusedByServer, match="407") as caught:
            await answers(model)
    assert (proxy.refused, server.calls) == (1, [])
    shown = f"{caught.value!r} {model!r} {vars(model)!r} {caplog.text}"
    assert "guess-of" not in shown
    assert "\n" not in str(caught.value)


def test_a_socks_proxy_is_refused(proxied: Callable[[str, str], None]) -> None:
    proxied("ALL_PROXY", "socks5://user:hidden-password@127.0.0.1:1080")
    with pytest.raises(UseError, match=r"socks5 proxy; expected HTTP") as caught:
        EndpointChat("lab/m", model="m", base_url="https://provider.test/v1")
    assert "hidden" not in str(caught.value)
