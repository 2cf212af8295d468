"""The Inspect integration plays the same dialogues as our own command."""

from __future__ import annotations

import gc
import hashlib
import json
import random
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai import eval_async, eval_retry_async
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import Score

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.system import install_command
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment, stratified
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.users import SageEmbeddedUser, SageLLMUser
from heartloop.evaluation.scores import points_of
from heartloop.evaluation.settings import dialogue_seed
from heartloop.integrations.inspect.samples import KEY
from heartloop.integrations.inspect.task import TASKS
from heartloop.models.names import close, resolve
from tests import faulty_server
from tests.commands import heartloop
from tests.faulty_server import FaultyServer, Request

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The 'initial' parameter is deprecated:DeprecationWarning"
    ),  # tenacity, as Inspect calls it
    # streams and sockets that Inspect leaves to the garbage collector
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed (transport|.socket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <:pytest.PytestUnraisableExceptionWarning"),
]

CANARY = "sk-canary-5db1c04f77e2"
FREE = {"user": "embedded", "limit": 2, "max_turns": 3}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No display, no colours, no traffic but to this machine."""
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.setenv("INSPECT_LOG_LEVEL", "error")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    yield
    with warnings.catch_warnings():  # what Inspect's clients leave open must not count against the next test
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def run(environment: str = "sage", /, *, model: Any = "heartloop/reflector", **how: Any) -> EvalLog:
    """One evaluation, as `inspect eval heartloop/ENVIRONMENT` makes it."""
    [log] = await eval_async(f"heartloop/{environment}", model=model, log_dir=str(Path.cwd() / "logs"), **how)
    return read_eval_log(log.location)


Http = Callable[..., Awaitable[tuple[EvalLog, FaultyServer]]]


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Http:
    """The same, with one scenario, policy and user behind Inspect's own OpenAI-compatible provider, and a server with faults."""

    async def over_http(*faults: str, **how: Any) -> tuple[EvalLog, FaultyServer]:
        async with FaultyServer(*faults, answer=by_words) as server:
            monkeypatch.setenv("FAULTY_BASE_URL", server.base_url)
            monkeypatch.setenv("FAULTY_API_KEY", CANARY)
            port = server.base_url.rpartition(":")[2].partition("/")[0]  # models are remembered by name for the whole process
            user: Any = f"openai-api/faulty/sim{port}"
            if "user_config" in how:
                user = get_model(user, config=how.pop("user_config"), memoize=False)
            roles = how.pop("model_roles", {"user": user})
            arguments = {"limit": 1, "max_turns": 3, **how.pop("task_args", {})}
            environment = how.pop("environment", "sage")
            how = {"max_retries": 0, **how}
            model = f"openai-api/faulty/{port}"
            return await run(environment, model=model, model_roles=roles, task_args=arguments, **how), server

    return over_http


def samples(log: EvalLog) -> list[EvalSample]:
    assert log.samples is not None
    return log.samples


def played_in(sample: EvalSample) -> Transcript:
    """The transcript a sample holds."""
    return Transcript.model_validate(sample.store[KEY])


def score(sample: EvalSample) -> Score:
    return (sample.scores or {})["points"]


def value(sample: EvalSample) -> float:
    return score(sample).as_float()


def results(log: EvalLog) -> dict[str, Any]:
    assert log.results is not None
    [card] = log.results.scores
    return {"scored": card.scored_samples, "unscored": card.unscored_samples} | {k: m.value for k, m in card.metrics.items()}


async def played(
    user: SageEmbeddedUser | SageLLMUser, policy: ChatModel, epochs: int = 1, seed: int = 0, **how: Any
) -> dict[tuple[str, int], Transcript]:
    """The same dialogues by our own loop, as `heartloop eval` plays them."""
    chosen = stratified(load_scenarios("support"), 2)
    environment = Sage(chosen, user, max_turns=3, **how)
    return {
        (one.id, repeat + 1): await play(
            environment, one.id, policy, seed=dialogue_seed(seed, one.id, repeat), repeat=repeat, sampling=Sampling()
        )
        for one in chosen
        for repeat in range(epochs)
    }


def spoken(transcript: Transcript) -> dict[str, Any]:
    """All but the clock, the calls' own records, and what the models are called."""
    return transcript.model_dump(exclude={"seconds", "calls", "model", "models", "user"})


def by_words(body: dict[str, Any]) -> str:
    """The server's own parts, drawn from the messages alone: bodies differ between two clients."""
    words = json.dumps([[m["role"], m["content"]] for m in body["messages"]])
    draw = random.Random(hashlib.sha256(words.encode()).hexdigest())
    return faulty_server._play(Request(body, "", faulty_server._part(body)), draw, None)


