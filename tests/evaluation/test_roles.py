"""Who plays an environment's roles: `--user`, `--judge`, `--role name=MODEL`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.plan import assign_roles, model_names, read_roles
from heartloop.evaluation.store import comparable, read_run
from tests.commands import over_http
from tests.empa.test_environment import call, form, speech
from tests.faulty_server import FaultyServer

EMPA, SAGE, PERM = (load_environment(name) for name in ("empa", "sage", "perm"))


def test_the_user_plays_every_role_without_a_model_of_its_own() -> None:
    assert assign_roles(EMPA, user="lab/x") == dict.fromkeys(("user", "judge", "director"), "lab/x")
    assert assign_roles(PERM, user="embedded") == {"judge": "embedded"}
    roles = assign_roles(EMPA, user="lab/x", judge="lab/y", roles={"director": "embedded"})
    assert roles == {"user": "lab/x", "judge": "lab/y", "director": "embedded"}
    assert model_names(roles) == ["lab/x", "lab/y"]
    assert assign_roles(EMPA, roles=read_roles(["user=a/b", "judge=a/b=c", "director=a/b"]))["judge"] == "a/b=c"
    assert assign_roles(PERM, judge="lab/y") == {"judge": "lab/y"}


@pytest.mark.parametrize(
    ("environment", "given", "named"),
    [
        ("sage", {"user": "embedded", "judge": "lab/y"}, "--judge"),
        ("empa", {"judge": "lab/y"}, "user and director"),
        ("empa", {"user": "lab/x", "roles": ["directr=lab/y"]}, "'director'"),
        ("empa", {"user": "lab/x", "roles": ["director"]}, "name=MODEL"),
        ("empa", {"user": "lab/x", "roles": ["policy=lab/y"]}, "'policy=lab/y'"),
        ("empa", {"user": "lab/x", "judge": "lab/y", "roles": ["judge=lab/z"]}, "judge"),
        ("empa", {"user": "lab/x", "roles": ["director=lab/y", "director=lab/y"]}, "director"),
        ("empa", {"user": "lab/x", "roles": ["director=heartloop/reflector"]}, "heartloop/reflector"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(environment: str, given: dict[str, Any], named: str) -> None:
    with pytest.raises(UseError, match=named):
        assign_roles(load_environment(environment), **given | {"roles": read_roles(given.get("roles", ()))})


REPLY = "I hear you. That is a lot to carry."
ROLES = {"You are this person": "user", "You are the judge": "judge", "You direct the": "director"}


def part_of(body: dict[str, Any]) -> str:
    head = body["messages"][0]["content"]
    return next((role for start, role in ROLES.items() if start in head), "policy")


def answer(body: dict[str, Any]) -> str:
    return {"user": speech(), "judge": form(), "director": call(), "policy": REPLY}[part_of(body)]


async def evaluate(server: FaultyServer, folder: Path, *words: str) -> None:
    command = ("eval", "empa", "--yes", "--model", "lab/policy", "--limit", "2", "-E", "max_turns=2", *words)
    await over_http(server, *command, cwd=folder, code=0)


async def test_three_models_have_their_own_sampling_usage_and_cost(tmp_path: Path) -> None:
    prices = {"policy": (1, 2), "person": (10, 20), "judge": (100, 200), "director": (1000, 2000)}
    rows = (f'["lab/{name}"]\ninput = {into}\noutput = {out}\n' for name, (into, out) in prices.items())
    (tmp_path / "prices.toml").write_text("".join(rows))
    async with FaultyServer(answer=answer) as server:
        words = ["--user", "lab/person", "--judge", "lab/judge", "--role", "director=lab/director", "--prices", "prices.toml"]
        sampling = ["judge.temperature=0", "user.temperature=0.9", "user.max_tokens=700", "director.seed=5"]
        await evaluate(server, tmp_path, *words, "--out", "run", *(text for one in sampling for text in ("--request", one)))
        asked = {(part_of(body), body["model"]) for body in server.bodies}
        assert asked == {("policy", "policy"), ("user", "person"), ("judge", "judge"), ("director", "director")}
        by_role = {role: [body for body in server.bodies if part_of(body) == role] for role in ("user", "judge", "director")}
    assert {(body["temperature"], body["max_tokens"]) for body in by_role["user"]} == {(0.9, 700)}
    assert {body["temperature"] for body in by_role["judge"]} == {0}
    assert all("temperature" not in body for body in by_role["director"])
    assert {body["seed"] - 5 for body in by_role["director"]} <= {3 * turn + 2 for turn in range(2)}
    played = list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    expected_cost = 0.0
    for transcript in played:
        assert transcript.models == {
            "policy": "lab/policy", "user": "lab/person", "judge": "lab/judge", "director": "lab/director",
        }  # fmt: skip
        assert {role: s.temperature for role, s in transcript.sampling.items()} == {
            "policy": None, "user": 0.9, "judge": 0.0, "director": None,
        }  # fmt: skip
        assert set(transcript.usage) == {"policy", "user", "judge", "director"}
        for role, usage in transcript.usage.items():
            into, out = prices[transcript.models[role].removeprefix("lab/")]
            expected_cost += (into * usage.prompt_tokens + out * usage.completion_tokens) / 1e6
    card = json.loads((tmp_path / "run" / "scores.json").read_text())["models"][0]
    assert card["cost"] == pytest.approx(expected_cost)
    assert {role: use["calls"] for role, use in card["roles"].items()} == {
        role: sum(call.role == role for t in played for call in t.calls) for role in ("policy", "user", "judge", "director")
    }


async def test_a_model_judges_what_the_embedded_user_says(tmp_path: Path) -> None:
    async with FaultyServer(answer=answer) as server:
        words = ("--user", "embedded", "--request", "judge.temperature=0")
        await evaluate(server, tmp_path, *words, "--judge", "lab/judge", "--out", "one")
        assert {(part_of(body), body["model"]) for body in server.bodies} == {("policy", "policy"), ("judge", "judge")}
        await evaluate(server, tmp_path, *words, "--judge", "lab/other", "--out", "other")
        await evaluate(server, tmp_path, *words, "--judge", "lab/judge", "--role", "director=lab/d", "--out", "directed")
    one, other, directed = (read_run(tmp_path / name) for name in ("one", "other", "directed"))
    transcript = one.digests[0].read()
    assert transcript.models == {"policy": "lab/policy", "user": "embedded", "judge": "lab/judge", "director": "embedded"}
    assert transcript.sampling["judge"].temperature == 0
    assert transcript.scored
    assert len(comparable([one, other, directed])) == 3
    warnings = compare(*choose_sides(one, other, None, None)).warnings
    assert any("lab/judge" in warning and "lab/other" in warning for warning in warnings)
    warnings = compare(*choose_sides(one, directed, None, None)).warnings
    assert any("director" in warning and "lab/d" in warning for warning in warnings)
