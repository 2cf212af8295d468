"""A run is killed a hundred times at random moments and resumed each time: `python -m benchmarks.kills`

`heartloop eval` plays dialogues behind a local server and gets SIGKILL at a random moment, repeatedly: three quarters of the
kills before the run is finished, the rest while the finished run is opened, scored and reported. Some kills leave torn lines,
as a power failure would; some happen while a second process opens the same directory. At the end the transcripts must equal
those of an uninterrupted run. Takes about seven minutes. Exits with 1 when a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.programme import RESULTS, Ended, command, eval_words, known_person, run, table, transcripts, write
from heartloop.core.dialogue import Transcript, read_transcripts
from tests.faulty_server import FaultyServer

MOMENTS = ("before the settings", "starting", "playing", "scores", "report")
LIMIT = 600.0  # seconds; a process that takes longer hangs
STEPS = 20  # seeds of one dialogue


class Killed:
    """One run directory, its server, and what was seen of it."""

    def __init__(self, folder: Path, server: FaultyServer, repeats: int, seed: int) -> None:
        self.folder, self.path, self.server = folder, folder / "killed", server
        self.draw = random.Random(seed)
        self.words = ("--repeats", str(repeats), "-E", "max_turns=3", "--seed", str(seed))
        self.moments: Counter[str] = Counter()
        self.torn: Counter[str] = Counter()
        self.refused = self.repeated = self.rewritten = self.unreadable = 0
        self._lines: list[bytes] = []

    @property
    def file(self) -> Path:
        return self.path / "transcripts.jsonl"

    def whole(self) -> list[bytes]:
        """Finished lines."""
        lines = self.file.read_bytes().split(b"\n")[:-1] if self.file.exists() else []
        return [line for line in lines if line]

    async def life(self, after: float | None) -> bool:
        """One process, killed `after` seconds, or not at all; whether it was killed. Looks at what it left."""
        seeds = {json.loads(line)["seed"] for line in self.whole()}
        first, began, log = len(self.server.served), time.time(), self._size("log.jsonl")
        words = command(*eval_words(self.path, *self.words, "--max-connections", "8"))
        ended = await run(words, base_url=self.server.base_url, key="", cwd=self.folder, limit=LIMIT, kill_after=after)
        if ended.code not in (0, -9):
            raise RuntimeError(f"exit code {ended.code}: {ended.err[-800:]}")
        asked = {one.seed for one in self.server.served[first:] if one.seed is not None}
        self.repeated += sum(bool(asked & set(range(seed, seed + STEPS))) for seed in seeds)
        lines = self.whole()
        self.rewritten += lines[: len(self._lines)] != self._lines
        print(f"{self.moments.total()} kills, {len(lines)} dialogues", file=sys.stderr)
        if ended.code == -9:
            grown, self._lines = len(lines) > len(self._lines), lines
            self.moments[self._moment(grown, began, log)] += 1
        self._lines = lines
        return ended.code == -9

    def _size(self, name: str) -> int:
        path = self.path / name
        return path.stat().st_size if path.exists() else 0

    def _moment(self, grown: bool, began: float, log: int) -> str:
        if not (self.path / "settings.json").exists():
            return MOMENTS[0]
        if self._size("log.jsonl") == log:
            return MOMENTS[2 if grown else 1]
        scores = self.path / "scores.json"
        return MOMENTS[4 if scores.exists() and scores.stat().st_mtime > began else 3]

    def tear(self) -> None:
        """Torn lines and files, as a power failure leaves them."""
        kind = self.draw.choice(["transcripts.jsonl", "log.jsonl", "settings.json.part", "scores.json.part"])
        if not (self.path / "settings.json").exists():
            return
        line = self._lines[-1] if self._lines and kind == "transcripts.jsonl" else '{"version": "0.1", "said": "Größe"}'.encode()
        with (self.path / kind).open("ab") as file:
            file.write(line[: self.draw.randrange(1, len(line))])
        self.torn[kind] += 1

    async def two(self, *, at_once: bool) -> None:
        """Two processes at one directory: one is refused and ends; then the other is killed."""
        words = command(*eval_words(self.path, *self.words, "--max-connections", "8"))
        first, one_ended = len(self.server.served), asyncio.Event()

        async def process() -> Ended:
            waiting = asyncio.create_task(_until(one_ended))
            ended = await run(
                words, base_url=self.server.base_url, key="", cwd=self.folder, limit=LIMIT, kill_when=waiting
            )  # fmt: skip
            one_ended.set()
            return ended

        one = asyncio.create_task(process())
        while not at_once and len(self.server.served) == first:  # noqa: ASYNC110 - a look now and then is exact enough
            await asyncio.sleep(0.02)
        both = await asyncio.gather(one, process())
        self.refused += sum(ended.code == 2 and "another process is writing" in ended.err for ended in both)
        self.moments["with a second process"] += sum(ended.code == -9 for ended in both)
        self._lines = self.whole()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def timeless(dialogues: Iterable[Transcript]) -> list[Transcript]:
    """Without the seconds, all that two runs of the same settings may differ in."""
    return sorted((d.model_copy(update={"seconds": 0.0}) for d in dialogues), key=lambda d: d.key)


async def programme(folder: Path, kills: int, repeats: int, seed: int, delay: float) -> tuple[Killed, dict[str, bool]]:
    async with FaultyServer(seed=seed, delay=delay, play=known_person) as server:
        killed = Killed(folder, server, repeats, seed)
        began = time.monotonic()
        calm = command(*eval_words(folder / "calm", *killed.words, "--max-connections", "32"))
        ended = await run(calm, base_url=server.base_url, key="", cwd=folder, limit=LIMIT)
        if ended.code != 0:
            raise RuntimeError(ended.err)
        start = server.served[0].answered - began
        pairs = max(1, kills // 20)
        early = round(kills * 0.75) - pairs
        for number in range(early):
            # the first ones fall into the birth of the run
            span = (0.1 * start, 0.7 * start) if number < 6 else (0.5 * start, start + 2.5)
            await killed.life(killed.draw.uniform(*span))
            if killed.draw.random() < 0.2:
                killed.tear()
        for number in range(pairs):
            await killed.two(at_once=bool(number % 2))
        open_dialogues = len(transcripts_of(folder / "calm")) - len(killed.whole())
        await killed.life(None)
        finished = time.monotonic()
        await killed.life(None)
        length = time.monotonic() - finished
        while killed.moments.total() < kills:  # the finished run: read, scored, reported
            born = time.monotonic()
            if not await killed.life(killed.draw.uniform(0.4 * length, length)):
                length = time.monotonic() - born  # it was quicker than the one before
            if killed.draw.random() < 0.2:
                killed.tear()
        await killed.life(None)
        again = len(server.served)
        await killed.life(None)
    mine, theirs = transcripts(killed.path), transcripts(folder / "calm")
    log = (killed.path / "log.jsonl").read_bytes().split(b"\n")
    scores = [json.loads((path / "scores.json").read_text())["models"] for path in (killed.path, folder / "calm")]
    checks = {
        f"at least {kills} kills, and the run is unfinished until the last quarter of them": killed.moments.total() >= kills
        and open_dialogues > 0,
        "no finished dialogue is lost": {d.key for d in mine} == {d.key for d in theirs},
        "no dialogue is stored twice": len({d.key for d in mine}) == len(mine),
        "no finished dialogue is played again": killed.repeated == 0 and len(server.served) == again,
        "no finished line is rewritten": killed.rewritten == 0,
        "the transcripts equal those of an uninterrupted run": timeless(mine) == timeless(theirs),
        "the scores equal those of an uninterrupted run": scores[0] == scores[1],
        "the settings equal those of an uninterrupted run": _settings(killed.path) == _settings(folder / "calm"),
        "in the log, only lines that were torn on purpose are unreadable": sum(map(_broken, log)) <= killed.torn["log.jsonl"],
        "of two processes on one directory, one is refused": killed.refused == pairs,
        "the report exists": (killed.path / "report" / "index.html").stat().st_size > 1000,
    }
    return killed, checks


def transcripts_of(path: Path) -> list[Transcript]:
    return list(read_transcripts(path / "transcripts.jsonl"))


def _settings(path: Path) -> object:
    return json.loads((path / "settings.json").read_text())


def _broken(line: bytes) -> bool:
    try:
        return bool(line) and not isinstance(json.loads(line), dict)
    except ValueError:
        return True


def main() -> None:
    """Kills, resumes, compares; prints the moments and the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=8, help="of the 100 supportive scenarios")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.06, help="seconds before every answer of the server")
    parser.add_argument("--out", type=Path, default=RESULTS / "kills.json")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        killed, checks = asyncio.run(programme(Path(name), given.kills, given.repeats, given.seed, given.delay))
    seconds = time.monotonic() - started
    rows = [[moment, killed.moments[moment]] for moment in (*MOMENTS, "with a second process")]
    print(table(["killed while", "times"], [*rows, ["all", killed.moments.total()]]))
    print(f"\ntorn on purpose: {dict(killed.torn)}; {100 * given.repeats} dialogues; {seconds:.0f} s")
    for check, passed in checks.items():
        print(f"{'PASS' if passed else 'FAIL'}  {check}")
    results = {"kills": killed.moments.total(), "moments": killed.moments, "torn": killed.torn, "dialogues": 100 * given.repeats}
    write(given.out, {**results, "seconds": round(seconds), "checks": checks})
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
