"""EIBench on the command line, as a user meets it.

1. eval, resume, shards and merge, compare, report: as for SAGE.
2. What an environment does not have is refused in one sentence, with exit code 2.
3. A simulator model over HTTP plays the person; an answer that lacks a field leaves the dialogue unscored.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from heartloop.dialogue import read_transcripts
from heartloop.environments.eibench import read_scenarios
from tests.test_cli import environment, heartloop

EVAL = ("eval", "eibench", "--user", "embedded", "--limit", "3", "--max-turns", "3")
BOTH = ("--model", "heartloop/diplomat", "--model", "heartloop/rigid")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run whole, and the same in two shards, merged."""
    folder = tmp_path_factory.mktemp("runs")
    assert heartloop(*EVAL, *BOTH, "--out", "whole", cwd=folder).code == 0
    for index in ("1", "2"):
        assert heartloop(*EVAL, *BOTH, "--shard", f"{index}/2", "--out", index, cwd=folder).code == 0
    done = heartloop("merge", "1", "2", "--out", "merged", cwd=folder)
    assert done.code == 0, done
    assert "Outcome, -100 to 100" in done.out
    return folder


def bodies(run: Path) -> list[dict[str, Any]]:
    rows = [t.model_dump(exclude={"seconds"}) for t in read_transcripts(run / "transcripts.jsonl")]
    return sorted(rows, key=lambda row: (row["model"], row["scenario"]))


def test_a_run_has_its_settings_scores_and_report(place: Path) -> None:
    settings = json.loads((place / "whole" / "settings.json").read_text())
    assert (settings["preset"], settings["variant"], settings["scenario_set"]) == ("paper", "think", "test")
    assert settings["relation_weight"] == 0.5
    scores = json.loads((place / "whole" / "scores.json").read_text())
    assert (scores["environment"], scores["scored"]) == ("eibench", 6)
    assert {group["key"] for group in scores["models"][0]["groups"]} == {t["facts"]["scene"] for t in bodies(place / "whole")}
    assert (place / "whole" / "report" / "index.html").exists()


def test_the_limit_is_spread_over_the_scenes(place: Path) -> None:
    scenes = {t["facts"]["scene"] for t in bodies(place / "whole")}
    assert len(scenes) == 3


def test_shards_merge_into_the_run_that_one_command_makes_and_it_finds_nothing_left(place: Path) -> None:
    assert bodies(place / "merged") == bodies(place / "whole")
    done = heartloop(*EVAL, *BOTH, "--out", "merged", cwd=place)
    assert done.code == 0, done
    assert "0 dialogues played" in done.out


def test_compare_speaks_of_outcomes(place: Path) -> None:
    done = heartloop("compare", "whole", "--model-a", "heartloop/rigid", "--model-b", "heartloop/diplomat", cwd=place)
    assert done.code == 0, done
    assert "mean outcome" in done.out
    assert "by scene" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("eval", "eibench", "--user", "embedded", "-m", "heartloop/owner", "--preset", "corrected"),
            "unknown preset 'corrected'",
        ),
        (("eval", "eibench", "--user", "embedded", "-m", "heartloop/owner", "--relation-weight", "2"), "relation_weight is 2"),
        (("eval", "sage", "--user", "embedded", "-m", "heartloop/owner", "--relation-weight", "0.3"), "has no such weight"),
        (
            ("eval", "chess", "--user", "embedded", "-m", "heartloop/owner"),
            "unknown environment 'chess'; expected sage or eibench",
        ),
        (
            ("eval", "eibench", "--user", "embedded", "-m", "heartloop/owner", "--scenarios", "chat"),
            "unknown scenario set 'chat'",
        ),
        (("scenarios", "show", "charm-nowhere-99"), "no scenario 'charm-nowhere-99'"),
        (("scenarios", "list", "nothing"), "unknown scenario set 'nothing'; expected support or chat or test"),
        (("rescore", "whole", "--preset", "released"), "rescore knows SAGE; whole is of environment 'eibench'"),
        (("rescore", "whole", "--success-at", "50"), "rescore knows SAGE"),
        (("rejudge", "whole", "--judge", "embedded"), "rejudge knows SAGE"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_what_does_not_exist_is_said_in_a_sentence(words: tuple[str, ...], said: str, place: Path) -> None:
    done = heartloop(*words, cwd=place)
    assert done.code == 2, done
    assert said in done.err
    assert "Traceback" not in done.err


def test_another_weight_is_another_score_of_the_same_talk(place: Path) -> None:
    one = ("--model", "heartloop/diplomat", "--model", "heartloop/rigid", "--limit", "3")
    for weight in ("0", "1"):
        assert (
            heartloop(*EVAL[:4], *one, "--max-turns", "3", "--relation-weight", weight, "--out", f"w{weight}", cwd=place).code
            == 0
        )
    only_a, only_t = bodies(place / "w0"), bodies(place / "w1")
    assert [talk["turns"] for talk in only_a] == [talk["turns"] for talk in only_t]
    assert {talk["facts"]["relation_weight"] for talk in only_a} == {"0"}
    assert [talk["score"] for talk in only_a] != [talk["score"] for talk in only_t]


def test_scenarios_of_both_environments_are_listed_shown_and_checked(tmp_path: Path) -> None:
    assert "charm-allotment-01" in heartloop("scenarios", "list", "test", cwd=tmp_path).out
    shown = heartloop("scenarios", "show", "charm-allotment-01", cwd=tmp_path)
    assert "The model speaks first." in shown.out
    assert "Negative emotion a: 30, success 5, failure 75" in shown.out
    assert "Secretly wants" in heartloop("scenarios", "show", "support-listen-01", cwd=tmp_path).out
    from heartloop.environments.eibench import load_scenarios

    (tmp_path / "mine.jsonl").write_text(load_scenarios("test")[0].model_dump_json() + "\n", encoding="utf-8")
    assert heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path).out.strip() == "1 scenario (charm 1): no problem found"
    played = heartloop(*EVAL[:4], "--model", "heartloop/owner", "--scenarios", "mine.jsonl", "--max-turns", "2", cwd=tmp_path)
    assert played.code == 0, played


