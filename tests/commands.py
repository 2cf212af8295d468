"""The command line in this process, which saves the start of Python; `process` where the process is the subject.

Exit codes, output and files are the same; only the pauses between attempts are shorter.
"""

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

__all__ = ["KEY", "LAB", "Done", "environment", "files_with", "heartloop", "killed", "over_http", "process"]

KEY = "sk-test-0123456789abcdefghij"
LAB = (
    "eval", "sage", "--yes", "--model", "lab/policy", "--user", "lab/person", "--limit", "4", "-E", "max_turns=4", "--out", "run",
)  # fmt: skip


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """This environment without the keys, endpoints and caches of whoever runs the tests."""
    own = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL", "_CACHE"))}
    return {**own, "COLUMNS": "100", "NO_COLOR": "1", **more}


def heartloop(*words: str, cwd: Path, typed: str = "", **more: str) -> Done:
    """Runs a command in this process, in a thread without the test's event loop; that loop waits (see `over_http`)."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(_run, words, cwd, more, typed).result()


def _run(words: Sequence[str], cwd: Path, more: Mapping[str, str], typed: str = "") -> Done:
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
    return Done(code, out.getvalue(), err.getvalue())


async def over_http(server: FaultyServer, *words: str, cwd: Path, typed: str = "", **more: str) -> Done:
    """Runs a command in another thread while a server of this one answers."""
    return await asyncio.to_thread(_run, words, cwd, {"LAB_BASE_URL": server.base_url, "LAB_API_KEY": KEY, **more}, typed)


def process(*words: str, cwd: Path, **more: str) -> Done:
    """Runs a command in a process of its own."""
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
    """Files below a folder that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
