"""The child process of `models.local`: a llama.cpp server on this machine that ends with its parent.

Run as `python -m heartloop.models.local_server`. Reads one line of JSON from standard input (`LocalChat` writes it), writes one
line, the address, to standard output, and ends when standard input is closed. Everything that llama.cpp prints goes to standard
error. Needs the extra `local`.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from heartloop.core.system import end_with_parent

__all__ = ["main"]


def _end_with(parent: int) -> None:
    """On Linux the kernel ends this process when its parent ends, `kill -9` included; elsewhere only the closed input does."""
    if sys.platform == "linux":
        end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    _end_with(settings["parent"])
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings["model"]
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.api_keys = [settings["key"]]
    parameters.n_parallel = settings["slots"]
    parameters.n_ctx = settings["context"] * settings["slots"]
    parameters.n_gpu_layers = settings["gpu_layers"]
    parameters.cache_ram_mib = 2048  # what was read of a dialogue is kept for its next turn
    parameters.ui = False
    parameters.verbosity = -1
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = settings["threads"]
    server = xllamacpp.Server(parameters)
    print(server.listening_address, file=said, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