class TestParity:
    async def test_the_embedded_user_and_a_baseline_and_the_metrics_of_the_leaderboard(self) -> None:
        log = await run(task_args=FREE, epochs=2, seed=5)
        ours = await played(SageEmbeddedUser(), resolve("heartloop/reflector"), epochs=2, seed=5)
        assert {(s.id, s.epoch): spoken(played_in(s)) for s in samples(log)} == {key: spoken(t) for key, t in ours.items()}
        assert {(s.id, s.epoch): value(s) for s in samples(log)} == {key: t.score for key, t in ours.items()}
        assert len({played_in(s).seed for s in samples(log)}) == 4
        found = results(log)
        assert found["mean"] == pytest.approx(sum(value(s) for s in samples(log)) / 4)
        assert found["low"] <= found["mean"] <= found["high"]
        assert (found["scored"], found["unscored"], found["success"], found["failure"]) == (4, 0, 0, 0)
        sample = samples(log)[0]
        transcript = played_in(sample)
        assert [m.role for m in sample.messages] == ["system", "user", *["assistant", "user"] * 2, "assistant"]
        assert [m.text for m in sample.messages if m.role == "assistant"] == [turn.reply for turn in transcript.turns]
        effects = [m.metadata or {} for m in sample.messages if m.role == "assistant"]
        assert [effect["emotion"] for effect in effects] == [turn.state["emotion"] for turn in transcript.turns if turn.state]
        assert all(effect["thoughts"]["activity"] for effect in effects)

    async def test_a_user_model_over_http(self, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
        log, _ = await http(task_args={"preset": "released", "limit": 2})
        async with FaultyServer(answer=by_words) as server:
            monkeypatch.setenv("FAULTY_BASE_URL", server.base_url)
            policy, user = resolve("faulty/any"), resolve("faulty/other")
            ours = await played(SageLLMUser(user), policy, preset="released")
            await close([policy, user])
        assert {(s.id, s.epoch): spoken(played_in(s)) for s in samples(log)} == {key: spoken(t) for key, t in ours.items()}
        sample = samples(log)[0]
        course = (score(sample).metadata or {})["emotion"]
        assert (course[0], course[-1]) == (40.0, value(sample))
        assert sample.role_usage["user"].total_tokens == played_in(sample).usage["user"].total
        assert [e.source for e in sample.events if e.event == "info"] == ["heartloop"] * 3


class TestEnvironments:
    @pytest.mark.parametrize(
        ("environment", "options"),
        [("eibench", {}), ("empa", {}), ("perm", {"without": ["bystander"], "bystander_weight": 0.25})],
    )
    async def test_one_dialogue_with_the_embedded_roles(self, environment: str, options: dict[str, Any]) -> None:
        log = await run(environment, task_args={"user": "embedded", "limit": 1, **options})
        [sample] = samples(log)
        assert sample.error is None
        transcript = played_in(sample)
        assert (transcript.environment, transcript.user) == (environment, "embedded")
        assert value(sample) == pytest.approx(points_of(transcript))
        assert results(log)["scored"] == 1
        assert ("success" in results(log)) is not load_environment(environment).scale.by_end

    async def test_each_role_may_have_its_own_model_and_the_users_plays_the_others(self, http: Http) -> None:
        roles = {"user": "openai-api/faulty/one", "judge": "openai-api/faulty/two"}
        log, _ = await http(environment="empa", model_roles=roles, task_args={"max_turns": 1})
        [sample] = samples(log)
        assert sample.error is None, sample.error
        models = played_in(sample).models
        assert {role: models[role] for role in ("user", "judge", "director")} == {**roles, "director": roles["user"]}
        assert list(sample.role_usage) == ["judge"], "in the only turn"


class TestFailures:
    @pytest.mark.parametrize(
        ("fault", "role", "kind"),
        [
            ("unauthorized", "policy", "RefusedByServer"),
            ("empty_choices@policy", "policy", "TransportError"),
            ("content_filter@feel", "user", "AnswerError"),
        ],
    )
    async def test_a_failed_instrument_is_an_error_and_unscored(self, fault: str, role: str, kind: str, http: Http) -> None:
        log, _ = await http(fault)
        [sample] = samples(log)
        assert log.status == "success", "the others would go on"
        assert sample.error is not None
        assert f"the {role} failed ({kind})" in sample.error.message
        assert isnan(value(sample))
        assert score(sample).reason == f"{role}_failed"
        assert results(log)["unscored"] == 1
        assert CANARY not in score(sample).model_dump_json() + json.dumps(sample.store)

    @pytest.mark.parametrize(
        "fault", ["content_filter@policy", "length@policy", "no_seed", "no_schema", "no_usage", "half_emoji"]
    )
    async def test_what_the_policy_does_is_scored_and_what_endpoints_do_differently_does_no_harm(
        self, fault: str, http: Http
    ) -> None:
        log, server = await http(fault)
        [sample] = samples(log)
        assert sample.error is None
        assert results(log)["scored"] == 1
        assert server.fired

    async def test_eval_retry_plays_the_failed_and_keeps_the_scored(self, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
        log, server = await http("unknown_model@policy:1", task_args={"limit": 2}, max_samples=1)
        assert sorted(isnan(value(s)) for s in samples(log)) == [False, True]
        async with FaultyServer(answer=by_words, port=int(server.base_url.rpartition(":")[2].partition("/")[0])) as second:
            [again] = await eval_retry_async(log, log_dir=str(Path.cwd() / "logs"))
        assert results(again)["scored"] == 2
        assert len(second.requests) < len(server.requests), "the scored one was not played again"

    @pytest.mark.parametrize("limit", [{"message_limit": 4}, {"token_limit": 2_000}, {"time_limit": 2}])
    async def test_a_sample_cut_by_a_limit_is_unscored_and_keeps_what_there_was(self, limit: dict[str, int], http: Http) -> None:
        log, _ = await http(*(["timeout@speak"] if "time_limit" in limit else []), **limit)
        [sample] = samples(log)
        assert sample.limit is not None
        assert score(sample).reason == "not_finished"
        assert len(sample.messages) > 1


class TestCalls:
    async def test_thinking_stays_where_it_was_thought(self, http: Http) -> None:
        log, server = await http("thinking")
        assert "sound hurt" not in json.dumps(server.bodies)
        assert "sound hurt" not in json.dumps(samples(log)[0].store)

    async def test_seed_and_time_limit_reach_both_and_sampling_the_policy_alone(self, http: Http) -> None:
        numbers: dict[str, Any] = {"temperature": 0.3, "presence_penalty": 1.5, "frequency_penalty": 0.5}
        given = {"stop_seqs": ["END"], "reasoning_effort": "low", "extra_body": {"min_p": 0.1}}
        log, server = await http(attempt_timeout=17, **numbers, **given)
        assert all("seed" in body for body in server.bodies)
        sent = {**numbers, "stop": ["END"], "min_p": 0.1}  # Inspect sends an effort to models that it knows to reason
        for request in server.requests:
            assert {name: request.body.get(name) for name in sent} == (sent if request.part == "policy" else dict.fromkeys(sent))
        assert played_in(samples(log)[0]).sampling["policy"] == Sampling(
            **numbers, stop=("END",), reasoning_effort="low", request={"min_p": 0.1}
        )
        calls = [event for event in samples(log)[0].events if event.event == "model"]
        settings = {(call.role, call.config.attempt_timeout, call.config.max_retries) for call in calls}
        assert settings == {(None, 17, 0), ("user", 17, 0)}

    async def test_a_role_has_settings_of_its_own(self, http: Http) -> None:
        log, server = await http(user_config=GenerateConfig(temperature=0.7, seed=9))
        asked = [request.body for request in server.requests if request.part != "policy"]
        assert {body["temperature"] for body in asked} == {0.7}
        assert sorted(body["seed"] for body in asked) == [9, 10, 11, 12, 13]
        assert played_in(samples(log)[0]).sampling["user"] == Sampling(temperature=0.7, seed=9)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "roles", "part"),
        [
            ({}, {}, "--model-role user="),
            ({"user": "embedded"}, {"user": "heartloop/reflector"}, "every role has a model"),
            ({"user": "nobody"}, {}, "'nobody'"),
            ({"user": "embedded", "max_turn": 3}, {}, "the nearest is 'max_turns'"),
        ],
    )
    async def test_refused_before_the_first_call(self, arguments: dict[str, Any], roles: dict[str, str], part: str) -> None:
        with pytest.raises(PrerequisiteError, match=part):
            await run(task_args=arguments, model_roles=roles)

    async def test_a_task_made_in_python_takes_its_roles_from_eval(self) -> None:
        made = TASKS["sage"](limit=1, max_turns=1)
        [log] = await eval_async(made, model="heartloop/reflector", log_dir=str(Path.cwd() / "logs"))
        [sample] = samples(read_eval_log(log.location))
        assert sample.error is not None
        assert "--model-role user=" in sample.error.message

    async def test_tags_are_left_out_as_in_our_own_command(self) -> None:
        log = await run(task_args={"user": "embedded", "limit": 8, "max_turns": 1, "exclude_tags": "death,eating"})
        assert not any({"death", "eating"} & set(str(s.metadata["tags"]).split()) for s in samples(log))


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("heartloop.integrations.inspect")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    done = heartloop("export", "somewhere", "--to", "inspect", cwd=tmp_path)
    assert (done.code, install_command("inspect") in done.err) == (2, True), done
