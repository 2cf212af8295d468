"""The Python interface: the same evaluation as `heartloop eval`, functions as models, and `Run`."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import heartloop
from heartloop.core.errors import HeartloopError, InputError, SettingsMismatch, UseError
from heartloop.evaluation.runner import completed
from heartloop.models.functions import function_name, function_source
from tests.commands import heartloop as command

SMALL: dict[str, Any] = {"user": "embedded", "limit": 2, "options": {"max_turns": 3}, "progress": False}


def listener(messages: list[dict[str, str]]) -> str:
    return f"You said: {messages[-1]['content'][:30]}. What was the worst of it?"


async def quiet(messages: list[dict[str, str]]) -> str:
    await asyncio.sleep(0)
    return "I see."


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEARTLOOP_CACHE", raising=False)


def test_tab_completion_shows_the_public_names_before_they_are_loaded() -> None:
    assert dir(heartloop) == sorted(heartloop.__all__)


def test_evaluate_and_the_command_make_and_resume_the_same_run(tmp_path: Path) -> None:
    run = heartloop.evaluate("sage", "heartloop/fixer", **SMALL)
    words = ("eval", "sage", "--model", "heartloop/fixer", "--user", "embedded", "--limit", "2", "-E", "max_turns=3")
    done = command(*words, cwd=tmp_path)
    assert "0 dialogues played" in done.out
    assert f"Run: {run.path}" in done.out
    assert json.loads((run.path / "scores.json").read_text()) == run.scores.model_dump(mode="json")


async def test_beside_a_running_loop_it_plays_in_a_thread_and_uses_the_cache(tmp_path: Path) -> None:
    first = heartloop.evaluate("sage", [listener, quiet], cache=tmp_path / "a.sqlite", out="one", **SMALL)
    calls = itertools.count()  # its state is not part of the function's hash, as a list's content is

    def counted(messages: list[dict[str, str]]) -> str:
        next(calls)
        return listener(messages)

    heartloop.evaluate("sage", [counted], cache=tmp_path / "a.sqlite", out="two", **SMALL)
    heartloop.evaluate("sage", [counted], cache=tmp_path / "a.sqlite", out="three", **SMALL)
    assert first.scores.scored == 4
    assert next(calls) == len(heartloop.load_run("two").table("turns"))  # the third run was answered by the cache


async def test_an_interrupt_beside_a_running_loop_cancels_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    started = threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("closed")

    def interrupted(future: Future[Any], timeout: float | None = None) -> None:
        started.wait(5)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        completed(work())
    assert ended == ["closed"]


def made(text: str) -> Any:
    def agent(messages: list[dict[str, str]]) -> str:
        return text

    return agent


def test_an_unchanged_function_resumes_and_a_changed_one_gets_another_run() -> None:
    named = heartloop.evaluate("sage", [listener, quiet], **SMALL).settings
    assert list(named["models"]) == [f"python:{listener.__module__}:{name}" for name in ("listener", "quiet")]
    assert all(len(named["weights"][name]) == 64 for name in named["models"])
    first, again, other = (heartloop.evaluate("sage", made(text), **SMALL) for text in ("Yes.", "Yes.", "No."))
    assert first == again != other
    assert len((first.path / "transcripts.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SettingsMismatch, match=r"function python:.*agent differs"):
        heartloop.evaluate("sage", made("No."), out=first.path, **SMALL)


def test_the_hash_of_a_function_follows_its_values_and_the_functions_it_uses() -> None:
    body = "def help(): return {0}\nTONE = {1}\ndef agent(messages): return TONE + help()"

    def source(*values: str) -> str:
        names: dict[str, Any] = {"__name__": "notebook"}
        exec(body.format(*map(repr, values)), names)
        return function_source(names["agent"])

    assert source("a", "b") == source("a", "b")
    assert len({source("a", "b"), source("a", "c"), source("c", "b")}) == 3


def test_a_function_that_raises_is_silent_which_is_counted_and_warned_of() -> None:
    def broken(messages: list[dict[str, str]]) -> str:
        raise ValueError("out of words")

    with pytest.warns(RuntimeWarning, match=r"(\d+) of \1 replies failed .*out of words"):
        run = heartloop.evaluate("sage", broken, **SMALL)
    (card,) = run.scores.models
    assert (card.scored, card.unscored, card.failed_replies) == (2, 0, card.silences)
    assert all("out of words" in row["error"] for row in run.table("turns"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heartloop.Run:
    folder = tmp_path_factory.mktemp("run") / "run"
    return heartloop.evaluate("sage", [listener, "heartloop/assistant"], out=folder, **SMALL)


def test_a_loaded_run_is_the_evaluated_one(run: heartloop.Run) -> None:
    assert heartloop.load_run(str(run.path)) == run
    assert {transcript.model for transcript in run.transcripts} == set(run.settings["models"])
    assert run.transcripts[0].calls[0].text
    assert "heartloop/assistant" in str(run)


def test_tables_have_a_row_per_dialogue_turn_and_call(run: heartloop.Run) -> None:
    dialogues, turns, calls = (run.table(name) for name in ("dialogues", "turns", "calls"))
    assert len(dialogues) == 4
    assert len(turns) == sum(row["turns"] for row in dialogues)
    assert len(calls) == sum(len(transcript.calls) for transcript in run.transcripts)
    for rows in (dialogues, turns, calls):
        assert len({tuple(row) for row in rows}) == 1  # the same columns in every row
    first = run.transcripts[0]
    assert dialogues[0]["points"] == first.score
    assert turns[0]["said_before"] == first.opening
    assert turns[1]["said_before"] == turns[0]["answer"]
    assert first.turns[-1].state is not None
    assert dialogues[0]["end_emotion"] == first.turns[-1].state["emotion"]
    assert list(run.to_pandas("turns")["reply"]) == [row["reply"] for row in turns]


def test_compare_gives_what_the_command_prints(run: heartloop.Run) -> None:
    words = ("--model-a", "heartloop/assistant", "--model-b", function_name(listener))
    comparison = run.compare(model_a=words[1], model_b=words[3])
    assert command("compare", str(run.path), *words, cwd=run.path).out.strip() == str(comparison).strip()
    assert comparison.pairs == 2
    assert len(repr(comparison)) < 200
    unnamed = run.compare()
    assert {unnamed.a.model, unnamed.b.model} == {words[1], words[3]}, "two models need no names"
    with pytest.raises(UseError, match="model_b with one of"):
        run.compare(model_a=words[1], model_b="nobody")


def test_agreement_of_judges_gives_what_rejudge_prints(run: heartloop.Run, tmp_path: Path) -> None:
    done = command("rejudge", str(run.path), "--judge", "embedded", "--out", "again", cwd=tmp_path, code=0)
    agreed = run.agreement(heartloop.load_run(tmp_path / "again"))
    assert str(agreed) in done.out
    assert (agreed.first, agreed.second, agreed.pearson, agreed.signs) == ("embedded", "embedded", 1.0, 1.0)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"models": []}, "models is"),
        ({"models": [listener, listener]}, "listener"),
        ({"models": [int]}, "class int"),
        ({"user": None}, "user embedded"),
        ({"limit": 0}, "limit is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"exclude_tags": "grief"}, "'grief'"),
        ({"limit": None, "scenario_ids": ["support-lisen-01"]}, "support-listen-01"),
        ({"options": {"presett": 1}}, "'preset'"),
        ({"sampling": {"policy": {"temperature": 9}}}, "temperature=9"),
        ({"roles": {"usr": "embedded"}}, "'user'"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_wrong_use_names_the_value_and_the_argument(given: dict[str, Any], named: str) -> None:
    with pytest.raises(UseError, match=named) as caught:
        heartloop.evaluate("sage", **{"models": [listener], **SMALL, **given})
    assert "--" not in str(caught.value)
    assert not Path("runs").exists()


def test_a_paid_model_needs_a_limit_or_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("LAB_BASE_URL", "https://lab.example")
    with pytest.raises(UseError, match=r"lab/model .*max_tokens.*yes=True"):
        heartloop.evaluate("sage", "lab/model", **SMALL)


def test_no_run_and_no_other_run_are_refused(run: heartloop.Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        heartloop.load_run(tmp_path / "nothing")
    with pytest.raises(HeartloopError, match="load_run"):
        run.compare("other")  # type: ignore[arg-type]
    with pytest.raises(UseError, match="'turns'"):
        run.table("turn")
