"""`heartloop scenarios distil` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop.authoring.store import steps_path
from heartloop.environments.empa.scenario import load_scenarios
from tests.authoring.scribe import Scribe
from tests.authoring.test_write_command import PLAYED
from tests.commands import KEY, files_with, heartloop, over_http
from tests.faulty_server import FaultyServer

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--form", "csv"), "--form is 'csv'; expected esconv, empathetic, messages"),
        ((), "--writer and --auditor and --out missing"),
        ((*BY, "--show", "2"), "--show applies only"),
        ((*BY, "--out", "a.jsonl", "--exclude-tag", "rain"), "unknown tag 'rain'"),
    ],
    ids=["form", "missing", "show", "tag"],
)
def test_wrong_use_gets_one_sentence_and_writes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    log(tmp_path)
    done = heartloop(*command(*words), cwd=tmp_path)
    assert done.code == 2, done
    assert said in done.err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["log.jsonl"]


def test_a_dry_run_counts_calls_nothing_and_writes_nothing(tmp_path: Path) -> None:
    log(tmp_path, 3)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}]}\n')
    done = heartloop(*command("--dry-run", "--show", "1"), cwd=tmp_path)
    assert done.code == 0, done
    assert "4 dialogues read, 0 records refused." in done.out
    assert "4 dialogues selected, 1 of them skipped without a call; 3 to 24 calls" in done.out
    assert "skipped: log.jsonl, line 4: the person says too little (1 words, expected 20)" in done.err
    assert "3 emails" in done.out
    assert "1 person: My name is [NAME-" in done.out
    assert not [word for word in PLANTED if word.casefold() in done.out.casefold()]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


async def test_no_personal_datum_reaches_a_model_and_the_cases_are_played_at_once(tmp_path: Path) -> None:
    log(tmp_path, 2)
    faults = ("rate_limit:2", "no_schema", "half_emoji:2")
    async with FaultyServer(*faults, retry_after="0.01", answer=Scribe().body) as server:
        words = command("--writer", "lab/w", "--auditor", "lab/a", "--out", "mine.jsonl")
        done = await over_http(server, *words, cwd=tmp_path)
        bodies = [json.dumps(body, ensure_ascii=False) for body in server.bodies]
        again = await over_http(server, *words, cwd=tmp_path)
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
    checked = heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path)
    assert (checked.code, "no problem found" in checked.out) == (0, True), checked
    words = ("eval", "empa", "--user", "embedded", "-m", "heartloop/reflector", "--scenarios", "mine.jsonl", "-E", "max_turns=2")
    played = heartloop(*words, "--out", "run", cwd=tmp_path)
    assert played.code == 0, played
    assert case.id in (tmp_path / "run" / "transcripts.jsonl").read_text()


def test_unreadable_records_are_told_kept_and_counted_and_the_rest_is_finished(tmp_path: Path) -> None:
    log(tmp_path, 2)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "Tristram", "content": "hi"}]}\n{"half": \n')
    done = heartloop(*command(*BY, "--out", "mine.jsonl"), cwd=tmp_path)
    assert done.code == 1, done
    assert "refused: log.jsonl, line 3: turn 1: 'role' is missing" in done.err
    assert "refused: log.jsonl, line 4: not JSON" in done.err
    assert "2 dialogues read, 2 records refused." in done.out
    assert "More than 5% of log.jsonl could not be read" in done.err
    assert len(load_scenarios(tmp_path / "mine.jsonl")) == 1
    kept = [json.loads(line) for line in steps_path(tmp_path / "mine.jsonl").read_text().splitlines() if '"unread"' in line]
    assert [one["place"] for one in kept] == ["log.jsonl, line 3", "log.jsonl, line 4"]
