"""Model names, and limits on spending."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ChatModel, Reply, ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import BotError, BudgetSpent, InputError, ModelError, TransportError, UseError
from heartloop.models.budget import Meter, Metered, Price, Spend, is_paid, is_scripted, load_prices
from heartloop.models.client import LOCAL, SERVICES, Connections, EndpointChat, variable
from heartloop.models.functions import PythonChat
from heartloop.models.names import close, load_env, resolve
from tests.faulty_server import FaultyServer

HELLO = [Message(role="user", content="My dog died on Sunday.")]  # 22 characters: 6 tokens by estimate


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty current directory and no key in the environment."""
    for service in (*SERVICES, *LOCAL, "lab", "my-lab.v2"):
        for what in ("API_KEY", "BASE_URL"):
            # set first, so that what a test loads from .env is taken back after it
            monkeypatch.setenv(variable(service, what), "")
            monkeypatch.delenv(variable(service, what))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def echo(messages: Sequence[Message], seed: int) -> str:
    return f"{seed}: {messages[-1].content}"


def fails(messages: Sequence[Message], seed: int) -> str:
    raise KeyError("nothing")


OWN = {name: f"tests.test_models:{name}" for name in ("echo", "fails", "HELLO", "missing")} | {"reflector": "no.such:module"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(
            (name, r"service/model .*heartloop/<baseline>.*python:module:function")
            for name in ("", "gpt-4.1", "openai/", "/gpt-4.1", "open ai/gpt", "openai/ gpt", "https://host/model", "-x/y")
        ),
        ("openai/gpt-4.1", "OPENAI_API_KEY"),
        ("my-lab.v2/small", r"openai.*ollama.*MY_LAB_V2_BASE_URL"),
        ("heartloop/nobody", r"counsellor.*echo"),
        ("heartloop/HELLO", "tests.test_models:HELLO"),
        ("heartloop/missing", "tests.test_models:missing"),
    ],
)
def test_a_name_that_names_no_model_is_refused_with_what_to_do(name: str, said: str) -> None:
    with pytest.raises(UseError, match=said) as caught:
        resolve(name, baselines=OWN)
    assert name in str(caught.value)


