"""Does the API key stay where it belongs? `python -m benchmarks.canary`

Runs `heartloop eval` with a canary as its key through every fault of the local server, which repeats the key wherever it
can: in answers, errors, headers, redirects, whole, URL-encoded and in base64. Further runs end by SIGKILL, Ctrl-C, SIGABRT
with stacks shown and an exception nobody expected, log everything there is to log, or hold the key in the address. Every file
and every line of output is then searched. Takes about four minutes. Exits with 1 when a trace of the key is found.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import web

from benchmarks.programme import RESULTS, command, eval_words, known_person, run, table, write
from tests.faulty_server import FAULTS, FaultyServer, Request

KEY = "CANARY-KEY/0123456789+abcdefgh"
FORMS = [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), base64.b64encode(f"Bearer {KEY}".encode()).decode()]
TRACES = [b"CANARY", b"Authorization"] + [base64.b64encode(b" " * n + KEY.encode())[4 * bool(n) :][:10] for n in range(3)]
"""What must be found nowhere."""
AGENTS = {
    "bomb": "import heartloop.models.client\n\ndef raises(*_):\n    raise RuntimeError('nobody expected this')\n\n"
    "heartloop.models.formats.read_reply = raises\n",
    "loud": "import logging\n\nlogging.basicConfig(level=logging.DEBUG)\n",
}
LIMIT = 300.0


class Echo(FaultyServer):
    """Repeats the key in what it says and in every header and error that is not needed for the fault itself."""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        response = await super()._serve(request)
        if not isinstance(response, web.Response) or response.prepared:
            return response
        response.headers["X-Echo"] = f"Authorization: Bearer {KEY}"
        if response.status >= 300 and b"insufficient_quota" not in (response.body or b""):  # type: ignore[operator]
            said = f"Wrong key {', '.join(FORMS)} in Authorization: Bearer {KEY}".replace("Authorization", "header")
            response.headers.update({"Location": f"http://127.0.0.1:9/?key={quote(KEY)}", "Retry-After": KEY})
            response.text = json.dumps({"error": {"message": said, "type": KEY, "param": KEY, "code": KEY}})
        return response


def person(asked: Request, draw: random.Random, kind: str | None) -> str:
    """The known person, who says the key in all its forms."""
    text = known_person(asked, draw, kind)
    said = " ".join(FORMS)
    return f"{text} {said}" if asked.part == "policy" else text.replace("It asks.", said).replace("I think.", f"said {said}.")


class Case(NamedTuple):
    """One run."""

    name: str
    faults: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    kill: signal.Signals | None = None
    address: str = "{}"
    """How the base URL is given."""
    env: Mapping[str, str] = {}
    delay: float = 0.0


def cases() -> list[Case]:
    agent = ("--model", "python:{}:reply")
    quick = [Case(f"fault: {fault}", (fault,)) for fault in FAULTS]
    others = [
        Case("no fault"),
        Case("SIGKILL", kill=signal.SIGKILL, delay=0.2),
        Case("Ctrl-C", kill=signal.SIGINT, delay=0.2),
        Case("SIGABRT, stacks shown", kill=signal.SIGABRT, delay=0.2, env={"PYTHONFAULTHANDLER": "1"}),
        Case("an exception nobody expected", words=(agent[0], agent[1].format("bomb"))),
        Case(
            "everything logged", ("drop:2", "error_500:2"), (agent[0], agent[1].format("loud")), env={"PYTHONASYNCIODEBUG": "1"}
        ),
        Case("key in the query", ("unauthorized",), address=f"{{}}?api-version=1&api-key={quote(KEY, safe='')}"),
        Case("key in the query, no HTTP", ("no_http",), address=f"{{}}?api-key={quote(KEY, safe='')}"),
        Case("key in the query, dropped", ("drop",), address=f"{{}}?key={quote(KEY, safe='')}"),
        Case("key as a password", address=f"http://user:{quote(KEY, safe='')}@127.0.0.1:9/v1"),
        Case("key in an address that is none", address=f"http://127.0.0.1:{KEY}/v1"),
        Case("--help", words=("--help",)),
    ]
    return [*quick, *others]


async def tried(case: Case, folder: Path) -> dict[str, Any]:
    """Runs a case and counts the traces it left."""
    _write_agents(folder)
    words = eval_words(Path("run"), "--limit", "2", "-E", "max_turns=2", "--timeout", "2", "--retries", "1", *case.words)
    async with Echo(*case.faults, delay=case.delay, play=person) as server:
        called = asyncio.create_task(_called(server)) if case.kill is not None else None
        ended = await run(
            command(*words), base_url=case.address.format(server.base_url), key=KEY, cwd=folder, limit=LIMIT,
            kill_when=called, kill_with=case.kill or signal.SIGKILL, env=case.env,
        )  # fmt: skip
        calls = len(server.served)
    return {"case": case.name, "calls": calls, "exit code": ended.code, **_searched(folder)}


def _write_agents(folder: Path) -> None:
    folder.mkdir()
    for name, text in AGENTS.items():
        (folder / f"{name}.py").write_text(f"{text}\n\ndef reply(messages):\n    return 'You said it. Why?'\n")


def _searched(folder: Path) -> dict[str, Any]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.stem not in AGENTS]
    held = [path.name for path in files if any(trace in path.read_bytes() for trace in TRACES)]
    return {"files": len(files), "traces in": held}


async def _called(server: FaultyServer) -> None:
    """Until the process talks with the server."""
    while not server.in_flight:  # noqa: ASYNC110 - a look now and then is exact enough
        await asyncio.sleep(0.02)


async def main_loop(folder: Path, chosen: list[Case], jobs: int) -> list[dict[str, Any]]:
    gate = asyncio.Semaphore(jobs)

    async def one(number: int, case: Case) -> dict[str, Any]:
        async with gate:
            found = await tried(case, folder / str(number))
            print(found, file=sys.stderr)
            return found

    return await asyncio.gather(*(one(number, case) for number, case in enumerate(chosen)))


def main() -> None:
    """Runs every case and prints where traces were found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3, help="runs at once")
    parser.add_argument("--only", help="cases whose name holds this")
    parser.add_argument("--out", type=Path, default=RESULTS / "canary.json")
    given = parser.parse_args()
    chosen = [case for case in cases() if (given.only or "") in case.name]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(main_loop(Path(name), chosen, given.jobs))
    traces = [one for one in found if one["traces in"]]
    print(
        table(
            ["case", "calls", "exit code", "files", "traces"], [[*list(one.values())[:4], len(one["traces in"])] for one in found]
        )
    )
    files = sum(one["files"] for one in found)
    print(f"\n{len(found)} runs, {files} files searched, {len(traces)} runs with traces, {time.monotonic() - started:.0f} s")
    if given.only is None:
        write(given.out, {"runs": len(found), "files": files, "runs with traces": len(traces), "cases": found})
    sys.exit(1 if traces else 0)


if __name__ == "__main__":
    main()
