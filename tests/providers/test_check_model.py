"""`heartloop check model` against servers that behave as providers document: what it finds, what differs, what it costs."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from heartloop.models.probe import ANSWER_TOKENS, MOST_CALLS, PROMPT_TOKENS
from tests.commands import KEY, Done, heartloop
from tests.faulty_server import FaultyServer, example_of
from tests.providers.limits import SlidingWindow
from tests.providers.servers import (
    AccountEnds,
    BasicAuthProxy,
    BlankLines,
    CachedInput,
    Call,
    Completion,
    ConcurrencyLimit,
    IgnoredFields,
    Limit,
    OneAnswerAtATime,
    OneBadGeneration,
    Part,
    PromptModeration,
    Provider,
    ReasoningTokens,
    Refusal,
    RefusedFields,
    ShortContext,
    ThinkingByDefault,
)

WORDS = [f"word{number}" for number in range(20)]
FURTHER = itertools.count(1000)


def model(used: Mapping[str, Any]) -> str:
    """A model that honours the schema and the seed of a request, as far as its server lets them through."""
    form = used.get("response_format", {})
    if form:
        return json.dumps(example_of(form["json_schema"]["schema"], random.Random(1)) if "json_schema" in form else {"a": "b"})
    return " ".join(random.Random(used.get("seed", next(FURTHER))).sample(WORDS, 10))


class Refuses(Part):
    """Refuses requests of which a condition holds, with a message that may quote the request's headers."""

    def __init__(self, condition: Callable[[Mapping[str, Any]], bool], message: str, status: int = 400) -> None:
        self.condition, self.message, self.status = condition, message, status

    def refuse(self, call: Call) -> Refusal | None:
        message = self.message.format(key=call.headers.get("Authorization", ""))
        return Refusal(self.status, {"error": {"message": message}}) if self.condition(call.body) else None


class CachedIfMarked(CachedInput):
    def answer(self, call: Call, completion: Completion) -> Refusal | None:
        return super().answer(call, completion) if "cache_control" in json.dumps(call.body["messages"]) else None


def is_strict(body: Mapping[str, Any]) -> bool:
    return bool(body.get("response_format", {}).get("json_schema", {}).get("strict"))


async def check(server: Provider | FaultyServer, service: str, folder: Path, *words: str, code: int = 0, **more: str) -> Done:
    name = service.partition("/")[0].upper()
    given = {f"{name}_BASE_URL": server.base_url, f"{name}_API_KEY": KEY, **more}
    command = ("check", "model", f"{service}/m", "--yes", "--json", "found.json", *words)
    return await asyncio.to_thread(heartloop, *command, cwd=folder, code=code, **given)


def found(folder: Path) -> dict[str, dict[str, Any]]:
    record = json.loads((folder / "found.json").read_text())
    return {finding["what"]: finding for finding in record["findings"]}


AS_DOCUMENTED: dict[str, tuple[tuple[Part, ...], dict[str, str]]] = {
    "openai": (
        (RefusedFields("openai"), ThinkingByDefault("reasoning_effort"), CachedInput("openai"),
         Limit(SlidingWindow(500, 60.0), "openai")),
        {"token_limit": "max_completion_tokens", "thinking": "on by default", "schema": "strict", "temperature": "refused",
         "seed": "repeated", "cached_input": "reported"},
    ),
    "anthropic": (
        (IgnoredFields(), RefusedFields("anthropic"), CachedInput("anthropic")),
        {"token_limit": "max_tokens", "thinking": "not seen", "schema": "ignored", "temperature": "refused",
         "seed": "not repeated", "cached_input": "none reported"},
    ),
    "deepseek": (
        (RefusedFields("deepseek"), ThinkingByDefault("thinking"), CachedInput("deepseek"), ConcurrencyLimit(1)),
        {"thinking": "on by default", "schema": "object", "temperature": "accepted", "seed": "repeated",
         "cached_input": "reported"},
    ),
    "groq": (
        (Refuses(is_strict, "response_format: strict is not supported by this model"), OneBadGeneration(),
         Limit(SlidingWindow(90_000, 60.0), "day", per="tokens")),
        {"schema": "best effort", "token_limit": "max_completion_tokens"},
    ),
    "mistral": ((RefusedFields("mistral"),), {"seed": "refused", "temperature": "accepted", "token_limit": "max_tokens"}),
    "gemini": ((ReasoningTokens("gemini"),), {"thinking": "on by default"}),
    "vllm": (
        (ThinkingByDefault("chat_template_kwargs", shown=("<think>", "</think>")), CachedInput("openai")),
        {"thinking": "on by default", "schema": "strict", "temperature": "accepted", "limits": "none"},
    ),
    "sglang": ((ThinkingByDefault("chat_template_kwargs", shown=("", "</think>")),), {"thinking": "on by default"}),
    "ollama": ((ShortContext(4096), OneAnswerAtATime()), {"context": "cut", "schema": "strict"}),
}  # fmt: skip


