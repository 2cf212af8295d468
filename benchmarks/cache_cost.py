"""What does the answer cache cost a call? `python -m benchmarks.cache_cost`

CPU time per call with a cache minus that without, for requests like those to a SAGE user simulator: 6 kB of system prompt, 4 kB
of dialogue, an answer of 700 characters; concurrency 200, a new file. `asked` is a miss, including its write and commit;
`stored` a hit. The minimum of several rounds is reported, since other programs only add to it. Writes
`benchmarks/results/cache_cost.json` and the sentence in `docs/cache.md`; takes about a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.schemas import schema_of
from heartloop.environments.sage import users as llm_user
from heartloop.models.cache import AnswerCache, Cached

RESULTS = Path(__file__).parent / "results" / "cache_cost.json"
PAGE = DOCS / "cache.md"
CALLS = 1000
IN_FLIGHT = 200
ROUNDS = 30
ANSWER = Reply("a" * 700, usage=Usage(prompt_tokens=2500, completion_tokens=180))
SCHEMA = schema_of(llm_user._FeelAnswer)
SYSTEMS = [Message(role="system", content=f"{number} " + "persona " * 750) for number in range(IN_FLIGHT)]
TOLD = "what was said so far "


class Instant:
    """A model that answers at once."""

    name = "lab/instant"

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        await asyncio.sleep(0)
        return ANSWER


async def spent(model: ChatModel) -> float:
    """CPU milliseconds per call."""

    async def dialogue(number: int) -> None:
        for turn in range(CALLS // IN_FLIGHT):
            asked = [SYSTEMS[number], Message(role="user", content=f"{turn} {TOLD * 200}")]
            await model.complete(asked, schema=SCHEMA, sampling=Sampling(seed=turn))

    started = time.process_time()
    await asyncio.gather(*(dialogue(number) for number in range(IN_FLIGHT)))
    return 1000.0 * (time.process_time() - started) / CALLS


def once(folder: Path) -> tuple[float, float, float]:
    """Without a cache, with an empty one, with a full one."""
    bare = asyncio.run(spent(Instant()))
    with AnswerCache(folder / "answers.sqlite") as cache:
        asked = asyncio.run(spent(Cached(Instant(), cache, "user")))
        started = time.process_time()
        cache.write()
        asked += 1000.0 * (time.process_time() - started) / CALLS
        stored = asyncio.run(spent(Cached(Instant(), cache, "user")))
    return bare, asked, stored


def sentence(found: Mapping[str, Any]) -> str:
    """The two costs as the page has them."""
    return (
        f"The cache takes about {found['asked_ms']:.2f} ms of CPU for a miss with its write, and "
        f"{found['stored_ms']:.2f} ms for a hit\n(`python -m benchmarks.cache_cost`; {found['machine']}, "
        f"Python {found['python']})."
    )


def main() -> None:
    """Prints the two costs and writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fewer for a look, which writes nothing")
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(once(Path(folder)))
    bare, asked, stored = (min(column) for column in zip(*rounds, strict=True))
    costs = {"asked_ms": round(asked - bare, 4), "stored_ms": round(stored - bare, 4)}
    found = {**machine(), **costs, "calls": CALLS, "rounds": arguments.rounds}
    print(sentence(found))
    if arguments.rounds >= ROUNDS:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        rewrite(PAGE, "cache_cost", sentence(found))


if __name__ == "__main__":
    main()
