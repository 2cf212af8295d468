"""A run is a directory that one process writes at a time, that survives a kill, and that other settings may not use."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Failure, Transcript, read_transcripts, write_line
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.evaluation.store import RunDirectory, stored_sha256, stored_transcripts, transcript_files


def settings(**changes: Any) -> EvaluationSettings:
    fields: dict[str, Any] = {
        "environment": "tiny", "models": ("m",), "roles": {"user": "embedded"}, "scenario_set": "tiny",
        "options": {"preset": "corrected", "variant": "vanilla", "max_turns": 3}, "scenarios": {"a": "1", "b": "2"},
    }  # fmt: skip
    return EvaluationSettings(**(fields | changes))


def transcript(scenario: str = "a", *, scored: bool = True) -> Transcript:
    failure = None if scored else Failure(role="policy", kind="TransportError", detail="gone")
    return Transcript(
        environment="tiny", scenario=scenario, fingerprint="1", model="m", preset="corrected", user="embedded",
        opening="Héllo 🧨\u2028", start={"sum": 0.0}, turns=(), stop="goodbye" if scored else "failed", failure=failure,
        score=1.0 if scored else None,
    )  # fmt: skip


def fill(path: Path, *transcripts: Transcript) -> None:
    with RunDirectory(path, settings()) as run:
        for one in transcripts:
            run.append(one)


def test_reopening_finds_what_is_finished_and_whether_it_was_scored(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "first"
    with RunDirectory(path, settings()) as run:
        run.append(transcript("b", scored=False))
        before = (path / "transcripts.jsonl").read_bytes()
        assert before == write_line(transcript("b", scored=False)).encode(), "on the disk before append returns"
    fill(path, transcript("a", scored=False), transcript("a"))
    assert (path / "transcripts.jsonl").read_bytes().startswith(before)
    with RunDirectory(path, settings()) as run:
        assert run.finished == {("m", "a", 0): True, ("m", "b", 0): False}, "the last line of a dialogue counts"
    assert json.loads((path / "settings.json").read_text(encoding="utf-8")) == settings().model_dump(mode="json")
    assert {p.name for p in path.iterdir()} <= {"settings.json", "transcripts.jsonl", ".lock"}


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    fill(tmp_path, transcript())
    other = RunDirectory(tmp_path, settings(options={"preset": "released", "variant": "vanilla", "max_turns": 4}))
    with pytest.raises(SettingsMismatch, match=r"options\.max_turns, options\.preset"):
        other.__enter__()
    with RunDirectory(tmp_path, settings()) as run:  # the refusal let go of the directory and changed nothing
        assert len(run.finished) == 1
    assert other.finished == {}


def test_a_place_that_is_no_run_directory_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder, name in (("thesis", "thesis.tex"), ("editor", "settings.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text('{"editor": "vim"}')
    for path, match in (
        ("thesis", r"is not empty and holds no settings\.json"),
        ("editor", "environment, "),
        ("file", "is a file; expected a run directory"),
        ("file/run", r"cannot write to .*: .*; choose another --out"),
        ("file/deep/er/run", r"cannot write to .*: .*; choose another --out"),
    ):
        with pytest.raises(UseError, match=match), RunDirectory(tmp_path / path, settings()):
            pass
    assert [p.name for p in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]
    assert json.loads((tmp_path / "editor" / "settings.json").read_text()) == {"editor": "vim"}


def test_a_second_process_is_refused_while_the_first_lives_and_not_after_it_was_killed(tmp_path: Path) -> None:
    program = (
        "import json, sys, time\n"
        "from pathlib import Path\n"
        "from heartloop.evaluation.settings import EvaluationSettings\n"
        "from heartloop.evaluation.store import RunDirectory\n"
        "settings = EvaluationSettings.model_validate_json(sys.argv[2])\n"
        "with RunDirectory(Path(sys.argv[1]), settings):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), settings().model_dump_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(UseError, match="another process is writing to"), RunDirectory(tmp_path, settings()):
                pass
        finally:
            other.kill()
    fill(tmp_path, transcript())
    assert len(list(read_transcripts(tmp_path / "transcripts.jsonl"))) == 1


def test_a_torn_line_longer_than_any_buffer_is_cut_off_whole(tmp_path: Path) -> None:
    fill(tmp_path, transcript("a"))
    whole = (tmp_path / "transcripts.jsonl").read_bytes()
    with (tmp_path / "transcripts.jsonl").open("ab") as file:
        file.write(b'{"opening": "' + b"x" * 300_000)
    fill(tmp_path)
    assert (tmp_path / "transcripts.jsonl").read_bytes() == whole


def test_a_broken_line_in_the_middle_is_named_and_not_thrown_away(tmp_path: Path) -> None:
    fill(tmp_path, transcript("a"))
    path = tmp_path / "transcripts.jsonl"
    path.write_bytes(b"{oops}\n" + path.read_bytes())
    before = path.read_bytes()
    for _ in range(2):  # the second time as well: the first refusal let go of the directory
        with pytest.raises(InputError, match=r"transcripts\.jsonl, line 1, "), RunDirectory(tmp_path, settings()):
            pass
    assert path.read_bytes() == before


def test_killed_before_its_settings_were_whole_it_can_be_started_again(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / "settings.json.part").write_text('{"environment": "ti')
    fill(tmp_path, transcript())
    assert json.loads((tmp_path / "settings.json").read_text()) == settings().model_dump(mode="json")
    assert not (tmp_path / "settings.json.part").exists()


def test_sessions_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    fill(tmp_path, transcript("a"))
    (tmp_path / "transcripts").mkdir()
    for session, score in ((10000, 3.0), (9999, 2.0)):
        file = tmp_path / "transcripts" / f"{session}-000.jsonl"
        file.write_text(write_line(transcript("a").model_copy(update={"score": score})), encoding="utf-8")
    assert [one.score for one in stored_transcripts(tmp_path)][1:] == [2.0, 3.0], "the last one counts"


def test_dialogues_of_workers_are_read_after_those_of_one_process_and_their_torn_lines_are_cut(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, settings()) as run:
        files = [run.worker_file(number) for number in (2, 1)]
        assert [file.relative_to(tmp_path).as_posix() for file in files] == [f"transcripts/0001-00{n}.jsonl" for n in (2, 1)]
        run.append(transcript("a", scored=False))
    files[0].write_bytes(write_line(transcript("b")).encode() + b'{"opening": "' + b"x" * 300_000)
    files[1].write_text(write_line(transcript("c")), encoding="utf-8")
    (tmp_path / "transcripts" / "held_out-1.jsonl").write_text("of something else\n")
    everything = [transcript("a", scored=False), transcript("c"), transcript("b")]
    assert list(stored_transcripts(tmp_path)) == everything, "the torn line is left out"
    with RunDirectory(tmp_path, settings()) as run:
        assert run.finished == {("m", "a", 0): False, ("m", "b", 0): True, ("m", "c", 0): True}
        assert files[0].read_text(encoding="utf-8") == write_line(transcript("b")), "the torn line is cut off"
        run.append(transcript("a"))
        assert run.worker_file(1).name == "0002-001.jsonl"
    assert [file.name for file in transcript_files(tmp_path)] == [
        "transcripts.jsonl", "0001-001.jsonl", "0001-002.jsonl", "0002-000.jsonl",
    ]  # fmt: skip
    assert list(stored_transcripts(tmp_path)) == [*everything, transcript("a")]
    together = "".join(write_line(one) for one in [*everything, transcript("a")]).encode()
    assert stored_sha256(tmp_path) == hashlib.sha256(together).hexdigest()


def test_a_folder_that_is_no_run_has_no_dialogues_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run directory; expected settings\.json"):
        list(stored_transcripts(tmp_path))
    with RunDirectory(tmp_path, settings()):
        assert list(stored_transcripts(tmp_path)) == []


def test_a_long_run_is_in_memory_as_its_keys_only(tmp_path: Path) -> None:
    number = 3000
    long = settings(scenarios={f"s{n}": "1" for n in range(number)})
    with RunDirectory(tmp_path, long) as run:
        for n in range(number):
            run.append(transcript(f"s{n}").model_copy(update={"opening": "a long text " * 100}))
    tracemalloc.start()
    with RunDirectory(tmp_path, long) as run:
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(run.finished) == number
    assert held < 250 * number, "114 bytes a dialogue with CPython 3.11"
    assert peak < held + 1_000_000, "one dialogue at a time"
