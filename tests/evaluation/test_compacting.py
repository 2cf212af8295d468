"""A compacted run has its dialogues as Parquet, and every command reads it as it read the JSON lines."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Failure, Transcript, Usage, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.environments import registry
from heartloop.evaluation import parquet
from heartloop.evaluation.compacting import compact_run
from heartloop.evaluation.digests import digest_of
from heartloop.evaluation.parquet import INDEX
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.evaluation.store import (
    RunDirectory,
    stored_dialogues,
    stored_digests,
    stored_lines,
    stored_sha256,
    stored_transcripts,
    transcript_files,
)

SCENARIOS = [f"s{number}" for number in range(12)]


def settings() -> EvaluationSettings:
    return EvaluationSettings(
        environment="sage", models=("m",), roles={"user": "embedded"}, scenario_set="support",
        options={"preset": "corrected", "variant": "vanilla", "max_turns": 3}, scenarios=dict.fromkeys(SCENARIOS, "1"),
    )  # fmt: skip


def talk(scenario: str, *, score: float | None = 47.25, **changes: Any) -> Transcript:
    failure = None if score is not None else Failure(role="policy", kind="TransportError", detail="gone\x00 \ud83d")
    return Transcript(
        environment="sage", scenario=scenario, fingerprint="1", model="m", preset="corrected", user="embedded",
        opening="Héllo 🧨\u2028", start={"emotion": 40.0}, turns=(), stop="goodbye" if failure is None else "failed",
        failure=failure, score=score, usage={"policy": Usage(prompt_tokens=7, completion_tokens=3)}, **changes,
    )  # fmt: skip


def play(path: Path, *talks: Transcript) -> None:
    with RunDirectory(path, settings()) as run:
        for one in talks:
            run.append(one)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one process, then of workers, with a dialogue played again, a blank line, and a torn last line."""
    path = tmp_path / "run"
    play(path, talk("s0"), talk("s1", score=None), talk("s1", seed=-(2**70), repeat=2**63))
    with RunDirectory(path, settings()) as later:
        for worker in (1, 2):
            later.worker_file(worker).write_text(write_line(talk(f"s{worker + 1}")), encoding="utf-8")
    with (path / "transcripts" / "0001-002.jsonl").open("a") as file:
        file.write('\n{"torn')
    return path


def content(path: Path) -> tuple[list[bytes], list[Transcript], str]:
    return [line for _, line in stored_lines(path)], list(stored_transcripts(path)), stored_sha256(path)


def test_reading_gives_the_same_lines_in_the_same_order(run: Path) -> None:
    before = content(run)
    assert len(before[0]) == 5
    assert compact_run(run) == f"{run}: 5 dialogues compacted, 0.00 MB of JSON lines into 0.01 MB."
    assert content(run) == before
    assert sorted(path.name for path in run.iterdir()) == [".lock", "compacted.json", "dialogues-0001", "settings.json"]
    with RunDirectory(run, settings()) as again:
        assert again.finished == {(one.model, one.scenario, one.repeat): one.scored for one in before[1]}


def test_a_place_reads_its_row_and_a_digest_needs_no_transcript(run: Path) -> None:
    expected = [(digest_of(one), one) for one in stored_transcripts(run)]
    compact_run(run)
    places = list(stored_dialogues(run))
    assert [(place.read(), one) for place, one in reversed(places)] == [(one, one) for _, one in reversed(expected)]
    digests = list(stored_digests(run))
    assert [replace(one, place=None) for one in digests] == [digest for digest, _ in expected]
    assert [one.read() for one in digests] == [one for _, one in expected]


def test_a_place_reads_the_file_that_is_there_now_and_names_one_that_is_gone(run: Path) -> None:
    places = [place for place, _ in stored_dialogues(run)]
    for scenario in ("s7", "s8"):
        compact_run(run)
        with pytest.raises(InputError, match=r"cannot read .*transcripts.*\.jsonl: .*compacted meanwhile, rerun"):
            places[0].read()
        places = [place for place, _ in stored_dialogues(run)]
        assert places[0].read() == next(stored_transcripts(run))
        shutil.rmtree(run)
        with pytest.raises(InputError, match=r"cannot read .*part-00000\.parquet: .*rerun the command"):
            places[0].read()
        play(run, talk(scenario))
        places = [place for place, _ in stored_dialogues(run)]


