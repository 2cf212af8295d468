"""The command line in this process, with shorter pauses between attempts; `process` starts a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from heartloop.cli.main import main
from tests.faulty_server import FaultyServer

__all__ = ["KEY", "LAB", "Done", "environment", "files_with", "heartloop", "killed", "over_http", "process", "refused"]

KEY = "sk-test-0123456789abcdefghij"
LAB = (
    "eval", "sage", "--yes", "--model", "lab/policy", "--user", "lab/person", "--limit", "4", "-E", "max_turns=4", "--out", "run",
)  # fmt: skip


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL", "_CACHE"))}
    return {**own, "COLUMNS": "100", "NO_COLOR": "1", **more}


def heartloop(*words: str, cwd: Path, typed: str = "", code: int | None = None, **more: str) -> Done:
    """Runs a command in a thread without the test's event loop, and checks the exit code if one is given."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(_run, words, cwd, more, typed, code).result()


def refused(*words: str, cwd: Path, said: str | Sequence[str], **more: str) -> None:
    """Runs a command that is wrong use: exit code 2, a message with these parts, and no file or folder is new."""
    before = sorted(cwd.rglob("*"))
    message = " ".join(heartloop(*words, cwd=cwd, code=2, **more).err.split())
    assert all(part in message for part in ([said] if isinstance(said, str) else said)), message
    assert "Traceback" not in message
    assert sorted(cwd.rglob("*")) == before


def _run(words: Sequence[str], cwd: Path, more: Mapping[str, str], typed: str = "", expected: int | None = None) -> Done:
    if words[0] in ("eval", "rejudge") and "--report" not in words:
        words = (*words, "--no-report")  # the page takes longer than the run
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["heartloop", *words]), mock.patch.dict(os.environ, environment(**more), clear=True),
        mock.patch("sys.stdin", io.StringIO(typed)), mock.patch("heartloop.models.client._FIRST_PAUSE", 0.01),
        mock.patch("heartloop.models.check._PAUSE", 0.01),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    done = Done(code, out.getvalue(), err.getvalue())
    assert expected in (None, code), done
    return done


async def over_http(server: FaultyServer, *words: str, cwd: Path, typed: str = "", code: int | None = None, **more: str) -> Done:
    """Runs a command in another thread while a server of this one answers."""
    lab = {"LAB_BASE_URL": server.base_url, "LAB_API_KEY": KEY, **more}
    return await asyncio.to_thread(_run, words, cwd, lab, typed, code)


def process(*words: str, cwd: Path, **more: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "heartloop.cli", *words],
        cwd=cwd, env=environment(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def killed(*words: str, cwd: Path, when: Callable[[], bool], **more: str) -> bool:
    """Runs a command in a process of its own until `when` holds and kills it then (-9); whether it was killed."""
    command, until = [sys.executable, "-m", "heartloop.cli", *words], time.monotonic() + 60
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=cwd, env=environment(**more), stdin=quiet, stdout=quiet, stderr=quiet) as running:
        while running.poll() is None and time.monotonic() < until and not when():
            time.sleep(0.005)
        running.kill()
    return running.returncode == -signal.SIGKILL


def files_with(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