def test_the_environment_keeps_its_promises(tmp_path: Path) -> None:
    done = heartloop("check", "eibench", cwd=tmp_path)
    assert done.code == 0, done
    assert done.out.count("keeps its promises") == 4


class Simulator:
    """A server that plays the person; `lacks` is a field its answers do not have."""

    def __init__(self) -> None:
        self.lacks = ""

    async def answer(self, request: web.Request) -> web.Response:
        await request.json()
        body = {
            "reflection": {"need": "n", "quality": "q", "inertia": "i", "changes": "c", "tone": "t"},
            "emotion_change": -5, "relation_change": 3, "reply": "Go on, then.", "continue": "yes",
        }  # fmt: skip
        body.pop(self.lacks, None)
        message = {"message": {"role": "assistant", "content": json.dumps(body)}, "finish_reason": "stop"}
        return web.json_response({"choices": [message], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})


@pytest.fixture
async def server() -> AsyncIterator[tuple[Simulator, str]]:
    simulator = Simulator()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", simulator.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield simulator, f"http://127.0.0.1:{port}/v1"
    await runner.cleanup()


async def played(address: str, folder: Path, *more: str) -> int:
    words = ("eval", "eibench", "--simulator", "lab/person", "--model", "heartloop/owner", "--limit", "1", "--max-turns", "2")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "heartloop.cli", *words, "--out", "run", *more),
        cwd=folder, env=environment(LAB_BASE_URL=address, LAB_API_KEY="k"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return await asyncio.wait_for(process.wait(), 60)


async def test_a_simulator_model_plays_the_person(server: tuple[Simulator, str], tmp_path: Path) -> None:
    assert await played(server[1], tmp_path, "--yes", "--preset", "released") == 0
    (talk,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert (talk.scored, talk.preset, len(talk.turns)) == (True, "released", 2)
    assert [turn.change for turn in talk.turns] == [{"a": -5.0, "t": 3.0}] * 2
    assert len([call for call in talk.calls if call.role == "simulator"]) == 2  # one a turn


@pytest.mark.parametrize("lacks", ["continue", "emotion_change"])
async def test_an_answer_without_a_field_is_asked_again_once_then_unscored(
    lacks: str, server: tuple[Simulator, str], tmp_path: Path
) -> None:
    server[0].lacks = lacks
    assert await played(server[1], tmp_path, "--yes") == 1
    (talk,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert talk.score is None
    assert talk.failure is not None
    assert (talk.failure.role, talk.failure.kind) == ("simulator", "AnswerError")
    assert talk.turns == ()
    assert talk.counts["re-asks"] == 1


def test_the_training_set_is_written_once_and_never_over_another_file(tmp_path: Path) -> None:
    done = heartloop("scenarios", "compose", "--out", "train.jsonl", cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, "2009 scenarios: train.jsonl")
    assert len(read_scenarios(tmp_path / "train.jsonl")) == 2009
    again = heartloop("scenarios", "compose", "--out", "train.jsonl", cwd=tmp_path)
    assert again.code == 2
    assert "is there already" in again.err
