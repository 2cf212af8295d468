"""Runs at URLs: the same commands and results as in a folder, other machines, killed commands, two drivers, stores that fail."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import fsspec
import pytest
import typer.main
from fsspec.implementations.memory import MemoryFileSystem

import heartloop as package
from heartloop.cli.main import app
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.evaluation import remote, rescoring, store
from tests.commands import Done, heartloop, refused
from tests.write_docs import contexts

EVAL = ("eval", "sage", "--user", "embedded", "--model", "heartloop/reflector", "--limit", "3")


@pytest.fixture
def url() -> str:
    return f"memory://bucket/{uuid4().hex}/one"


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Done]:
    """Runs a command on a machine of a name, which has a cache folder of its own; the store is common to all."""

    def run(name: str, *words: str, code: int = 0) -> Done:
        (tmp_path / name).mkdir(exist_ok=True)
        return heartloop(*words, cwd=tmp_path / name, code=code, XDG_CACHE_HOME=str(tmp_path / name / "cache"))

    return run


def objects(url: str) -> dict[str, bytes]:
    """The objects below a URL, by name, without those of reports."""
    files, root = fsspec.url_to_fs(url)
    named = {path.removeprefix(root).strip("/"): path for path in files.find(root)}
    return {name: files.cat_file(path) for name, path in named.items() if not name.startswith("report/")}


def put(url: str, content: bytes) -> None:
    with fsspec.open(url, "wb") as file:
        file.write(content)


def copy_of(folder: Path) -> Path:
    """The local copy of the only URL that a machine used."""
    (path,) = (one for one in (folder / "cache" / "heartloop" / "runs").glob("*/*") if one.is_dir())
    return path


def keys(url: str) -> list[tuple[str, str, int]]:
    """The dialogues that a machine without a copy reads, in order."""
    return [one.key for one in package.load_run(url).transcripts]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here"))
    yield
    remote.close_all()


def test_a_run_at_a_url_is_the_run_of_a_folder(machine: Callable[..., Done], url: str, tmp_path: Path) -> None:
    at_url, in_folder = machine("a", *EVAL, "--out", url), machine("a", *EVAL, "--out", "folder")
    assert at_url.out.replace(url, "folder").split("\n")[-3:] == in_folder.out.split("\n")[-3:]
    written = {path.name: path.read_bytes() for path in (tmp_path / "a" / "folder").iterdir() if path.name != ".lock"}
    assert objects(url).keys() == written.keys()
    assert objects(url)["settings.json"] == written["settings.json"]
    assert len(keys(url)) == 3
    assert package.load_run(url).scores.models == package.load_run(tmp_path / "a" / "folder").scores.models


def test_another_machine_resumes_reports_and_compares(machine: Callable[..., Done], url: str) -> None:
    machine("a", *EVAL, "--out", url)
    assert "0 dialogues played" in (done := machine("b", *EVAL, "--out", url)).out
    assert f"Run: {url}" in done.out
    assert f"{url}/report/index.html" in machine("c", "report", url).out
    assert fsspec.open(f"{url}/report/index.html").fs.exists(f"{url}/report/index.html")
    assert "1 run" in machine("d", "report", url.rpartition("/")[0]).out
    machine("d", "rejudge", url, "--judge", "embedded")
    assert len(keys(f"{url}-judged-embedded")) == 3
    machine("e", "merge", url, url, "--out", f"{url}-merged", code=2)
    assert "B - A" in machine("e", "compare", url, f"{url}-judged-embedded").out


def test_a_run_that_was_removed_from_the_store_starts_anew(machine: Callable[..., Done], url: str) -> None:
    machine("a", *EVAL, "--out", url)
    files, root = fsspec.url_to_fs(url)
    files.rm(root, recursive=True)
    assert "3 dialogues played" in machine("a", *EVAL, "--out", url).out


@pytest.mark.parametrize("text", ["s3:/bucket/one", "s3://", "file:one/", "s3:"])
def test_a_mistyped_url_is_no_folder(text: str, tmp_path: Path) -> None:
    refused(*EVAL, "--out", text, cwd=tmp_path, said="s3://bucket/run")
    assert not any(tmp_path.iterdir())


def test_next_to_the_root_of_a_bucket_is_no_place() -> None:
    run = remote.new("memory://bucket")
    with pytest.raises(UseError, match=r"memory://bucket.*--out"):
        remote.sibling(run, "bucket-judged")
    assert remote.sibling(remote.new("memory://bucket/one"), "two") == remote.new("memory://bucket/two")


def test_every_session_and_machine_continues_in_an_object_of_its_own(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 1)
    machine("a", *EVAL, "--out", url)
    names = [name for name in objects(url) if name.startswith("transcripts")]
    assert sorted(names) == ["transcripts.jsonl", "transcripts/0002-000.jsonl", "transcripts/0003-000.jsonl"]
    first = keys(url)
    before = objects(url)
    machine("b", *EVAL, "--repeats", "1", "--retry-failed", "--out", url)
    assert {name: before[name] for name in names} == {name: objects(url)[name] for name in names}
    assert keys(url) == first


def test_what_a_killed_command_did_not_upload_is_uploaded_by_the_next_one(
    machine: Callable[..., Done], url: str, tmp_path: Path
) -> None:
    machine("a", *EVAL, "--out", url)
    copy = copy_of(tmp_path / "a")
    whole, torn = objects(url)["transcripts.jsonl"], b'{"half'
    lines = whole.splitlines(keepends=True)
    put(f"{url}/transcripts.jsonl", b"".join(lines[:1]))  # as if the command was killed before the last upload
    record = copy.parent / ".known.json"
    owner, known = json.loads(record.read_bytes())
    files, path = fsspec.url_to_fs(f"{url}/transcripts.jsonl")
    known["transcripts.jsonl"] = [remote._version(files.info(path)), len(lines[0]), 0]
    record.write_text(json.dumps([owner, known]))
    (copy / "transcripts.jsonl").write_bytes(whole + torn)
    machine("b", *EVAL, "--out", url)  # plays the two that it does not see
    machine("a", "report", url)
    assert objects(url)["transcripts.jsonl"] == whole + torn
    assert len(keys(url)) == 3
    played = list(store.stored_transcripts(package.load_run(url).path))
    assert len(played) == 5, "both machines played two of them"


def test_lines_of_two_machines_in_one_file_are_all_kept(machine: Callable[..., Done], url: str, tmp_path: Path) -> None:
    machine("a", *EVAL, "--out", url)
    log = copy_of(tmp_path / "a") / "log.jsonl"
    with log.open("ab") as file:
        file.write(b'{"mine": 1}\n')
    put(f"{url}/log.jsonl", objects(url)["log.jsonl"] + b'{"theirs": 1}\n')
    machine("a", "report", url)
    assert objects(url)["log.jsonl"].splitlines()[-2:] == [b'{"theirs": 1}', b'{"mine": 1}']
    put(f"{url}/scores.json", b"{}")
    (copy_of(tmp_path / "a") / "scores.json").write_text('{"old": 1}')
    machine("a", "compare", url, code=2)
    assert objects(url)["scores.json"] == (copy_of(tmp_path / "a") / "scores.json").read_bytes() == b"{}"


def test_compaction_replaces_the_objects_and_other_machines_read_the_same(machine: Callable[..., Done], url: str) -> None:
    machine("a", *EVAL, "--out", url)
    first = keys(url)
    machine("b", "report", url)
    machine("a", "compact", url)
    left = objects(url)
    assert "dialogues-0001/part-00000.parquet" in left
    assert not [name for name in left if name.startswith("transcripts")]
    remote.close_all()
    assert keys(url) == first
    assert "3 finished before" in machine("b", *EVAL, "--out", url).out
    machine("b", *EVAL[:-1], "4", "--out", url, code=2)


def test_the_index_of_a_compaction_goes_up_after_its_parts_and_before_the_removals(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("a", *EVAL, "--out", url)
    order: list[str] = []
    for name in ("put_file", "rm_file"):
        call = getattr(MemoryFileSystem, name, None) or getattr(fsspec.AbstractFileSystem, name)

        def noted(self: Any, *given: Any, call: Any = call, name: str = name, **more: Any) -> Any:
            order.append(f"{name} {Path(given[-1]).name}")
            return call(self, *given, **more)

        monkeypatch.setattr(MemoryFileSystem, name, noted)
    machine("a", "compact", url)
    assert order[:3] == ["put_file part-00000.parquet", "put_file compacted.json", "rm_file transcripts.jsonl"]


def test_files_that_a_cleaner_took_from_the_cache_are_fetched_again_and_not_removed_from_the_store(
    machine: Callable[..., Done], url: str, tmp_path: Path
) -> None:
    machine("a", *EVAL, "--out", url)
    before = objects(url)
    (copy_of(tmp_path / "a") / "transcripts.jsonl").unlink()
    machine("a", "report", url)
    assert objects(url)["transcripts.jsonl"] == before["transcripts.jsonl"]


@pytest.mark.parametrize("gone", ["", "transcripts.jsonl", "settings.json"])
def test_a_copy_that_is_removed_while_a_command_writes_leaves_the_store_as_it_is_and_is_reported(
    gone: str, machine: Callable[..., Done], url: str, tmp_path: Path
) -> None:
    at = f"file://{tmp_path}/store/one"
    machine("a", *EVAL, "--out", at)
    copy, before = remote.new(at), objects(at).keys() - {".lock"}
    if gone:
        (copy / gone).unlink()
    else:
        shutil.rmtree(copy)
    with pytest.raises(UseError, match="gone"):
        remote._copies[at].sync()
    (said,) = remote.close_all()
    assert str(copy) in said
    assert objects(at).keys() - {".lock"} == before
    assert len(keys(at)) == 3


def test_old_pages_and_parts_without_an_index_are_removed_from_the_store(url: str) -> None:
    run = remote.new(url)
    for name in ("settings.json", "report/comparison.html", "dialogues-0001/part-00000.parquet"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("{}")
    remote._copies[url].sync()
    for name in ("report/comparison.html", "dialogues-0001/part-00000.parquet"):
        (run / name).unlink()
    assert remote.close_all() == []
    assert objects(url).keys() == {"settings.json"}
    assert not fsspec.open(url).fs.exists(f"{url}/report/comparison.html")


def test_a_run_that_cannot_be_rescored_leaves_nothing_in_the_store(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("a", *EVAL, "--out", url)
    monkeypatch.setattr(rescoring, "ALLOWED_UNSCORED", -1)
    unlink = Path.unlink

    def after_an_upload(self: Path, *given: Any, **more: Any) -> None:
        for copy in remote._copies.values() if self.name.startswith("transcripts.jsonl") else ():
            copy.sync()
        unlink(self, *given, **more)

    monkeypatch.setattr(Path, "unlink", after_an_upload)
    done = machine("a", "rescore", url, "--out", f"{url}-again", "-E", "failure_below=5", code=2)
    assert "cannot be rescored" in done.err
    assert "gone" not in done.err
    assert objects(f"{url}-again") == {}


def test_a_second_driver_is_refused_until_the_lock_is_old(machine: Callable[..., Done], url: str) -> None:
    lock(url, age=60)
    message = machine("a", *EVAL, "--out", url, code=2).err
    assert url in message
    assert "node7" in message
    assert objects(url).keys() == {".lock"}
    lock(url, age=121)
    machine("a", *EVAL, "--out", url)
    assert ".lock" not in objects(url)
    lock(url, age=60)
    assert "1 run" in machine("b", "report", url).out, "reading needs no lock"


def test_two_drivers_on_one_machine_and_a_reader_of_a_copy_that_is_written(url: str, tmp_path: Path) -> None:
    run = remote.new(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "_EVERY", 0.05)
        with pytest.raises(UseError, match="another process"):
            remote._Copy(url, write=True)
    (run / "settings.json").write_text("{}")
    remote._copies[url].sync()
    (run / "transcripts.jsonl").write_text("unfinished")
    reader = remote._Copy(url, write=False)
    assert (reader.path / "settings.json").exists()
    assert not (reader.path / "transcripts.jsonl").exists()
    assert remote.close_all() == []
    assert objects(url).keys() == {"settings.json", "transcripts.jsonl"}


def test_dialogues_are_uploaded_while_the_run_goes_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_EVERY", 0.02)
    uploaded = threading.Event()

    def policy(messages: list[dict[str, str]]) -> str:
        if "transcripts.jsonl" in objects(url):
            uploaded.set()
        elif len(objects(url)) > 1:
            time.sleep(0.01)
        return "I see. What happened then?"

    run = package.evaluate("sage", [policy], user="embedded", limit=6, max_connections=1, out=url, progress=False)
    assert uploaded.is_set()
    assert len(run.transcripts) == len(keys(url)) == 6


def lock(url: str, *, age: float = 0.0) -> None:
    put(f"{url}/.lock", json.dumps({"owner": "other", "host": "node7", "time": time.time() - age}).encode())


def test_a_long_download_keeps_the_lock(machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("a", *EVAL, "--out", url)
    monkeypatch.setattr(remote, "_EVERY", 0.02)
    monkeypatch.setattr(remote, "_RENEWED", 0.02)
    download, times = MemoryFileSystem.get_file, set[float]()

    def slow(self: MemoryFileSystem, *given: Any, **more: Any) -> Any:
        end = time.monotonic() + 1
        while len(times) < 3 and time.monotonic() < end:
            times.add(json.loads(objects(url)[".lock"])["time"])
        return download(self, *given, **more)

    monkeypatch.setattr(MemoryFileSystem, "get_file", slow)
    remote.new(url)
    assert len(times) >= 3


def test_a_run_whose_lock_another_command_took_stops_and_leaves_the_lock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_EVERY", 0.02)
    monkeypatch.setattr(remote, "_RENEWED", 0.02)
    played = []

    def policy(messages: list[dict[str, str]]) -> str:
        played.append(messages)
        lock(url)
        time.sleep(0.01)
        return "I see. What happened then?"

    with pytest.raises(UseError, match="node7"), pytest.warns(RuntimeWarning, match="node7"):
        package.evaluate("sage", [policy], user="embedded", limit=6, max_connections=1, out=url, progress=False)
    assert 0 < len(played) < 50, "six dialogues have more turns"
    assert json.loads(objects(url)[".lock"])["owner"] == "other"


def failing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def fail(*given: Any, **more: Any) -> Any:
        raise PermissionError("denied at https://me:secret@host/x?X-Amz-Signature=secret")

    for name in names:
        monkeypatch.setattr(MemoryFileSystem, name, fail)


def test_a_store_that_refuses_at_the_start_ends_the_command_before_anything_is_played(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "pipe_file")
    message = machine("a", *EVAL, "--out", url, code=2).err
    assert url in message
    assert "denied" in message
    assert "secret" not in message
    assert "played" not in message


def test_a_store_that_fails_in_mid_run_costs_nothing_and_the_next_command_uploads(
    machine: Callable[..., Done], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, "put_file")
        done = machine("a", *EVAL, "--out", url, code=1)
    assert "3 dialogues played" in done.out
    assert str(copy_of(tmp_path / "a")) in done.err
    assert "secret" not in done.err
    assert objects(url).keys() == {".lock"}
    assert "3 finished before" in machine("a", *EVAL, "--out", url).out, "its own lock does not stop it"
    assert len(keys(url)) == 3


def test_an_unexpected_error_uploads_what_was_played(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **more: object) -> None:
        raise RuntimeError("a fault of heartloop")

    monkeypatch.setattr("heartloop.cli.running.leaderboard", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        machine("a", *EVAL, "--out", url)
    assert "transcripts.jsonl" in objects(url)
    assert ".lock" not in objects(url)


def test_ctrl_c_during_the_last_upload_ends_the_command_with_a_sentence(
    machine: Callable[..., Done], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", interrupted)
        assert "interrupted. The next command" in machine("a", *EVAL, "--out", url, code=1).err
    assert "3 finished before" in machine("a", *EVAL, "--out", url).out


def test_evaluate_closes_its_own_url_only_and_names_it_in_errors(url: str) -> None:
    other = remote.new(f"{url}-other")
    package.evaluate("sage", ["heartloop/reflector"], user="embedded", limit=1, out=url, progress=False)
    assert ".lock" not in objects(url)
    assert ".lock" in objects(f"{url}-other")
    with pytest.raises(SettingsMismatch, match=f"^{url} "):
        package.evaluate("sage", ["heartloop/assistant"], user="embedded", limit=1, out=url, progress=False)
    put(f"{url}/settings.json", b"no JSON")
    with pytest.raises(InputError, match=f"{url}/settings.json"):
        package.evaluate("sage", ["heartloop/assistant"], user="embedded", limit=1, out=url, progress=False)
    assert remote.is_copy(other)


def test_a_store_that_may_only_be_read_is_read(
    machine: Callable[..., Done], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("a", *EVAL, "--out", url)
    failing(monkeypatch, "put_file", "pipe_file", "rm_file")
    machine("b", "report", url, code=1)
    assert list(copy_of(tmp_path / "b").glob("report/index.html"))
    assert "1 run" in machine("b", "report", url, "--out", "page", code=1).out
    assert "1 run" in machine("c", "report", url, "--out", "page").out


@pytest.mark.parametrize(
    ("at", "said"),
    [("nonsense://bucket/run", "nonsense"), ("memory://nothing/here", "no files"), ("gs://bucket/run", "object-store]")],
)
def test_a_url_that_cannot_be_read_gets_a_sentence(at: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    refused("report", at, cwd=tmp_path, said=[at, said], XDG_CACHE_HOME=str(tmp_path.parent / f"{tmp_path.name}-cache"))


def test_a_cache_folder_that_cannot_be_made_is_named(machine: Callable[..., Done], url: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cache").write_text("a file")
    message = machine("a", *EVAL, "--out", url, code=2).err
    assert str(tmp_path / "a" / "cache") in message
    assert "XDG_CACHE_HOME" in message
    assert "credentials" not in message


@pytest.mark.parametrize("words", [("demo",), ("train", "perm-baseline")])
def test_a_demo_and_a_training_at_a_url_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    refused(*words, "--out", "memory://bucket/run", cwd=tmp_path, said="memory://bucket/run")


def test_a_password_in_a_url_is_never_shown() -> None:
    copy = remote._Copy("memory://me:secret@host/run", write=True)
    try:
        assert (copy.shown, "secret" in str(copy.path)) == ("memory://host/run", False)
    finally:
        copy.close()


OF_THIS_MACHINE = {
    "cache", "prices", "policy_prompt", "config", "json_file", "junit_file", "people", "labels", "ratings", "noise", "source",
    "student", "before", "after",
}  # fmt: skip
"""Parameters that are files of this machine in every command."""
WRITE_NO_RUN = {"fit", "guard", "write", "enrich", "distil", "sample", "save", "new"}
"""Commands whose `out` is a file or folder of this machine."""


def test_every_parameter_that_takes_a_run_takes_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        remote, "_Copy", lambda url, write: SimpleNamespace(path=Path("copy"), shown="", write=write, sync=Mock())
    )
    at_url: set[tuple[str, str]] = set()
    here: set[tuple[str, str]] = set()
    for context in contexts(typer.main.get_command(app), "heartloop"):
        for parameter in context.command.params:
            several = parameter.multiple or parameter.nargs != 1
            with contextlib.suppress(Exception):  # a number, a choice
                given = ["memory://bucket/run"] * max(1, parameter.nargs) if several else "memory://bucket/run"
                value = parameter.process_value(context, given)
                path = value[0] if isinstance(value, (list, tuple)) else value
                if isinstance(path, Path):
                    (at_url if path == Path("copy") else here).add((context.info_name, parameter.name))
    remote._copies.clear()
    assert {("eval", "out"), ("report", "runs"), ("guard", "runs"), ("show", "run"), ("compact", "runs")} <= at_url
    left = {(command, name) for command, name in here if name not in OF_THIS_MACHINE}
    assert left == {(command, "out") for command in WRITE_NO_RUN}