def test_a_broken_address_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_BASE_URL", "[nowhere")
    monkeypatch.setenv("LAB_API_KEY", "x")
    with pytest.raises(UseError, match="LAB_BASE_URL"):
        resolve("lab/small")


def test_known_services_need_only_a_key_and_local_servers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for service, address in SERVICES.items():
        monkeypatch.setenv(variable(service, "API_KEY"), "sk-something-long")
        model = resolve(f"{service}/family/size")
        assert isinstance(model, EndpointChat)
        assert (model.name, model.address) == (f"{service}/family/size", address)
        assert "sk-something-long" not in repr(model)
    for service, address in LOCAL.items():
        assert address in repr(resolve(f"{service}/qwen"))


def test_another_service_needs_a_key_unless_it_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_BASE_URL", "http://127.0.0.1:9/v1")
    assert resolve("lab/small").name == "lab/small"
    monkeypatch.setenv("LAB_BASE_URL", "https://lab.example/v1")
    with pytest.raises(UseError, match="LAB_API_KEY"):
        resolve("lab/small")


async def test_a_resolved_model_calls_its_address_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's part may hold slashes; a line break after the key, as files have it, is no part of it."""
    async with FaultyServer() as server:
        monkeypatch.setenv("OPENROUTER_BASE_URL", server.base_url + "/")
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-123456789\n")
        model = resolve("openrouter/meta-llama/llama-3")
        await model.complete(HELLO)
        await close([model])
    assert server.bodies[0]["model"] == "meta-llama/llama-3"
    assert server.requests[0].authorization == "Bearer sk-or-123456789"


async def test_models_can_share_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyServer(delay=0.005) as server, Connections(5) as shared:
        monkeypatch.setenv("VLLM_BASE_URL", server.base_url)
        models = [resolve(f"vllm/{n}", connections=shared) for n in range(3)]
        await asyncio.gather(*(model.complete(HELLO) for model in models for _ in range(10)))
        await close(models)
        assert (await models[0].complete(HELLO)).text, "shared connections stay open"
    assert server.most_in_flight <= 5


def test_dot_env_does_not_override_the_environment(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".env").write_text('# ours\nDEEPSEEK_API_KEY="from-file"\nOPENAI_API_KEY=from-file\n', encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    load_env()
    assert (os.environ["DEEPSEEK_API_KEY"], os.environ["OPENAI_API_KEY"]) == ("from-file", "from-environment")


def test_no_dot_env_is_no_error_and_an_unreadable_one_is(bare: Path) -> None:
    load_env()
    (bare / ".env").write_bytes(b"A=\xff\xfe")
    with pytest.raises(InputError, match=r"\.env"):
        load_env()


async def test_an_environment_brings_a_baseline_of_its_own() -> None:
    model = resolve("heartloop/echo", seed=3, baselines=OWN)
    assert isinstance(model, ChatModel)
    assert (model.name, is_scripted(model.name), is_paid(model.name)) == ("heartloop/echo", True, False)
    assert (await model.complete(HELLO)).text == "3: My dog died on Sunday."
    reply = await model.complete(HELLO, sampling=Sampling(seed=8))
    assert (reply.text, reply.usage.estimated, reply.usage.prompt_tokens) == ("8: My dog died on Sunday.", True, 6)
    with pytest.raises(ModelError, match="heartloop/fails raised KeyError"):
        await resolve("heartloop/fails", baselines=OWN).complete(HELLO)


def test_importing_models_is_quick() -> None:
    heavy = ("aiohttp", "numpy", "dotenv", "heartloop.models.baselines")
    code = f"import sys, heartloop.models.names; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# 3. Python functions

AGENT = """
    from heartloop.core.chat import Reply
    from heartloop.core.errors import TransportError

    count = 0

    def reply(messages):
        return f"{len(messages)} heard, the last: {messages[-1]['content']} ({messages[-1]['role']})"

    async def later(messages):
        return Reply("later", reasoning="hm")

    class Agent:
        async def __call__(self, messages):
            return "called"
        def method(self, messages):
            return "method"

    agent = Agent()
    wrapped = lambda messages: later(messages)

    def broken(messages):
        return {}["nothing"]

    def leaky(messages):
        raise ValueError("cannot log in with sk-lab-0123456789abcdef")

    def down(messages):
        raise TransportError("upstream is down")

    def number(messages):
        return 7

    def half(messages):
        return "oh \\ud83d"

    thing = 3
"""


@pytest.fixture
def agent(bare: Path, request: pytest.FixtureRequest) -> str:
    """A module in the current directory with a name of its own for every test."""
    module = "agent_" + "".join(c if c.isalnum() else "_" for c in request.node.name)
    (bare / f"{module}.py").write_text(textwrap.dedent(AGENT), encoding="utf-8")
    return module


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("reply", "1 heard, the last: My dog died on Sunday. (user)"),
        ("later", "later"),
        ("agent", "called"),
        ("agent.method", "method"),
        ("wrapped", "later"),
        ("half", "oh \ufffd"),
    ],
)
async def test_a_python_function_is_a_model(agent: str, function: str, text: str) -> None:
    model = resolve(f"python:{agent}:{function}")
    assert isinstance(model, ChatModel)
    assert model.name == f"python:{agent}:{function}"
    reply = await model.complete(HELLO, schema={}, sampling=Sampling(seed=1))
    assert reply.text == text
    assert reply.usage.estimated
    assert reply.usage.prompt_tokens == 6


async def test_an_exception_in_a_python_function_is_the_bots_error_unless_it_is_that_of_a_provider(agent: str) -> None:
    with pytest.raises(BotError, match=rf"python:{agent}:broken .*KeyError: 'nothing'.*{agent}.py, line 23") as caught:
        await resolve(f"python:{agent}:broken").complete(HELLO)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(BotError, match="returned int"):
        await resolve(f"python:{agent}:number").complete(HELLO)
    with pytest.raises(TransportError, match=r"^upstream is down$"):
        await resolve(f"python:{agent}:down").complete(HELLO)