@pytest.mark.parametrize("service", AS_DOCUMENTED)
async def test_a_server_as_documented_is_found_so_by_at_most_twelve_calls(service: str, tmp_path: Path) -> None:
    parts, expected = AS_DOCUMENTED[service]
    async with Provider(*parts, answer=model) as server:
        done = await check(server, service, tmp_path)
    findings = found(tmp_path)
    assert {what: findings[what]["found"] for what in expected} == expected, findings
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["calls"] == len(server.calls) <= MOST_CALLS
    assert record["table"].startswith(("from documentation", "reported on"))
    assert server.billed["prompt"] <= PROMPT_TOKENS
    assert server.billed["completion"] <= MOST_CALLS * ANSWER_TOKENS
    assert record["usage"]["prompt_tokens"] <= server.billed["prompt"]
    assert KEY not in done.out + done.err + (tmp_path / "found.json").read_text()
    if service != "gemini":
        assert [what for what, finding in findings.items() if finding["differs"] and what in expected] == []


async def test_the_switch_of_the_table_turns_thinking_off_for_the_other_calls(tmp_path: Path) -> None:
    thinking = ThinkingByDefault("thinking")
    async with Provider(thinking, answer=model) as server:
        await check(server, "deepseek", tmp_path)
    assert thinking.thought == 1
    assert "switches it off" in found(tmp_path)["thinking"]["detail"]


async def test_a_switch_to_less_thinking_is_kept(tmp_path: Path) -> None:
    class ByEffort(ReasoningTokens):
        def answer(self, call: Call, completion: Completion) -> Refusal | None:
            self.tokens = 100 if call.body.get("reasoning_effort") == "low" else 300
            return super().answer(call, completion)

    async with Provider(ByEffort("xai"), answer=model) as server:
        await check(server, "xai", tmp_path)
    assert (found(tmp_path)["thinking"]["found"], found(tmp_path)["thinking"]["differs"]) == ("on by default", False)
    assert [call.body.get("reasoning_effort") for call in server.calls] == [None] + ["low"] * (len(server.calls) - 1)


@pytest.mark.parametrize(
    ("service", "part", "effect"),
    [
        ("deepseek", ThinkingByDefault("reasoning_effort"), "has no effect"),
        ("gemini", Refuses(lambda body: "reasoning_effort" in body, "reasoning_effort is not supported"), "is refused"),
        ("xai", ReasoningTokens("xai"), "has no effect"),
    ],
)
async def test_a_switch_that_does_not_work_differs(service: str, part: Part, effect: str, tmp_path: Path) -> None:
    parts = (part, ReasoningTokens("openai")) if isinstance(part, Refuses) else (part,)
    async with Provider(*parts, answer=model) as server:
        await check(server, service, tmp_path)
    finding = found(tmp_path)["thinking"]
    assert (finding["found"], finding["differs"]) == ("on by default", True)
    assert effect in finding["detail"]


@pytest.mark.parametrize(
    ("service", "part", "what", "finding"),
    [
        ("openai", IgnoredFields("response_format"), "schema", "ignored"),
        ("openai", RefusedFields("deepseek"), "schema", "object"),
        ("openai", Refuses(lambda body: "response_format" in body, "response_format: not permitted"), "schema", "refused"),
        ("openai", RefusedFields("mistral"), "seed", "refused"),
        ("openai", CachedInput("anthropic"), "cached_input", "none reported"),
        ("openai", Refuses(lambda body: "max_completion_tokens" in body, "max_completion_tokens?"), "token_limit", "max_tokens"),
        ("openai", ShortContext(4096), "context", "cut"),
        ("ollama", IgnoredFields("seed"), "seed", "not repeated"),
        ("mistral", RefusedFields("anthropic"), "temperature", "refused"),
        ("mistral", RefusedFields("openai"), "token_limit", "max_completion_tokens"),
        ("deepseek", CachedInput("openai"), "thinking", "not seen"),
        ("vllm", Limit(SlidingWindow(500, 60.0), "openai"), "limits",
         "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests"),
        ("openai", OneAnswerAtATime(), "limits", "none"),
    ],
)  # fmt: skip
async def test_what_is_not_as_in_the_table_differs(service: str, part: Part, what: str, finding: str, tmp_path: Path) -> None:
    async with Provider(part, answer=model) as server:
        done = await check(server, service, tmp_path)
    assert (found(tmp_path)[what]["found"], found(tmp_path)[what]["differs"]) == (finding, True), found(tmp_path)[what]
    assert "differs" in done.out
    assert len(server.calls) <= MOST_CALLS