def test_a_digest_of_another_version_is_computed_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setattr(parquet, "DIGEST_VERSION", "0 0.1")
        other.setattr(parquet, "packed", lambda digest: b"{}")
        compact_run(run)
    assert [replace(one, place=None) for one in stored_digests(run)] == [digest_of(one) for one in stored_transcripts(run)]


def test_a_digest_of_an_environment_with_a_version_of_its_own_is_computed_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_run(run)
    expected = [replace(one, place=None) for one in stored_digests(run)]
    monkeypatch.setattr(parquet, "unpacked", lambda content, place: pytest.fail("read from the file"))
    elsewhere = {"sage": EntryPoint("sage", "benches.sage:SPEC", registry.GROUP)}
    monkeypatch.setattr(registry, "_entries", lambda: elsewhere)
    assert [replace(one, place=None) for one in stored_digests(run)] == expected


def test_play_after_compaction_writes_new_files_and_a_second_compaction_adds_them(run: Path) -> None:
    compact_run(run)
    compacted = (run / "dialogues-0001" / "part-00000.parquet").read_bytes()
    play(run, talk("s4"))
    play(run, talk("s5"))
    assert [str(path.relative_to(run)) for path in transcript_files(run)] == [
        "dialogues-0001/part-00000.parquet", "transcripts/0002-000.jsonl", "transcripts/0003-000.jsonl",
    ]  # fmt: skip
    before = content(run)
    compact_run(run)
    assert content(run) == before
    assert (run / "dialogues-0001" / "part-00000.parquet").read_bytes() == compacted
    assert compact_run(run) == f"{run} has no new dialogue to compact."
    play(run, talk("s6"))
    assert [file.name for file in (run / "transcripts").iterdir()] == ["0004-000.jsonl"], "no name is used twice"


def test_a_session_that_plays_nothing_adds_no_file_and_no_folder(run: Path) -> None:
    compact_run(run)
    before = {path.name for path in run.iterdir()}
    play(run)
    assert {path.name for path in run.iterdir()} == before


def test_a_run_of_several_parts_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART", 4)
    monkeypatch.setattr(parquet, "GROUP", 3)
    monkeypatch.setattr(parquet, "_KEPT_GROUPS", 1)
    play(tmp_path, *map(talk, SCENARIOS[:9]))
    before = content(tmp_path)
    compact_run(tmp_path)
    assert [path.name for path in transcript_files(tmp_path)] == [f"part-0000{number}.parquet" for number in range(3)]
    assert content(tmp_path) == before
    assert [place.read() for place, _ in stored_dialogues(tmp_path)] == before[1]


