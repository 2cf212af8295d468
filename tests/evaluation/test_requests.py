"""Sampling settings and other fields of a request, from the command line to the body that arrives."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Sampling, Transcript, read_transcripts
from heartloop.core.errors import UseError
from heartloop.evaluation.plan import read_requests
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.provenance import command_of
from tests.commands import over_http
from tests.faulty_server import FaultyServer

MODELS = {"policy": ["openai/a"], "user": ["openai/b"]}


def read(*texts: str, models: dict[str, list[str]] = MODELS) -> dict[str, Sampling]:
    return read_requests(texts, models=models)


def test_settings_are_read_by_their_type() -> None:
    words = ["temperature=0.7", "top_p=0.8", "presence_penalty=1.5", "max_tokens=8192"]  # EMPA, note of Table 7
    more = ["top_k=20", "frequency_penalty=-0.5", "reasoning_effort=low", 'stop=["\\n\\n", "END"]']
    assert read(*(f"policy.{word}" for word in [*words, *more])) == {
        "policy": Sampling(
            temperature=0.7, top_p=0.8, presence_penalty=1.5, max_tokens=8192, top_k=20, frequency_penalty=-0.5,
            reasoning_effort="low", stop=("\n\n", "END"),
        )
    }  # fmt: skip
    fields = read("policy.a.b.c=1", "policy.a.b.d=2", "policy.a.e=3")["policy"].request
    assert fields == {"a": {"b": {"c": 1, "d": 2}, "e": 3}}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("chat_template_kwargs.enable_thinking=false", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("min_p=0.05", {"min_p": 0.05}),
        ("service_tier=flex", {"service_tier": "flex"}),
        ('label="false"', {"label": "false"}),
        ('provider={"order": ["a", "b"]}', {"provider": {"order": ["a", "b"]}}),
        ("cache_prompt=null", {"cache_prompt": None}),
        ("note=a=b c", {"note": "a=b c"}),
    ],
)
def test_a_field_is_a_dotted_path_with_json_or_a_text(text: str, sent: dict[str, Any]) -> None:
    assert read(f"user.{text}") == {"user": Sampling(request=sent)}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["polcy.top_k=20"], ["polcy", "the nearest is 'policy"]),
        (["policy.topk=20"], ["topk", "policy.top_k=value"]),
        (["policy.seed.a=1"], ["policy.seed.a=1", "policy.seed=value"]),
        (["policy.top_k"], ["policy.top_k", "expected"]),
        (["policy.a..b=1"], ["policy.a..b=1"]),
        (["policy.presence_penalty=3"], ["presence_penalty=3", "2"]),
        (["policy.top_k=2.5"], ["top_k=2.5"]),
        (["policy.stop=[1"], ["[1", "JSON"]),
        (["policy.stop="], ["stop"]),
        (["policy.top_k=20", "policy.top_k=30"], ["policy.top_k=20", "policy.top_k=30"]),
        (["policy.max_completion_tokens=9"], ["max_completion_tokens", "policy.max_tokens"]),
        (['policy.a={"c": 1}', "policy.a.b=1"], ["policy.a=", "policy.a.b=1"]),
        (["policy.a=None"], ["None", "null"]),
        (["policy.a=NaN"], ["NaN"]),
        (['policy.a={"b": 1'], ["not valid JSON"]),
        *(([f"policy.{name}=1"], [name]) for name in ("model", "messages", "stream", "response_format", "n")),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_by_name(words: list[str], named: list[str]) -> None:
    with pytest.raises(UseError) as error:
        read(*words)
    assert all(name in str(error.value) for name in named), str(error.value)


@pytest.mark.parametrize(
    ("names", "text", "refused"),
    [
        (["embedded"], "user.temperature=1", "embedded"),
        (["python:a:b"], "user.temperature=1", "python:a:b"),
        (["checkpoint:a"], "user.presence_penalty=1", "checkpoint:a"),
        (["openai/a", "checkpoint:a"], "user.min_p=1", "checkpoint:a"),
        (["heartloop/fixer"], "user.seed=1", ""),
        (["heartloop/fixer", "openai/a"], "user.min_p=1", ""),
        (["checkpoint:a"], "user.top_k=3", ""),
    ],
)
def test_a_setting_that_a_model_does_not_take_is_refused_except_beside_one_that_does(
    names: list[str], text: str, refused: str
) -> None:
    if refused:
        with pytest.raises(UseError, match=refused):
            read(text, models={"user": names})
    else:
        assert read(text, models={"user": names})


def test_what_is_not_set_is_not_written_so_that_hashes_of_earlier_versions_hold() -> None:
    assert list(Sampling(temperature=0.5).model_dump()) == ["temperature", "top_p", "max_tokens", "seed"]
    full = Sampling(seed=1, top_k=3, stop=("a",), request={"a": {"b": None}})
    assert Sampling.model_validate_json(full.model_dump_json()) == full


def test_a_default_is_merged_field_by_field() -> None:
    default = Sampling(top_k=3, request={"a": {"b": 1, "c": 2}, "d": 3})
    given = Sampling(request={"a": {"b": 9}})
    assert given.over(default) == Sampling(top_k=3, request={"a": {"b": 9, "c": 2}, "d": 3})


SETTINGS = [
    "--request", "policy.top_k=20", "--request", "policy.presence_penalty=1.5", "--request", "policy.reasoning_effort=low",
    "--request", 'policy.stop=["###"]', "--request", "policy.chat_template_kwargs.enable_thinking=false",
    "--request", "user.min_p=0.05",
]  # fmt: skip
RUN = ("eval", "sage", "--yes", "--model", "lab/policy", "--user", "lab/user", "--limit", "1", "-E", "max_turns=1")


def by_model(server: FaultyServer, name: str) -> list[dict[str, Any]]:
    return [body for body in server.bodies if body["model"] == name]


async def test_the_settings_arrive_and_are_recorded(tmp_path: Path) -> None:
    async with FaultyServer() as server:
        assert (await over_http(server, *RUN, *SETTINGS, "--out", "run", cwd=tmp_path)).code == 0
        policy, user = by_model(server, "policy"), by_model(server, "user")
        assert policy
        assert user
        sent = {
            "top_k": 20, "presence_penalty": 1.5, "reasoning_effort": "low", "stop": ["###"],
            "chat_template_kwargs": {"enable_thinking": False},
        }  # fmt: skip
        assert all({name: body.get(name) for name in sent} == sent for body in policy)
        assert all(body["min_p"] == 0.05 and not sent.keys() & body.keys() for body in user)
        assert (await over_http(server, *RUN, *SETTINGS[2:], "--out", "other", cwd=tmp_path)).code == 0
    transcript: Transcript = next(read_transcripts(tmp_path / "run/transcripts.jsonl"))
    assert transcript.sampling["policy"].stop == ("###",)
    assert transcript.sampling["user"].request == {"min_p": 0.05}
    runs = [read_run(tmp_path / name) for name in ("run", "other")]
    assert len(comparable(runs)) == 2  # another top_k is another measurement
    command, _ = command_of(runs[0])
    assert command is not None
    async with FaultyServer() as server:
        again = await over_http(server, *shlex.split(command)[1:], "--yes", "--out", "again", cwd=tmp_path)
    assert again.code == 0, again
    assert (tmp_path / "again/settings.json").read_text() == (tmp_path / "run/settings.json").read_text()
