"""Time and memory of commands on a large run: `python -m benchmarks.big_run FOLDER`

Scripted baselines play the shipped SAGE scenarios with the embedded user. Their dialogues, copied under other names, become a
run of 20 models, 1,000 scenarios and 10 repeats in the JSON-lines files of four workers. Then each command runs in a process of
its own, on JSON lines and after `heartloop compact`. Writes into `docs/scaling.md` the wall time, processor time and the most
memory that was resident, and by dialogue the processor time and the memory above that of an empty run. `--dialogues 20000`
makes a smaller run and only prints. Copies are far apart in the files, so that they do not compress each other; but texts of
templates are smaller than those of language models. The folder is left, and played dialogues in it are not played again. Takes
about half an hour and 5 GB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import heartloop
from benchmarks.machine import processor
from benchmarks.page import DOCS, rewrite
from benchmarks.programme import table
from heartloop.core.dialogue import Transcript, write_line
from heartloop.evaluation.store import RunDirectory, played_settings, transcript_files
from heartloop.models.baselines import BASELINES

PAGE = DOCS / "scaling.md"
MODELS = [f"lab/model-{number:02}" for number in range(20)]
REPEATS = 10
WORKERS = 4
COLUMNS = ["", "reads", "wall, s", "processor, s", "memory, MiB", "processor, µs each", "memory, bytes each"]
BASE = 100
"""Scenarios that are really played, twice by each baseline."""
_CLI = [sys.executable, "-m", "heartloop.cli"]
_SCORE = "import sys, pathlib; from heartloop.evaluation.store import write_scores; write_scores(pathlib.Path(sys.argv[1]))"
_RESUME = (
    "import sys; from pathlib import Path; from heartloop.evaluation.store import RunDirectory, played_settings\n"
    "with RunDirectory(run := Path(sys.argv[1]), played_settings(run)) as directory: print(len(directory.finished))"
)


def make_run(folder: Path, run: Path, dialogues: int) -> float:
    """Makes a run of copies of the dialogues played in a folder; returns the mean number of turns of these."""
    played = heartloop.evaluate(
        "sage", [f"heartloop/{name}" for name in BASELINES], user="embedded", limit=BASE, repeats=2,
        options={"max_turns": 8}, out=folder / "played",
    )  # fmt: skip
    by_scenario: dict[str, list[Transcript]] = {}
    for one in played.transcripts:
        by_scenario.setdefault(one.scenario, []).append(one)
    lines = [[write_line(one) for one in ones] for ones in by_scenario.values()]
    names = [[_name(one.scenario, one.fingerprint, one.model, one.repeat) for one in ones] for ones in by_scenario.values()]
    fingerprints = [ones[0].fingerprint for ones in by_scenario.values()]
    scenarios = {f"scenario-{number:04}": fingerprints[number % BASE] for number in range(1000)}
    settings = played_settings(played.path).model_copy(
        update={"models": tuple(MODELS), "scenarios": scenarios, "repeats": REPEATS, "limit": None}
    )
    shutil.rmtree(run, ignore_errors=True)  # that of an earlier call
    with RunDirectory(run, settings) as directory:
        files = [directory.worker_file(number).open("w", encoding="utf-8") for number in range(1, 1 + WORKERS)]
        every = product(range(REPEATS), enumerate(scenarios.items()), enumerate(MODELS))
        for count, (repeat, (number, (scenario, fingerprint)), (place, model)) in enumerate(islice(every, dialogues)):
            of, which = number % BASE, (place + repeat) % len(lines[number % BASE])
            renamed = lines[of][which].replace(names[of][which], _name(scenario, fingerprint, model, repeat), 1)
            files[count % WORKERS].write(renamed)
        for file in files:
            file.close()
    return fmean(len(one.turns) for one in played.transcripts)


def _name(scenario: str, fingerprint: str, model: str, repeat: int) -> str:
    """The fields of a JSON line that name a dialogue."""
    return f'"scenario":"{scenario}","fingerprint":"{fingerprint}","model":"{model}","repeat":{repeat},'


class Took(NamedTuple):
    wall: float
    processor: float
    memory: float
    """MiB."""


def measured(words: Sequence[str]) -> Took:
    """What a command takes; exits if it fails."""
    started = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(words)}")
    return Took(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dialogues", type=int, default=len(MODELS) * 1000 * REPEATS)
    arguments = parser.parse_args()
    number, small, run = arguments.dialogues, arguments.folder / "small", arguments.folder / "run"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:  # a child's memory includes what its parent had
        turns = [other.submit(make_run, arguments.folder, path, n).result() for path, n in ((small, 40), (run, number))][1]

    def commands(path: Path) -> dict[str, list[str]]:
        return {
            "resume: read what is finished": [sys.executable, "-c", _RESUME, str(path)],
            "scores": [sys.executable, "-c", _SCORE, str(path)],
            "compare two models": [*_CLI, "compare", str(path), "--model-a", MODELS[0], "--model-b", MODELS[1]],
            "report": [*_CLI, "report", str(path), "--out", str(arguments.folder / "report")],
            "compact": [*_CLI, "compact", str(path)],
        }

    rows: list[list[str]] = []
    sizes = []
    for form in ("JSON lines", "Parquet"):
        size = sum(path.stat().st_size for path in transcript_files(run))
        sizes.append(f"{form}: {size / 1e6:,.0f} MB, {size / number:,.0f} bytes a dialogue")
        for name, words in commands(run).items():
            base, took = measured(commands(small)[name]), measured(words)
            each = ((took.processor - base.processor) / number * 1e6, (took.memory - base.memory) / number * 2**20)
            rows.append(
                [name, form, f"{took.wall:.1f}", f"{took.processor:.1f}", f"{took.memory:.0f}", *(f"{n:.0f}" for n in each)]
            )
    where = f"{number:,} dialogues of {turns:.1f} turns; {processor()}, load {os.getloadavg()[2]:.1f}"
    text = f"{where}. {'. '.join(sizes)}.\n\n{table(COLUMNS, rows[:-1])}"
    print(text)
    if number == len(MODELS) * 1000 * REPEATS:
        rewrite(PAGE, "big_run", text)


if __name__ == "__main__":
    main()