@pytest.mark.parametrize(
    ("service", "part", "what", "finding"),
    [
        ("mistral", RefusedFields("anthropic_both"), "temperature", "accepted without top_p"),
        ("openai", IgnoredFields("seed"), "seed", "not repeated"),  # best effort
        ("together", RefusedFields("mistral"), "seed", "refused"),  # varies
        ("ollama", ShortContext(4096, cuts=False), "context", "below 6,0"),
        ("openrouter/anthropic", CachedIfMarked(), "cached_input", "reported"),
    ],
)
async def test_what_the_table_allows_does_not_differ(service: str, part: Part, what: str, finding: str, tmp_path: Path) -> None:
    async with Provider(part, answer=model) as server:
        await check(server, service, tmp_path)
    assert found(tmp_path)[what]["found"].startswith(finding), found(tmp_path)[what]
    assert found(tmp_path)[what]["differs"] is False


@pytest.mark.parametrize(("listed", "differs"), [(1_048_576, False), (65_536, True)])
async def test_the_context_is_read_from_the_list_of_models(listed: int, differs: bool, tmp_path: Path) -> None:
    async with Provider(answer=model, models={"other": {}, "m": {"max_model_len": listed}}) as server:
        await check(server, "deepseek", tmp_path)
    context = found(tmp_path)["context"]
    assert (context["found"], context["differs"]) == (f"{listed:,} tokens", differs)


async def test_an_unknown_service_is_checked_without_a_comparison(tmp_path: Path) -> None:
    async with Provider(RefusedFields("openai"), CachedInput("deepseek"), answer=model) as server:
        done = await check(server, "lab", tmp_path)
    findings = found(tmp_path)
    assert findings["token_limit"]["found"] == "max_completion_tokens"
    assert findings["cached_input"]["found"] == "reported"
    assert {(finding["table"], finding["differs"]) for finding in findings.values()} == {(None, False)}
    assert done.out.count("not in the table") == len(findings)
    assert json.loads((tmp_path / "found.json").read_text())["table"] is None


async def test_what_the_calls_do_not_show_is_unclear_and_never_differs(tmp_path: Path) -> None:
    parts = (PromptModeration("azure", "ferry"), Refuses(lambda body: "seed" in body, "overloaded", 500))
    async with Provider(*parts, answer=lambda used: "391") as server:
        await check(server, "openai", tmp_path)
    findings = found(tmp_path)
    for what in ("seed", "cached_input", "context"):
        assert (findings[what]["found"], findings[what]["differs"]) == ("unclear", False)
    async with Provider(answer=lambda used: "391") as server:
        await check(server, "openai", tmp_path)
    assert found(tmp_path)["seed"]["found"] == "unclear"  # the same answer with every seed


async def test_refused_calls_count_and_no_thirteenth_is_made(tmp_path: Path) -> None:
    limit = Limit(SlidingWindow(3, 10.0, refused_count=False), "seconds")
    async with Provider(limit, RefusedFields("openai"), answer=model, factor=0.02) as server:
        await check(server, "lab", tmp_path)
    assert len(server.calls) == MOST_CALLS
    assert server.refused[429] >= 2
    context = found(tmp_path)["context"]
    assert (context["found"], f"all {MOST_CALLS} calls" in context["detail"]) == ("unclear", True)


@pytest.mark.parametrize("answer", ['{"colour": "ochre"}', '{"q7": "red"}', '[{"q7": "ochre"}]', "ochre", '"ochre"'])
async def test_an_answer_of_another_form_shows_that_the_schema_was_ignored(answer: str, tmp_path: Path) -> None:
    async with Provider(answer=lambda used: answer) as server:
        await check(server, "lab", tmp_path)
    assert found(tmp_path)["schema"]["found"] == "ignored"
    async with Provider(RefusedFields("deepseek"), answer=lambda used: '["JavaScript"]') as server:
        await check(server, "lab", tmp_path)
    assert found(tmp_path)["schema"]["found"] == "ignored"


