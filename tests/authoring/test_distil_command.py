"""`heartloop scenarios distil` as a user meets it.

1. Wrong use: one sentence, exit code 2, nothing written.
2. A dry run counts, calls nothing, writes nothing, needs no model; `--show` prints what a model would read.
3. Over HTTP with faults: no planted personal datum reaches the server or the files; cases are checked and played at once.
4. Records that cannot be read are told, kept and counted; more than 5 % of them is exit code 1, and the rest is finished.
5. `kill -9` half way: the same command goes on to the same file, and pays for no kept answer twice.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from heartloop.authoring.written import steps_path
from heartloop.environments.empa.scenario import load_scenarios
from tests.authoring.scribe import Scribe
from tests.authoring.test_write_command import PLAYED, Command, here, served
from tests.commands import KEY, files_with, killed, process
from tests.faulty_server import FaultyServer
from tests.write_docs import ROOT

__all__ = ["here"]

PLANTED = (
    "Quillon", "Abara", "quillon.abara@mail.example", "otter_99", "+49 171 555 0199", "5550199", "4111 1111 1111 1111", "Ylva",
    "Okonkwo", "12 Elm Street", "Elm Street", "SW1A 1AA", "blog.example", "12 March 1990", "Tristram", "078-05-1120",
)  # fmt: skip
PEOPLE = [
    "My name is Quillon Abara, born 12 March 1990, and I live at 12 Elm Street, SW1A 1AA, with my sister Ylva.",
    "They took my night shift and gave it to the new one, I read it on the door of the canteen. Quillon, I said to myself.",
    "You can mail me at quillon.abara@mail.example or on @otter_99, or call +49 171 555 0199, see https://blog.example/me",
    "Dr. Okonkwo says I should rest. ylva says it too. My card is 4111 1111 1111 1111 and my SSN 078-05-1120, take it all.",
]


def log(tmp_path: Path, lines: int = 2) -> Path:
    """A chat log full of personal data; the last line is about the weather."""
    path = tmp_path / "log.jsonl"
    rows = []
    for number in range(lines):
        turns = [{"role": "user", "name": "Tristram", "content": f"{text} It is week {number}."} for text in PEOPLE]
        said = [
            turn for one in turns for turn in (one, {"role": "assistant", "content": "I hear you, tristram. And then, Quillon?"})
        ]
        if number == lines - 1:
            said.append({"role": "user", "content": "But let us talk of the weather."})
        rows.append(json.dumps({"messages": said}))
    path.write_text("\n".join(rows) + "\n")
    return path


def command(*more: str) -> tuple[str, ...]:
    return ("scenarios", "distil", "empa", "log.jsonl", "--form", "messages", *more)


BY = ("--writer", PLAYED, "--auditor", PLAYED)


# 1. wrong use


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--form", "csv"), "--form is 'csv'; expected esconv, empathetic, messages"),
        ((), "--writer and --auditor and --out missing"),
        ((*BY, "--show", "2"), "--show applies only"),
        ((*BY, "--out", "a.jsonl", "--exclude-tag", "rain"), "unknown tag 'rain'"),
        (("--writer", "heartloop/coach", "--auditor", PLAYED, "--out", "a.jsonl"), "--writer is heartloop/coach"),
        ((*BY, "--out", "a.jsonl", "--embedder", PLAYED), "gives no embeddings"),
    ],
    ids=["form", "missing", "show", "tag", "supporter", "embedder"],
)
def test_wrong_use_gets_one_sentence_and_writes_nothing(tmp_path: Path, here: Command, words: tuple[str, ...], said: str) -> None:
    log(tmp_path)
    done = here(*command(*words))
    assert done.code == 2, done
    assert said in done.err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["log.jsonl"]


def test_a_source_that_is_not_there_is_refused(here: Command) -> None:
    done = here(*command("--dry-run"))
    assert (done.code, "cannot read log.jsonl" in done.err) == (2, True)


# 2. dry run


def test_a_dry_run_counts_calls_nothing_and_writes_nothing(tmp_path: Path, here: Command) -> None:
    log(tmp_path, 3)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}]}\n')
    done = here(*command("--dry-run", "--show", "1"))
    assert done.code == 0, done
    assert "4 dialogues read, 0 records refused." in done.out
    assert "4 dialogues selected, 1 of them skipped without a call; 3 to 24 calls" in done.out
    assert "skipped: log.jsonl, line 4: the person says too little (1 words, expected 20)" in done.err
    assert "3 emails" in done.out
    assert "1 person: My name is [NAME-" in done.out
    assert not [word for word in PLANTED if word.casefold() in done.out.casefold()]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


# 3. over HTTP


async def test_no_personal_datum_reaches_a_model_and_the_cases_are_played_at_once(
    tmp_path: Path, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path, 2)
    faults = ("rate_limit:2", "no_schema", "half_emoji:2")
    async with FaultyServer(*faults, retry_after="0.01", answer=Scribe().body) as server:
        served(server, monkeypatch)
        words = command("--writer", "lab/w", "--auditor", "lab/a", "--out", "mine.jsonl")
        done = await asyncio.to_thread(here, *words)
        bodies = [json.dumps(body, ensure_ascii=False) for body in server.bodies]
        again = await asyncio.to_thread(here, *words)
    assert done.code == 0, done
    assert "1 of 2 scenarios in mine.jsonl; 1 skipped" in done.out
    assert "skipped: empa-" in done.err
    assert len(bodies) > 10
    for datum in PLANTED:
        assert not [body for body in bodies if datum.casefold() in body.casefold()], datum
    for path in (tmp_path / "mine.jsonl", steps_path(tmp_path / "mine.jsonl")):
        text = path.read_text().casefold()
        assert not [datum for datum in PLANTED if datum.casefold() in text], path
    assert "night shift" in " ".join(bodies)
    assert not files_with(KEY, tmp_path)
    assert (again.code, "1 of them from an earlier run" in again.out) == (0, True)
    assert len(server.bodies) == len(bodies)
    (case,) = load_scenarios(tmp_path / "mine.jsonl")
    checked = here("scenarios", "check", "mine.jsonl")
    assert (checked.code, "no problem found" in checked.out) == (0, True), checked
    played = await asyncio.to_thread(
        here,
        "eval",
        "empa",
        "--user",
        "embedded",
        "-m",
        "heartloop/listener",
        "--scenarios",
        "mine.jsonl",
        "-E",
        "max_turns=2",
        "--out",
        "run",
    )
    assert played.code == 0, played
    assert case.id in (tmp_path / "run" / "transcripts.jsonl").read_text()


# 4. records that cannot be read


def test_unreadable_records_are_told_kept_and_counted_and_the_rest_is_finished(tmp_path: Path, here: Command) -> None:
    log(tmp_path, 2)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "Tristram", "content": "hi"}]}\n{"half": \n')
    done = here(*command(*BY, "--out", "mine.jsonl"))
    assert done.code == 1, done
    assert "refused: log.jsonl, line 3: turn 1: 'role' is missing or no known speaker" in done.err
    assert "refused: log.jsonl, line 4: not JSON" in done.err
    assert "2 dialogues read, 2 records refused." in done.out
    assert "More than 5% of log.jsonl could not be read" in done.err
    assert len(load_scenarios(tmp_path / "mine.jsonl")) == 1
    kept = [json.loads(line) for line in steps_path(tmp_path / "mine.jsonl").read_text().splitlines() if '"unread"' in line]
    assert [one["place"] for one in kept] == ["log.jsonl, line 3", "log.jsonl, line 4"]


# 5. kill -9


def test_killed_half_way_it_comes_to_the_same_file(tmp_path: Path, here: Command) -> None:
    log(tmp_path, 3)
    words = command(*BY, "--max-connections", "2")
    assert here(*words, "--out", "whole.jsonl").code == 0
    words = (*words, "--out", "killed.jsonl")
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    asked_log, out = tmp_path / "asked.txt", tmp_path / "killed.jsonl"
    slow = {"PYTHONPATH": paths, "SCRIBE_DELAY": "0.15", "SCRIBE_LOG": str(asked_log)}
    steps = steps_path(out)
    assert killed(*words, cwd=tmp_path, when=lambda: steps.exists() and steps.read_bytes().count(b"\n") >= 10, **slow)
    with steps.open("a") as file:
        file.write('{"scenario": 1, "step": "ans')
    done = process(*words, cwd=tmp_path, **slow)
    assert done.code == 0, done
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    asked = Counter(asked_log.read_text().splitlines())
    assert len(asked) == 2 * 8 + 1
    assert sum(asked.values()) - len(asked) <= 2  # only what was in flight when it was killed