def test_other_tools_read_typed_columns(run: Path) -> None:
    table = pytest.importorskip("pyarrow.parquet")
    compact_run(run)
    rows = table.read_table(run / "dialogues-0001").to_pylist()
    assert [(row["scenario"], row["scored"], row["score"], row["points"]) for row in rows[:2]] == [
        ("s0", True, 47.25, 47.25), ("s1", False, None, None),
    ]  # fmt: skip
    assert (rows[0]["turns"], rows[0]["prompt_tokens"], rows[0]["completion_tokens"], rows[0]["seed"]) == (0, 7, 3, 0)
    assert (rows[2]["repeat"], rows[2]["seed"]) == (None, None), "the numbers are too large for a column"
    assert [json.loads(row["transcript"])["scenario"] for row in rows] == ["s0", "s1", "s1", "s2", "s3"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from heartloop.evaluation import compacting

steps = int(sys.argv[2])

def counting(real):
    def call(*args, **kwargs):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call

for name in ("mkdir", "replace", "unlink", "rmdir"):
    setattr(Path, name, counting(getattr(Path, name)))
os.fsync = counting(os.fsync)
compacting.write_parts = counting(compacting.write_parts)
compacting.parquet_lines = counting(compacting.parquet_lines)
compacting.compact_run(Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_killed_at_any_step_it_reads_the_same_goes_on_and_can_be_compacted(run: Path, tmp_path: Path) -> None:
    before, seen = content(run), set()
    for steps in range(30):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(run, copy)
        ended = subprocess.run([sys.executable, "-c", _KILLED, str(copy), str(steps)], capture_output=True, text=True)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        assert content(copy) == before, steps
        seen.add(frozenset(path.name for path in copy.iterdir()))
        play(copy, talk("s7"))
        compact_run(copy)
        assert content(copy)[0] == [*before[0], write_line(talk("s7")).encode()], steps
        left = {path.name for path in copy.iterdir()}
        assert not [name for name in left if name.endswith(".part") or name.startswith("transcripts")], steps
        if ended.returncode == 0:
            break
    assert ended.returncode == 0, "not the last step"
    assert len(seen) >= 5, "killed before, while and after the parts, the index and the JSON lines"


def test_lines_that_a_worker_adds_after_its_file_was_read_are_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late, real = run / "transcripts" / "0001-001.jsonl", parquet.parquet_lines

    def adding(path: Path) -> Iterator[Any]:
        with late.open("a", encoding="utf-8") as file:
            file.write(write_line(talk("s9")))
        return real(path)

    monkeypatch.setattr("heartloop.evaluation.compacting.parquet_lines", adding)
    before = content(run)
    compact_run(run)
    assert [path.name for path in transcript_files(run)] == ["part-00000.parquet", "0001-001.jsonl"]
    assert content(run)[0] == [*before[0], write_line(talk("s9")).encode()]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The error that a full disk gives, from a limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_on_a_full_disk_nothing_is_lost_and_nothing_is_left(run: Path) -> None:
    before, names = content(run), sorted(path.name for path in run.iterdir())
    with pytest.raises(UseError, match=r"cannot write to .*free some space"), largest_file(1000):
        compact_run(run)
    assert content(run) == before
    assert sorted(path.name for path in run.iterdir()) == names


def test_what_was_written_is_read_back_before_json_lines_are_removed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = parquet.parquet_lines
    monkeypatch.setattr(
        "heartloop.evaluation.compacting.parquet_lines", lambda path: ((place, line + b" ") for place, line in real(path))
    )
    before = content(run)
    with pytest.raises(UseError, match="cannot write to"):
        compact_run(run)
    assert content(run) == before


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda run: (run / "transcripts.jsonl").write_bytes(b"{oops}\n"), r"transcripts\.jsonl, line 1, "),
        (lambda run: (run / "settings.json").unlink(), r"no run directory"),
        (lambda run: (run / "settings.json").write_text('{"recipe": {}}'), "is a training run"),
        (lambda run: (run / "compacted.json").write_text('{"parts": ["../a.parquet"]}'), r"compacted\.json, parts\.0: "),
    ],
)
def test_what_cannot_be_compacted_is_named_and_left_as_it_was(run: Path, spoil: Callable[[Path], object], named: str) -> None:
    spoil(run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=named):
        compact_run(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"} == {
        path: data for path, data in before.items() if path.name != ".lock"
    }


def test_it_is_refused_while_a_process_plays(run: Path) -> None:
    with RunDirectory(run, settings()), pytest.raises(UseError, match="another process is writing to"):
        compact_run(run)


def test_a_part_that_is_missing_or_broken_is_named(run: Path) -> None:
    compact_run(run)
    part = run / "dialogues-0001" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    for reading in (stored_lines, stored_digests):
        with pytest.raises(InputError, match=r"cannot read .*part-00000\.parquet"):
            list(reading(run))
    part.unlink()
    with pytest.raises(InputError, match=r"cannot read .*part-00000\.parquet"):
        list(stored_lines(run))


@pytest.mark.parametrize("played_later", [False, True])
def test_without_its_index_a_compacted_run_is_refused_and_left_as_it_is(run: Path, played_later: bool) -> None:
    compact_run(run)
    if played_later:
        play(run, talk("s4"))
    before, index = content(run), (run / INDEX).read_bytes()
    (run / INDEX).unlink()
    for command in (compact_run, lambda run: list(stored_digests(run)), play):
        with pytest.raises(InputError, match=rf"part-00000\.parquet but not {INDEX}"):
            command(run)
    (run / INDEX).write_bytes(index)
    assert content(run) == before


def test_without_pyarrow_a_sentence_names_the_extra(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(run)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        without.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(UseError, match=r"needs pyarrow, which is not installed: .*parquet"):
            compact_run(run)
    assert content(run) == before