async def test_a_key_in_an_exception_is_removed(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", "sk-lab-0123456789abcdef")
    with pytest.raises(ModelError, match=r"ValueError: cannot log in with \*\*\*") as caught:
        await resolve(f"python:{agent}:leaky").complete(HELLO)
    assert caught.value.__cause__ is None


async def test_plain_functions_do_not_block_the_event_loop(bare: Path) -> None:
    """Twenty calls of 50 ms each take far less than a second together."""
    (bare / "slow_agent.py").write_text("import time\ndef reply(messages):\n    time.sleep(0.05)\n    return 'ok'\n")
    model = PythonChat("python:slow_agent:reply")
    async with asyncio.timeout(0.9):
        assert len(await asyncio.gather(*(model.complete(HELLO) for _ in range(20)))) == 20


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("python:", "expected python:module:function"),
        ("python:agent", "expected python:module:function"),
        ("python:a-b:c", "expected python:module:function"),
        ("python:no_such_module_here:reply", "'no_such_module_here'"),
        ("python:{agent}:missing", "'missing'"),
        ("python:{agent}:thing", "'thing' is int"),
        ("python:broken_agent:reply", "SyntaxError"),
        ("python:needy_agent:reply", "No module named 'not_installed'"),
    ],
)
def test_a_missing_function_is_wrong_use(name: str, part: str, agent: str, bare: Path) -> None:
    (bare / "broken_agent.py").write_text("def reply(:\n")
    (bare / "needy_agent.py").write_text("import not_installed\n")
    with pytest.raises(UseError) as caught:
        resolve(name.format(agent=agent))
    assert part in str(caught.value)


# 4. spending

PRICES = {"openai/a": Price(2.0, 8.0), "openai/b": Price(0.5, 1.0)}


class Spender:
    """Answers with the given usages in turn; raises where one is `None`."""

    def __init__(self, name: str, *usages: Usage | None) -> None:
        self.name = name
        self.asked = self.in_flight = 0
        self._usages: Sequence[Usage | None] = usages

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        usage = self._usages[min(self.asked, len(self._usages) - 1)]
        self.asked += 1
        self.in_flight += 1
        await asyncio.sleep(0.001)
        self.in_flight -= 1
        if usage is None:
            raise TransportError("down")
        return Reply("ok", usage=usage)


def _tokens(prompt: int, completion: int, *, estimated: bool = False) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, estimated=estimated)


def rounded(spend: Spend) -> Spend:
    return spend._replace(cost=spend.cost if spend.cost is None else round(spend.cost, 9))


async def test_calls_tokens_and_money_are_counted_by_model_and_role() -> None:
    """a: 3000 in at 2 and 600 out at 8 per million = 0.006 + 0.0048; b: 1000 in at 0.5 and 100 out at 1 = 0.0006."""
    meter = Meter(prices=PRICES)
    assert meter.spend() == Spend(0, 0, 0, 0, 0.0, False)
    assert meter.summary() == ""
    policy = Metered(Spender("openai/a", _tokens(1000, 200)), meter, "policy")
    user = Metered(Spender("openai/b", _tokens(1000, 100, estimated=True), None), meter, "user")
    for _ in range(3):
        assert (await policy.complete(HELLO)).text == "ok"
    await user.complete(HELLO)
    with pytest.raises(TransportError):
        await user.complete(HELLO)
    assert rounded(meter.spend("openai/a")) == Spend(3, 0, 3000, 600, 0.0108, False)
    assert rounded(meter.spend("openai/b")) == Spend(2, 1, 1000, 100, 0.0006, True)
    assert rounded(meter.spend()) == Spend(5, 1, 4000, 700, 0.0114, True)
    assert meter.summary() == "about 4,700 tokens, cost 0.01"


async def test_a_paid_model_without_a_price_leaves_the_cost_unknown() -> None:
    meter = Meter(prices=PRICES)
    meter.record("openai/new", "policy", _tokens(10, 10))
    assert meter.spend().cost is None
    assert meter.summary() == "20 tokens"


