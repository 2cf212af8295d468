"""What a run loses and pays at servers that behave as providers do, in real time: `python -m benchmarks.providers`

Every case is `heartloop eval` as its own process against a server of `tests/providers`. The server counts calls, refusals,
finished answers and tokens; the run's transcripts and log say what heartloop counted. `--before SRC` measures another version,
whose `src` folder it is, for the other column. Finished cases are kept in the results, so a killed run goes on; `--again`
measures them again. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.page import DOCS, rewrite
from benchmarks.programme import RESULTS as FOLDER
from benchmarks.programme import command, run, table, transcripts, write
from heartloop.core.text import amount
from heartloop.evaluation.store import read_log
from heartloop.models.budget import Price
from tests.providers.limits import SlidingWindow
from tests.providers.servers import (
    AccountEnds,
    CachedInput,
    Limit,
    OneAnswerAtATime,
    OneBadGeneration,
    PromptModeration,
    Provider,
    ShortContext,
)

RESULTS = FOLDER / "providers.json"
PAGE = DOCS / "providers.md"
PRICES = Price(input=1.0, output=4.0, cached_input=0.1)
AT_ONCE = 4  # cases; they wait most of the time
HANGS = 1200.0  # seconds


class Case(NamedTuple):
    name: str
    serve: Callable[[], Provider]
    dialogues: int
    words: tuple[str, ...] = ()
    environment: str = "sage"
    then: Literal["", "top up", "kill"] = ""
    """Repeats the command after the account is topped up, or after a SIGKILL at half of the calls."""
    noted: Callable[[Provider], str] = lambda server: ""


def a_minute(*tells: Literal["seconds"]) -> Callable[[], Provider]:
    return lambda: Provider(Limit(SlidingWindow(60, 60.0), *tells), latency=0.5)


def is_flagged(body: Mapping[str, Any]) -> bool:
    """A quarter of the dialogues, by what the person says first to the policy."""
    return (
        body["model"] == "policy"
        and len(body["messages"]) > 1
        and zlib.crc32(str(body["messages"][1]["content"]).encode()) % 4 == 0
    )


def with_schemas(server: Provider) -> str:
    asked = [call for call in server.calls if call.body["model"] == "person" and call.part != "check"]
    kept = sum(call.body.get("response_format", {}).get("type") == "json_schema" for call in asked)
    return f"{kept / len(asked):.0%} of calls with a schema"


def cut(server: Provider) -> str:
    return f"{server.parts[0].cut} prompts cut"  # type: ignore[attr-defined]


def cost(server: Provider) -> str:
    fresh = server.billed["prompt"] - server.billed["cached"]
    billed = (
        PRICES.input * fresh
        + (PRICES.cached_input or 0.0) * server.billed["cached"]
        + PRICES.output * server.billed["completion"]
    )
    return f"billed {billed / 1e6:.4f}"


SHORT = ("-E", "max_turns=3")
"""About eight calls a dialogue."""
CASES = (
    Case("60 calls a minute, without headers", a_minute(), 16, SHORT),
    Case("60 calls a minute, with `Retry-After`", a_minute("seconds"), 16, SHORT),
    Case("60 calls a minute, killed and resumed", a_minute(), 16, SHORT, then="kill"),
    Case("60 calls a minute, killed and resumed, `--cache`", a_minute(), 16, (*SHORT, "--cache", "a.sqlite"), then="kill"),
    Case(
        "answers take 3 s, `--timeout 1`",
        lambda: Provider(latency=lambda call: 0.0 if call.part == "check" else 3.0),
        4,
        (*SHORT, "--timeout", "1"),
    ),
    Case(
        "one answer of 1 s at a time, `--timeout 10`",
        lambda: Provider(OneAnswerAtATime(), latency=1.0),
        16,
        ("-E", "max_turns=1", "--timeout", "10"),
    ),
    Case("one generation that breaks its schema", lambda: Provider(OneBadGeneration()), 8, SHORT, noted=with_schemas),
    Case("moderation of the policy by a 400", lambda: Provider(PromptModeration("azure", is_flagged)), 16, SHORT),
    Case(
        "the account is empty after 60 calls; topped up, same command",
        lambda: Provider(AccountEnds("balance", after=60), latency=0.1),
        16,
        (*SHORT, "--max-connections", "4"),
        then="top up",
    ),
    Case("a context of 2,048 tokens that cuts", lambda: Provider(ShortContext(2048)), 2, environment="empa", noted=cut),
    Case("input that was sent before is cheaper", lambda: Provider(CachedInput("openai")), 4, noted=cost),
)


def prepared(case: Case, folder: Path, *, old: bool) -> list[str]:
    """Writes the price file, which has no price of cached input in an old version, and returns the command."""
    folder.mkdir()
    prices = {"input": PRICES.input, "output": PRICES.output} | ({} if old else {"cached_input": PRICES.cached_input})
    fields = "".join(f"{kind} = {price}\n" for kind, price in prices.items())
    (folder / "prices.toml").write_text("".join(f'["vllm/{name}"]\n{fields}' for name in ("policy", "person")))
    models = ("--model", "vllm/policy", "--user", "vllm/person", "--limit", str(case.dialogues))
    return command("eval", case.environment, *models, "--out", "run", "--prices", "prices.toml", "--yes", *case.words)


async def measured(case: Case, folder: Path, source: Path | None) -> dict[str, Any]:
    """Plays a case and says what the server and the run counted."""
    words, env = prepared(case, folder, old=source is not None), {} if source is None else {"PYTHONPATH": str(source)}
    async with case.serve() as server:

        async def play(until: int | None = None) -> float:
            killed = None if until is None else asyncio.create_task(accepted(server, until))
            ended = await run(words, base_url=server.base_url, key="none", cwd=folder, limit=HANGS, kill_when=killed, env=env)
            return ended.seconds

        seconds = await play(100 if case.then == "kill" else None)
        if case.then == "top up":
            server.parts[0].after = math.inf  # type: ignore[attr-defined]
        if case.then:
            seconds += await play()
        await asyncio.gather(*server._generations, return_exceptions=True)  # of calls that were abandoned; they are billed too
    dialogues = transcripts(folder / "run")
    charged = sum(call.usage.total for dialogue in dialogues for call in dialogue.calls)
    charged += sum(int(lost[2]) + int(lost[3]) for entry in read_log(folder / "run") for lost in entry.get("lost", ()))
    card = json.loads((folder / "run" / "scores.json").read_text())
    note = case.noted(server) + (f", charged {card['models'][0]['cost']:.4f}" if case.noted is cost else "")
    billed = server.billed["prompt"] + server.billed["completion"]
    return {
        "dialogues": case.dialogues, "calls": len(server.calls), "refused": server.refused.total(), "answers": server.finished,
        "lost": case.dialogues - len({dialogue.key for dialogue in dialogues if dialogue.scored}),
        "billed": billed, "charged": charged, "seconds": round(seconds), "note": note,
    }  # fmt: skip


async def accepted(server: Provider, calls: int) -> None:
    while server.accepted < calls:  # noqa: ASYNC110 - a look now and then is exact enough
        await asyncio.sleep(0.05)


def page(found: Mapping[str, Any]) -> str:
    """The table of the page: before and after."""
    columns = {"calls": "calls", "refused": "refused", "answers": "answers generated", "lost": "dialogues lost",
               "billed": "tokens billed", "charged": "tokens charged", "seconds": "seconds"}  # fmt: skip
    rows = []
    for case in CASES:
        before, after = found["before"][case.name], found["after"][case.name]
        note = f" ({before['note']} → {after['note']})" if after["note"] else ""
        cells = [f"{before[name]:,} → {after[name]:,}" for name in columns]
        rows.append([f"{case.name}; {amount(case.dialogues, 'dialogue')}{note}", *cells])
    text = f"Measured on {found['machine']}, with other programs running. Each cell is before → after.\n\n"
    return text + table(["behaviour", *columns.values()], rows)


async def measure(column: str, source: Path | None, again: bool, only: str) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, case: Case, folder: Path) -> None:
        async with slots:
            row = await measured(case, folder / str(number), source)
        found = results()
        found[column][case.name] = row
        print(case.name, row, flush=True)
        write(RESULTS, found)

    known = {} if again else results()[column]
    with tempfile.TemporaryDirectory() as name:
        open_cases = [case for case in CASES if only in case.name and case.name not in known]
        await asyncio.gather(*(one(number, case, Path(name)) for number, case in enumerate(open_cases)))
    if all(case.name in results()[side] for side in ("before", "after") for case in CASES):
        rewrite(PAGE, "providers", page(results()))


def results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"before": {}, "after": {}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="SRC", help="measure the version in this folder, for the column before")
    parser.add_argument("--again", action="store_true", help="measure cases that have a result, too")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    source = given.before and given.before.resolve()
    asyncio.run(measure("after" if source is None else "before", source, given.again, given.only))
