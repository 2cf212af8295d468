"""Runs in S3, served by moto on this machine: killed with -9 in mid-run, resumed from another cache folder, read, compacted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")

import fsspec  # noqa: E402 - after the skip

from heartloop import load_run  # noqa: E402
from heartloop.core.system import write_whole  # noqa: E402
from heartloop.evaluation.remote import close_all  # noqa: E402
from tests.commands import heartloop  # noqa: E402

Start = Callable[..., "subprocess.Popen[str]"]
GATED = """
import asyncio
from pathlib import Path

calls = 0

async def reply(messages):
    global calls
    calls += 1
    mine = calls
    while mine > int(Path("allowed").read_text()):
        await asyncio.sleep(0.05)
    return "I see. What happened then?"
"""
EVAL = (
    "eval",
    "sage",
    "--user",
    "embedded",
    "--model",
    "python:gated:reply",
    "--limit",
    "24",
    "--max-connections",
    "2",
    "--no-report",
)


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    """The environment variables of an S3 server with a bucket; the bucket is empty."""
    server = moto.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    access = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in access.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3", skip_instance_cache=True).makedirs("bucket", exist_ok=True)
        yield access
    server.stop()


@pytest.fixture
def started(s3: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts a command on a machine of a name, which has a cache folder of its own."""
    (tmp_path / "gated.py").write_text(GATED)
    processes = []

    def start(name: str, *words: str) -> subprocess.Popen[str]:
        own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / name), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        command = [sys.executable, "-m", "heartloop.cli", *words]
        process = subprocess.Popen(command, cwd=tmp_path, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], code: int) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, out + err
    return out + err


def objects(url: str) -> dict[str, bytes]:
    store = fsspec.filesystem("s3", skip_instance_cache=True)
    root = url.removeprefix("s3://")
    paths = store.find(root)
    found = store.cat(paths, on_error="omit") if paths else {}  # moto removes an object for a moment when it is replaced
    return {path.removeprefix(root).lstrip("/"): content for path, content in found.items()}


def dialogues(url: str) -> list[str]:
    found = objects(url)
    names = sorted(name for name in found if name.startswith("transcripts"))
    return [json.loads(line)["scenario"] for name in names for line in found[name].splitlines(keepends=True) if b"\n" in line]


def allow(folder: Path, calls: int) -> None:
    """Lets the model under test give so many replies; it then waits."""
    write_whole(folder / "allowed", str(calls))


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_run_in_s3_survives_kill_9_and_another_machine_plays_the_rest(started: Start, tmp_path: Path) -> None:
    url = "s3://bucket/runs/one"
    allow(tmp_path, 50)
    driver = started("a", *EVAL, "--out", url)
    until(lambda: dialogues(url))
    assert "another process" in ended(started("a", *EVAL, "--out", url), 2)
    assert "another command" in ended(started("b", *EVAL, "--out", url), 2)
    assert "1 run" in ended(started("b", "report", url), 0)
    time.sleep(6)  # an upload was just before
    (copy,) = (tmp_path / "a").glob("heartloop/runs/*/one")
    before = (copy / "transcripts.jsonl").stat().st_size
    until(lambda: len(objects(url)["transcripts.jsonl"]) == before)
    allow(tmp_path, 110)
    until(lambda: (copy / "transcripts.jsonl").stat().st_size > before)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    uploaded = dialogues(url)
    finished = (copy / "transcripts.jsonl").read_bytes().count(b"\n")
    assert 0 < len(uploaded) < finished < 24
    allow(tmp_path, 10_000)

    store = fsspec.filesystem("s3", skip_instance_cache=True)
    lock = json.loads(store.cat_file("bucket/runs/one/.lock"))
    assert "another command" in ended(started("b", *EVAL, "--out", url), 2)
    store.pipe_file("bucket/runs/one/.lock", json.dumps({**lock, "time": lock["time"] - 120}).encode())  # two minutes later
    said = ended(started("b", *EVAL, "--out", url), 0)
    assert f"{24 - len(uploaded)} dialogues played" in said
    assert f"{len(uploaded)} finished before" in said
    assert len(dialogues(url)) == len(set(dialogues(url))) == 24
    assert ".lock" not in objects(url)

    said = ended(started("a", *EVAL, "--out", url), 0)
    assert "24 finished before" in said
    assert len(dialogues(url)) == 24 + finished - len(uploaded), "what the killed process finished is there too"
    assert len(set(dialogues(url))) == 24
    read = ended(started("c", "report", "s3://bucket/runs"), 0)
    assert "1 run" in read
    ended(started("c", "compact", url), 0)
    assert dialogues(url) == []
    assert "dialogues-0001/part-00000.parquet" in objects(url)
    assert "24 finished before" in ended(started("a", *EVAL, "--out", url), 0)
    assert "24/24" in ended(started("d", "rejudge", url, "--judge", "embedded"), 0)
    assert set(objects("s3://bucket/runs/one-judged-embedded")) >= {"settings.json", "transcripts.jsonl", "scores.json"}


def test_sigterm_uploads_and_releases_the_lock(started: Start, tmp_path: Path) -> None:
    url = "s3://bucket/runs/two"
    allow(tmp_path, 50)
    driver = started("a", *EVAL, "--out", url)
    until(lambda: "settings.json" in objects(url))
    time.sleep(1)
    driver.terminate()
    assert "interrupted" in ended(driver, 130)
    assert {"scores.json", "log.jsonl"} <= objects(url).keys()
    assert ".lock" not in objects(url)


def test_a_bucket_that_does_not_exist_and_a_server_that_is_not_there_get_a_sentence(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(tmp_path, 0)
    said = ended(started("a", *EVAL, "--out", "s3://nowhere/one"), 2)
    assert "s3://nowhere/one" in said
    assert "Traceback" not in said
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    said = ended(started("a", "report", "s3://bucket/one"), 2)
    assert "credentials" in said
    assert "test-secret" not in said


def test_a_run_on_ray_at_a_url_is_written_by_the_driver_in_short_files(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("eval", "sage", "--user", "embedded", "--model", "heartloop/reflector", "--limit", "6", "--no-report")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    heartloop(*words, "--out", "alone", cwd=tmp_path, code=0)
    heartloop(*words, "--out", "memory://bucket/ray", "--ray", cwd=tmp_path, code=0, XDG_CACHE_HOME=str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    assert sorted(store.find("/bucket/ray")) == [
        f"/bucket/ray/{name}" for name in ("log.jsonl", "scores.json", "settings.json", "transcripts.jsonl")
    ]
    alone, at_url = (
        {one.key: one.score for one in load_run(run).transcripts} for run in (tmp_path / "alone", "memory://bucket/ray")
    )
    assert alone == at_url
    close_all()