@pytest.mark.parametrize("name", ["heartloop/reflector", "python:m:f", "vllm/qwen", "sglang/x", "local/smollm2", "embedded"])
async def test_local_and_scripted_models_cost_nothing_unless_priced(name: str) -> None:
    assert not is_paid(name)
    meter = Meter(max_cost=0.000001, models=[name])
    await Metered(Spender(name, _tokens(10**6, 10**6)), meter, "policy").complete(HELLO)
    assert meter.spend().cost == 0.0
    priced = Meter(prices={name: Price(1.0, 1.0)})
    priced.record(name, "policy", _tokens(10**6, 0))
    assert priced.spend().cost == 1.0


async def test_the_token_limit_stops_before_a_call_that_does_not_fit() -> None:
    """Calls take 100 tokens, which after the first is what is expected of one: the tenth ends at 1000."""
    spender = Spender("openai/a", _tokens(10, 90))
    model = Metered(spender, Meter(max_tokens=1000), "policy")
    for _ in range(10):
        await model.complete(HELLO)
    with pytest.raises(BudgetSpent) as caught:
        await model.complete(HELLO)
    assert (spender.asked, model.meter.spend().tokens) == (10, 1000)
    for part in ("--max-tokens 1000", "1000 tokens", "openai/a", "about 100"):
        assert part in str(caught.value)


def test_another_dialogue_starts_only_if_it_and_those_in_flight_fit() -> None:
    """A dialogue takes 300 tokens, with a fifth more as a margin 360: 300 + 360 of 1000 fit, 300 + 2 x 360 do not."""
    meter = Meter(max_tokens=1000)
    meter.record("openai/a", "policy", _tokens(200, 100))
    meter.finish([("openai/a", "policy", _tokens(200, 100))])
    assert meter.affords(0) is None
    assert "--max-tokens 1000" in (meter.affords(1) or "")


async def test_the_cost_limit_stops_before_a_call_that_does_not_fit() -> None:
    """A call costs (10 x 2 + 90 x 8) / 1e6 = 0.00074; 13 of them 0.00962, and a 14th does not fit into 0.01."""
    spender = Spender("openai/a", _tokens(10, 90))
    model = Metered(spender, Meter(max_cost=0.01, prices=PRICES), "policy")
    for _ in range(13):
        await model.complete(HELLO)
    with pytest.raises(BudgetSpent, match=r"--max-cost 0\.01 is reached"):
        await model.complete(HELLO)
    assert spender.asked == 13
    assert model.meter.spend().cost == pytest.approx(0.00962)


async def test_many_calls_at_once_do_not_pass_the_limit() -> None:
    """300 calls at once with 20000 tokens: the first wave is held to the first guess, later ones to what calls take."""
    spender = Spender("openai/a", _tokens(10, 90))
    model = Metered(spender, Meter(max_tokens=20_000), "policy")
    ended = await asyncio.gather(*(model.complete(HELLO) for _ in range(300)), return_exceptions=True)
    refused = [error for error in ended if isinstance(error, BudgetSpent)]
    assert len(refused) == 300 - spender.asked
    assert 19_800 <= model.meter.spend().tokens <= 20_000, "nearly all of it is used, none of it is passed"


async def test_calls_dearer_than_expected_pass_the_limit_by_no_more_than_those_in_flight() -> None:
    """Expected: 6 + 512 tokens, so 19 go out with 10000; each takes 5010. Nothing is sent after that."""
    spender = Spender("openai/a", _tokens(10, 5000))
    model = Metered(spender, Meter(max_tokens=10_000), "policy")
    ended = await asyncio.gather(*(model.complete(HELLO) for _ in range(300)), return_exceptions=True)
    assert spender.asked == 19
    assert model.meter.spend().tokens == 19 * 5010
    assert sum(isinstance(error, BudgetSpent) for error in ended) == 281


async def test_max_tokens_of_the_sampling_bounds_the_estimate() -> None:
    spender = Spender("openai/a", _tokens(6, 4))
    model = Metered(spender, Meter(max_tokens=10), "policy")
    assert (await model.complete(HELLO, sampling=Sampling(max_tokens=4))).text == "ok"
    with pytest.raises(BudgetSpent):
        await model.complete(HELLO, sampling=Sampling(max_tokens=4))


