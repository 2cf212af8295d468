"""`heartloop talk`: lines of stdin are the replies of an ordinary run; environments of one answer; narrow terminals."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from heartloop.cli.conversation import Interrupt, better_than
from heartloop.core.chat import HUMAN
from heartloop.core.dialogue import Transcript, Turn, read_transcripts
from heartloop.environments.registry import load_environment, specs
from tests.commands import Done, environment, heartloop, over_http, refused
from tests.faulty_server import FaultyServer

ROOT = Path(__file__).parents[1]
PERSON = "support-listen-01"
FIRST, SECOND, THIRD = "That sounds hard. What happened?", "And how are you now?", "Just call a doctor and move on."


def talk(*words: str, typed: str, cwd: Path) -> Done:
    return heartloop("talk", *words, "--out", "mine", cwd=cwd, typed=typed, code=0)


def mine(run: Path) -> Transcript:
    return next(one for one in read_transcripts(run / "transcripts.jsonl") if one.model == HUMAN)


def test_lines_are_replies_and_the_run_is_an_ordinary_one(tmp_path: Path) -> None:
    done = talk("sage", PERSON, typed=f"{FIRST}\n\n:thoughts\n{SECOND}\n", cwd=tmp_path)
    transcript = mine(tmp_path / "mine")
    assert [turn.reply for turn in transcript.turns] == [FIRST, SECOND]  # an empty line is no reply
    assert (transcript.scenario, transcript.stop, transcript.score) == (PERSON, "cut", transcript.turns[-1].state["emotion"])  # type: ignore[index]
    assert f"emotion {transcript.score:.1f}" in done.out
    assert "Whether it fits the intention" in done.out
    models = {one.model for one in read_transcripts(tmp_path / "mine" / "transcripts.jsonl")}
    assert {HUMAN, "heartloop/reflector"} < models
    assert all(name in done.out for name in models - {HUMAN})
    compare = ("compare", "mine", "--model-a", HUMAN, "--model-b", "heartloop/reflector")
    for words in (compare, ("rejudge", "mine", "--judge", "embedded")):
        assert heartloop(*words, cwd=tmp_path).code == 0, words


def test_a_reply_that_the_embedded_user_cannot_read_is_named_before_the_next_one(tmp_path: Path) -> None:
    done = talk("sage", PERSON, typed=f"{FIRST}\nIch weiss nicht, was ich dazu sagen soll.\n{SECOND}\n", cwd=tmp_path)
    dialogue, end = done.out.split("What each reply did")
    assert [bool(turn.evidence["unread"]) for turn in mine(tmp_path / "mine").turns] == [False, True, False]
    _, between = dialogue.split("sagen soll.\n")
    assert "not in English" in between.split(f"You: {SECOND}")[0]
    assert "not in English" in end
    assert dialogue.count("not in English") == end.count("not in English") == 1


def test_taking_a_reply_back_does_not_repeat_the_warning_about_the_one_before(tmp_path: Path) -> None:
    typed = f"Ich weiss nicht, was ich dazu sagen soll.\n{FIRST}\n:undo\n{SECOND}\n"
    done = talk("sage", PERSON, typed=typed, cwd=tmp_path)
    assert done.out.split("What each reply did")[0].count("not in English") == 1


def test_after_the_end_a_better_dialogue_is_shown_recorded_or_of_a_baseline(tmp_path: Path) -> None:
    recorded = talk("sage", PERSON, typed=f"{THIRD}\n", cwd=tmp_path).out.split("What a better one did")[1]
    assert "recorded/" in recorded
    assert "Recorded dialogue" in recorded
    played = heartloop("talk", "sage", "support-praise-08", "--out", "two", cwd=tmp_path, typed=f"{THIRD}\n", code=0)
    better = played.out.split("What a better one did")[1]
    best = max(read_transcripts(tmp_path / "two" / "transcripts.jsonl"), key=lambda one: one.score or 0.0)
    assert best.model in better
    assert "Recorded dialogue" not in better


def test_a_better_dialogue_is_better_by_a_twentieth_of_the_scale_and_not_silence() -> None:
    def ended(model: str, score: float) -> Transcript:
        turn = Turn(index=0, reply="Mm.", state={"emotion": score}, change={"emotion": score - 40})
        return Transcript(
            environment="sage", scenario="s", fingerprint="f", model=model, preset="corrected", user="embedded",
            opening="I cannot sleep.", start={"emotion": 40.0}, turns=(turn,), stop="turn_limit", score=score,
        )  # fmt: skip

    scale = load_environment("sage").scale
    me, near, silence, better = ended(HUMAN, 40), ended("x/near", 44.9), ended("heartloop/silent", 90), ended("x/better", 45)
    assert better_than(me, [me, near, silence], scale) is None
    assert better_than(me, [me, near, silence, better], scale) is better


def test_without_arguments_the_seed_chooses_the_person(tmp_path: Path) -> None:
    for run, seed in (("a", "5"), ("b", "6")):
        done = heartloop("talk", "--seed", seed, "--out", run, cwd=tmp_path, typed=f"{FIRST}\n")
        assert mine(tmp_path / run).scenario in done.out
    assert mine(tmp_path / "a").scenario != mine(tmp_path / "b").scenario


@pytest.mark.parametrize(
    ("words", "said"),
    [(("support-lisen-01",), PERSON), (("sage", "support-lisen-01"), PERSON), (("mars", PERSON), "'mars'"),
     (("sage", PERSON, "-E", "max_turn=3"), "max_turns")],
)  # fmt: skip
def test_wrong_use_is_one_sentence_before_the_dialogue(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    refused("talk", *words, cwd=tmp_path, said=said)


def test_a_reply_that_was_taken_back_leaves_no_trace(tmp_path: Path) -> None:
    talk("sage", PERSON, typed=f":undo\n{FIRST}\n{THIRD}\n:undo\n{SECOND}\n:quit\n", cwd=tmp_path)
    heartloop("talk", "sage", PERSON, "--out", "plain", cwd=tmp_path, typed=f"{FIRST}\n{SECOND}\n")
    assert mine(tmp_path / "mine").turns == mine(tmp_path / "plain").turns


async def test_a_language_model_is_not_asked_twice_for_what_it_said(tmp_path: Path) -> None:
    words = ("talk", "sage", PERSON, "--user", "lab/person", "--out", "mine")
    async with FaultyServer() as server:
        done = await over_http(server, *words, cwd=tmp_path, typed=f"{FIRST}\n{THIRD}\n:undo\n{SECOND}\n:quit\n", code=0)
        asked = len(server.requests)
    transcript = mine(tmp_path / "mine")
    assert [turn.reply for turn in transcript.turns] == [FIRST, SECOND]
    own = sum(call.role == "user" for call in transcript.calls)
    per_reply = own // 2
    assert asked == own + per_reply  # and the calls of the reply that was taken back
    assert transcript.user == "lab/person"
    assert "played by lab/person" in done.out
    assert "embedded user," not in done.out
    assert not any(one.model != HUMAN for one in read_transcripts(tmp_path / "mine" / "transcripts.jsonl"))


def test_nothing_said_writes_no_run(tmp_path: Path) -> None:
    talk(typed=":help\n:quit\n", cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_in_a_terminal_keeps_what_was_said(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(
            sys.executable, [sys.executable, "-m", "heartloop.cli", "talk", "sage", PERSON, "--out", "mine"],
            environment(COLUMNS="60", PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        )  # fmt: skip
    shown = b""
    try:
        for keys in (f"{FIRST}\n".encode(), b"\n", b""):
            shown += _until(terminal, b"You: ")
            os.write(terminal, keys)
        for _ in range(10):  # a signal between the prompt and the wait for a key is seen with the next key only
            time.sleep(0.3)
            os.write(terminal, b"\x03")
            if select.select([terminal], [], [], 5)[0]:
                break
        shown += _until(terminal, b"Report:")
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, shown
    assert [turn.reply for turn in mine(tmp_path / "mine").turns] == [FIRST]
    assert b"empty reply" in shown


def test_ctrl_c_while_the_person_answers_ends_the_dialogue_at_the_next_line_and_twice_at_once() -> None:
    interrupt = Interrupt()

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with interrupt:
            press()
            assert interrupt.pressed
            with pytest.raises(KeyboardInterrupt):
                press()
            interrupt.reading = True
            with pytest.raises(KeyboardInterrupt):
                press()
    finally:
        signal.signal(signal.SIGINT, before)


def _until(terminal: int, end: bytes) -> bytes:
    shown, last = b"", time.monotonic() + 60
    while end not in shown:
        assert time.monotonic() < last, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536)
    return shown


@pytest.mark.parametrize("name", [spec.name for spec in specs() if spec.scenarios.sets])
def test_every_environment_can_be_talked_to_in_40_columns(name: str, tmp_path: Path) -> None:
    done = heartloop("talk", name, "--out", "mine", cwd=tmp_path, typed=f"{FIRST}\n{SECOND}\n", COLUMNS="40", code=0)
    transcript = mine(tmp_path / "mine")
    assert transcript.score is not None
    echoed = (FIRST, SECOND, "Run: ", "Report: ")
    assert not [line for line in done.out.splitlines() if len(line) > 40 and not any(words in line for words in echoed)]


def test_an_answer_of_two_parts_is_asked_part_by_part(tmp_path: Path) -> None:
    done = heartloop("talk", "perm", "--out", "mine", cwd=tmp_path, typed="He is afraid.\nI am with you.\n")
    turn = mine(tmp_path / "mine").turns[0]
    assert turn.reply == "# Analysis\nHe is afraid.\n\n# Response\nI am with you."
    assert turn.evidence["format"] == ""
    assert all(name in done.out for name in ("Resonation", "Expression", "Reception", "Bystander"))


def test_the_dialogue_of_the_page_is_what_the_command_prints(tmp_path: Path) -> None:
    """Every line of the page, wrapped as a terminal of 100 columns does."""
    page = (ROOT / "docs" / "talk.md").read_text(encoding="utf-8")
    found = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    typed = "".join(f"{line.removeprefix('You: ')}\n" for line in found[1].splitlines() if line.startswith("You: "))
    done = talk(typed=typed, cwd=tmp_path)
    printed = [line.rstrip() for line in done.out.splitlines()]
    for line in found[1].splitlines():
        assert line.rstrip() in printed, line
