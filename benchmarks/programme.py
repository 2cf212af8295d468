"""What the fault programmes share: the machine's name, one `heartloop eval` as its own process, a person whose emotion is known.

Covers running a command against a local server and reading its run directory. Does not cover what each programme asks
(`faults`, `kills`, `fuzz`, `canary`).
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import heartloop
from benchmarks.machine import processor
from heartloop.core.dialogue import Transcript, read_transcripts
from tests.faulty_server import Request, broken

__all__ = [
    "RESULTS", "Ended", "change_of", "command", "eval_words", "known_person", "run", "table", "transcripts", "write",
]  # fmt: skip

RESULTS = Path(__file__).parent / "results"
"""Where results are committed."""

SERVICE = "VLLM"  # a service of one's own: no pilot, no question


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Exit code, or minus the signal."""
    out: str
    err: str
    seconds: float
    peak: float
    """Largest resident memory, MB."""


def command(*words: str) -> list[str]:
    """A heartloop command of this interpreter."""
    return [sys.executable, "-m", "heartloop.cli", *words]


def eval_words(out: Path, *more: str) -> list[str]:
    """`heartloop eval` of a model and a user simulator behind one local server."""
    models = ("--model", "vllm/policy", "--user", "vllm/person")
    return ["eval", "sage", *models, "--out", str(out), *more]


async def run(
    words: Sequence[str],
    *,
    base_url: str,
    key: str,
    cwd: Path,
    limit: float,
    kill_after: float | None = None,
    kill_when: asyncio.Task[None] | None = None,
    kill_with: signal.Signals = signal.SIGKILL,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a command in `cwd` against a server.

    Args:
        limit: seconds after which it hangs, which is an error.
        kill_after: seconds after which it gets a signal.
        kill_when: a task at whose end it gets the signal.
    """
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    kept |= {f"{SERVICE}_BASE_URL": base_url, f"{SERVICE}_API_KEY": key, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    kept |= {"PYTHONPATH": str(Path(heartloop.__file__).parents[1]), **(env or {})}  # the package that is imported here
    out, err = cwd / f"out-{time.monotonic_ns()}", cwd / f"err-{time.monotonic_ns()}"
    started = time.monotonic()
    with out.open("wb") as out_file, err.open("wb") as err_file:
        pid = os.posix_spawn(  # noqa: ASYNC221 - it does not block; not asyncio's: wait4 tells this one child's memory
            "/bin/sh", ["sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *words], kept,
            file_actions=[(os.POSIX_SPAWN_DUP2, out_file.fileno(), 1), (os.POSIX_SPAWN_DUP2, err_file.fileno(), 2)],
            setsigdef=[signal.SIGINT],  # a shell's background job ignores it
        )  # fmt: skip
    waiting = asyncio.create_task(asyncio.to_thread(os.wait4, pid, 0))
    waits: set[asyncio.Task[Any]] = {waiting, *([kill_when] if kill_when is not None else [])}
    await asyncio.wait(waits, timeout=limit if kill_after is None else kill_after, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        wanted = kill_after is not None or (kill_when is not None and kill_when.done())
        os.kill(pid, kill_with if wanted else signal.SIGKILL)
        if not wanted:
            raise RuntimeError(f"hung: {' '.join(words)} did not end within {limit:g} s; {err.read_text()[-500:]}")
    if kill_when is not None:
        kill_when.cancel()
    _, status, used = await waiting
    said, complained = (path.read_bytes().decode("utf-8", "replace") for path in (out, err))
    return Ended(os.waitstatus_to_exitcode(status), said, complained, time.monotonic() - started, used.ru_maxrss / 1024)


def change_of(seed: int) -> int:
    """The known person's change of emotion at an appraisal: a function of the request's seed alone."""
    return random.Random(f"change:{seed}").randint(-4, 8)


def known_person(asked: Request, draw: random.Random, kind: str | None) -> str:
    """Plays both roles; `change` follows from the question's seed, so that every dialogue's right score is known."""
    if asked.part == "policy":
        return f"You said it plainly. What was the {draw.choice(['worst', 'last', 'first', 'hardest'])} part of it, for you?"
    if asked.part == "feel":
        change = 25 if kind == "out_of_range" else change_of(asked.body["seed"])
        return broken(kind, {"meant": "It asks.", "fit": "It listens.", "thoughts": "Well.", "feeling": "So.", "change": change})
    reply = f"It was the {draw.choice(['evening', 'waiting', 'quiet', 'phone call'])}, I think."
    if kind == "speaks_for_npc":
        reply += "\nNPC: I understand."
    return broken(kind, {"attitude": "open", "aim": "go on", "tone": "plain", "matter": "that day", "reply": reply})


def transcripts(run: Path) -> list[Transcript]:
    """What a run holds, in the order of its keys."""
    return sorted(read_transcripts(run / "transcripts.jsonl"), key=lambda t: t.key)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Results as JSON, the machine first."""
    where = f"{processor()}, {platform.system()}, Python {platform.python_version()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": where, **results}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