async def test_failed_and_cancelled_calls_release_their_reservation() -> None:
    spender = Spender("openai/a", None, None, _tokens(10, 90))
    model = Metered(spender, Meter(max_tokens=600), "policy")
    with pytest.raises(TransportError):
        await model.complete(HELLO)
    call = asyncio.create_task(model.complete(HELLO))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await model.complete(HELLO)).text == "ok"
    assert model.meter.spend()[:2] == (3, 2)


async def test_a_cancelled_waiting_call_reserves_nothing() -> None:
    spender = Spender("openai/a", _tokens(10, 90))
    model = Metered(spender, Meter(max_tokens=600), "policy")
    first, second = (asyncio.create_task(model.complete(HELLO)) for _ in range(2))
    await asyncio.sleep(0)
    assert spender.asked == 1, "the second waits for what the first takes"
    second.cancel()
    assert (await first).text == "ok"
    assert (await model.complete(HELLO)).text == "ok"


async def test_baselines_do_not_count_against_the_token_limit() -> None:
    model = Metered(resolve("heartloop/reflector"), Meter(max_tokens=1), "policy")
    assert (await model.complete(HELLO)).text
    assert model.meter.spend().tokens > 1


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(600, 4000))
def test_whatever_calls_take_the_limit_is_passed_by_the_last_wave_only(taken: list[int], limit: int) -> None:
    """One after the other, the limit is passed by less than what one call takes over its estimate."""

    async def run() -> tuple[int, int]:
        spender = Spender("openai/a", *(_tokens(6, n) for n in taken))
        model = Metered(spender, Meter(max_tokens=limit), "policy")
        try:
            for _ in range(60):
                await model.complete(HELLO)
        except BudgetSpent:
            pass
        return model.meter.spend().tokens, spender.asked

    tokens, asked = asyncio.run(run())
    assert asked >= 1
    assert tokens <= limit + max(taken)


def test_a_limit_on_money_without_a_price_names_the_model() -> None:
    with pytest.raises(UseError, match=r"--max-cost.*openai/new"):
        Meter(max_cost=1.0, prices=PRICES, models=["heartloop/reflector", "openai/a", "openai/new"])
    with pytest.raises(UseError, match=r"--max-cost.*openai/new"):
        Metered(ScriptedChat(["a"], name="openai/new"), Meter(max_cost=1.0), "policy")
    Metered(ScriptedChat(["a"], name="openai/new"), Meter(max_tokens=5), "policy")


@pytest.mark.parametrize(("flag", "limits"), [("--max-tokens", {"max_tokens": 0}), ("--max-cost", {"max_cost": -1.0})])
def test_a_limit_that_is_not_positive_is_refused(flag: str, limits: dict[str, Any]) -> None:
    with pytest.raises(UseError, match=f"{flag} is "):
        Meter(**limits)


def test_a_price_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["openai/gpt-4.1"]\ninput = 2.0\noutput = 8\n\n["openrouter/a/b"]\ninput = 0\noutput = 0.5\n')
    assert load_prices(path) == {"openai/gpt-4.1": Price(2.0, 8.0), "openrouter/a/b": Price(0.0, 0.5)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[openai/gpt-4.1]\ninput = 2", "line 1"),
        ('["a/b"]\ninput = 2', "table 'a/b'"),
        ('["a/b"]\ninput = 2\noutput = "8"', "table 'a/b'"),
        ('["a/b"]\ninput = 2\noutput = -8', "table 'a/b'"),
        ('["a/b"]\ninput = true\noutput = 1', "table 'a/b'"),
        ('["a/b"]\ninput = 2\noutput = nan', "table 'a/b'"),
        (f'["a/b"]\ninput = 2\noutput = {"9" * 400}', "table 'a/b'"),
        ('["a/b"]\ninput = 2\noutput = 8\ncached = 1', "table 'a/b'"),
        ('"a/b" = 2', "table 'a/b'"),
    ],
)
def test_a_price_file_that_does_not_fit_says_where(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_prices(path)
    for part in (said, "prices.toml", "expected"):
        assert part in str(caught.value)
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        load_prices(tmp_path / "nowhere.toml")