async def test_blank_lines_before_an_answer_do_no_harm(tmp_path: Path) -> None:
    async with Provider(BlankLines(queue=5.0, every=1.0), answer=model, factor=0.002) as server:
        await check(server, "deepseek", tmp_path)
    assert found(tmp_path)["schema"]["found"] == "strict"


@pytest.mark.parametrize(("form", "after", "said"), [("key", 0, "401"), ("balance", 4, "402"), ("quota", 4, "current quota")])
async def test_an_account_that_ends_ends_the_check(form: Any, after: int, said: str, tmp_path: Path) -> None:
    async with Provider(AccountEnds(form, after), answer=model) as server:
        done = await check(server, "lab", tmp_path, code=2)
    assert said in done.err
    assert "LAB_API_KEY" in done.err
    assert "Traceback" not in done.err
    assert len(server.calls) == after + 1
    assert not (tmp_path / "found.json").exists()


async def test_an_unknown_model_comes_with_the_nearest(tmp_path: Path) -> None:
    async with FaultyServer("unknown_model@policy", models=["mm", "other"]) as server:
        done = await check(server, "lab", tmp_path, code=2)
    assert "'mm'" in done.err
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_an_error_and_its_key_is_not_shown(tmp_path: Path) -> None:
    async with Provider() as server:
        pass
    done = await check(server, "lab", tmp_path, code=2)
    assert "LAB_BASE_URL" in done.err
    assert KEY not in done.err


async def test_a_key_that_a_server_repeats_is_not_in_the_report(tmp_path: Path) -> None:
    repeats = Refuses(lambda body: "temperature" in body, "temperature is not supported for {key}")
    async with Provider(repeats, answer=model) as server:
        done = await check(server, "lab", tmp_path)
    text = (tmp_path / "found.json").read_text()
    assert "temperature is not supported for" in text
    assert KEY not in text + done.out + done.err


async def test_calls_go_through_the_proxy_and_its_password_is_not_in_the_report(tmp_path: Path) -> None:
    async with Provider(answer=model) as server, BasicAuthProxy(server) as proxy:
        address = "http://provider.test/v1?api_key=query-secret-0123456789"
        done = await check(
            server, "lab", tmp_path, HTTP_PROXY=proxy.url, http_proxy=proxy.url, LAB_BASE_URL=address, NO_PROXY="", no_proxy=""
        )
    assert set(proxy.hosts) == {"provider.test"}
    text = (tmp_path / "found.json").read_text()
    assert json.loads(text)["address"] == "http://provider.test/v1"
    for secret in (proxy.password, "query-secret", KEY):
        assert secret not in text + done.out + done.err


async def test_the_cost_is_shown_and_asked_for_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["lab/m"]\ninput = 1.0\noutput = 10.0\n')
    async with Provider(answer=model) as server:
        lab = {"LAB_BASE_URL": server.base_url, "LAB_API_KEY": KEY}
        words = ("check", "model", "lab/m", "--prices", "prices.toml")
        done = await asyncio.to_thread(heartloop, *words, cwd=tmp_path, code=2, **lab)
        assert "--yes" in done.err
        for part in (f"{MOST_CALLS} calls", f"{PROMPT_TOKENS:,}", f"{MOST_CALLS * ANSWER_TOKENS:,}", "0.13 at your prices"):
            assert part in done.err
        with mock.patch("heartloop.cli.environments.sys", mock.Mock(**{"stdin.isatty.return_value": True})):
            await asyncio.to_thread(heartloop, *words, cwd=tmp_path, code=1, typed="n\n", **lab)
        assert server.calls == []


async def test_a_report_that_could_not_be_written_costs_no_call(tmp_path: Path) -> None:
    async with Provider(answer=model) as server:
        done = await check(server, "lab", tmp_path, "--json", "nowhere/found.json", code=2)
    assert "nowhere" in done.err
    assert server.calls == []


@pytest.mark.parametrize("name", ["heartloop/reflector", "embedded"])
def test_what_is_no_model_of_a_service_is_wrong_use(name: str, tmp_path: Path) -> None:
    assert "service/model" in heartloop("check", "model", name, "--yes", cwd=tmp_path, code=2).err


def test_the_name_of_an_environment_is_enough(tmp_path: Path) -> None:
    with mock.patch("heartloop.environments.check.check_environment"):
        short = heartloop("check", "sage", "--scenarios", "support", cwd=tmp_path, code=0)
        whole = heartloop("check", "environment", "sage", "--scenarios", "support", cwd=tmp_path, code=0)
    assert short.out == whole.out
    assert "PASS: sage" in short.out
