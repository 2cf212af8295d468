"""EQ-Bench3 on the command line: a checkout is read and played, a killed run resumes, and only judge and model are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from tests.commands import heartloop, killed, over_http
from tests.eqbench.test_environment import ANSWER, SCORE
from tests.eqbench.test_llm_user import GIVEN, GOOD
from tests.eqbench_checkout import write_checkout
from tests.faulty_server import FaultyServer

EVAL = ("eval", "eqbench", "--user", "embedded", "--scenarios", "checkout")
BOTH = ("--model", "heartloop/reflector", "--model", "heartloop/lecturer")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_checkout(folder / "checkout")
    for variant in ("official", "repaired"):
        done = heartloop(*EVAL, *BOTH, "-E", f"variant={variant}", "--out", variant, cwd=folder)
        assert done.code == 0, done
        assert "Rubric score, 0 to 100" in done.out
    return folder


def bodies(run: Path) -> list[dict[str, Any]]:
    rows = [t.model_dump(exclude={"seconds"}) for t in read_transcripts(run / "transcripts.jsonl")]
    return sorted(rows, key=lambda row: (row["model"], row["scenario"]))


def test_settings_name_the_reading_the_checkout_its_texts_and_the_sampling(place: Path) -> None:
    settings = json.loads((place / "official" / "settings.json").read_text())
    assert settings["options"] == {"preset": "released", "variant": "official", "max_turns": 12}
    assert settings["scenario_set"] == "checkout"
    assert list(settings["scenarios"]) == ["1", "2", "3", "401"]
    assert settings["sampling"]["policy"] == {"temperature": 0.7, "top_p": None, "max_tokens": 12000, "seed": None}
    assert settings["prompts"].keys() >= {"scenario_master_prompt", "debrief_prompt", "rubric_scoring_prompt_analysis"}
    assert list(json.loads((place / "repaired" / "settings.json").read_text())["scenarios"]) == ["1", "2", "3", "401", "409"]


def test_check_and_scenarios_read_a_checkout(place: Path) -> None:
    done = heartloop("check", "eqbench", "--scenarios", "checkout", cwd=place)
    assert done.out.splitlines() == [f"PASS: eqbench, checkout, released, {v}" for v in ("official", "repaired")]
    listed = heartloop("scenarios", "list", "checkout", cwd=place).out.splitlines()
    assert (len(listed), "repaired" in listed[-1]) == (5, True)
    assert "Prompt 2:\nHe laughs" in heartloop("scenarios", "show", "1", "--scenarios", "checkout", cwd=place).out


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(place: Path, tmp_path: Path) -> None:
    write_checkout(tmp_path / "checkout")
    words = (*EVAL, *BOTH, "--repeats", "4", "--max-connections", "1", "--out")
    stored = tmp_path / "killed" / "transcripts.jsonl"
    assert killed(*words, "killed", cwd=tmp_path, when=lambda: stored.exists() and stored.read_bytes().count(b"\n") > 3)
    before = stored.read_bytes().count(b"\n")
    assert 3 < before < 32
    done = heartloop(*words, "killed", cwd=tmp_path)
    assert done.code == 0, done
    assert f"{before} finished before" in done.out
    assert heartloop(*words, "whole", cwd=tmp_path).code == 0
    assert len(bodies(tmp_path / "killed")) == 32
    assert bodies(tmp_path / "killed") == bodies(tmp_path / "whole")


async def test_over_http_the_model_is_asked_as_released_and_rejudging_asks_the_judge_alone(tmp_path: Path) -> None:
    write_checkout(tmp_path / "checkout")
    analysis = json.dumps({**{name: GIVEN[name] for name in list(GIVEN)[:1]}, "depth_of_insight": 8, "emotional_reasoning": 8,
                           "accuracy": 8})  # fmt: skip

    def says(body: dict[str, Any]) -> str:
        asked = body["messages"][-1]["content"]
        return (analysis if '"accuracy"' in asked else GOOD) if "chain_of_thought_reasoning" in asked else ANSWER

    words = ("eval", "eqbench", "--scenarios", "checkout", "--model", "lab/pol", "--judge", "lab/judge", "--yes")
    async with FaultyServer(answer=says) as server:
        done = await over_http(server, *words, "--request", "policy.seed=5", "--out", "run", cwd=tmp_path)
        assert done.code == 0, done
        policy = [body for body in server.bodies if body["model"] == "pol"]
        assert len(policy) == 3 + 2 + 2 + 1
        assert {(body["temperature"], body["max_tokens"]) for body in policy} == {(0.7, 12000)}
        assert all(body["messages"][0]["role"] == "user" for body in policy)
        assert len(server.bodies) == len(policy) + 4
        again = await over_http(server, "rejudge", "run", "--judge", "lab/other", "--yes", "--out", "judged", cwd=tmp_path)
        assert again.code == 0, again
        assert [body["model"] for body in server.bodies[12:]] == ["other"] * 4
        assert {(body["temperature"], body["max_tokens"]) for body in server.bodies[12:]} == {(0.0, 8000)}
    scores = {row["scenario"]: row["score"] for row in bodies(tmp_path / "judged")}
    assert scores == {"1": SCORE, "2": SCORE, "3": SCORE, "401": 40.0}
