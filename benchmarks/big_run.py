"""Time and memory of commands on a large run: `python -m benchmarks.big_run FOLDER`

Scripted baselines play the shipped SAGE scenarios with the embedded user. Their dialogues, copied under other names, become a
run of 20 models, 1,000 scenarios and 10 repeats in the JSON-lines files of four workers. Then each command runs in a process of
its own, on JSON lines and after `heartloop compact`. Prints a Markdown table of wall time, processor time and the most memory
that was resident. `--dialogues 20000` makes a smaller run. Copies are far apart in the files, so that they do not compress each
other. The folder must not exist, and is left. Takes about half an hour and 5 GB of disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from pathlib import Path
from statistics import fmean

import heartloop
from benchmarks.machine import processor
from benchmarks.programme import table
from heartloop.core.dialogue import Transcript, write_line
from heartloop.evaluation.store import RunDirectory, played_settings, transcript_files
from heartloop.models.baselines import BASELINES

MODELS = [f"lab/model-{number:02}" for number in range(20)]
REPEATS = 10
WORKERS = 4
BASE = 100
"""Scenarios that are really played, twice by each baseline."""
_CLI = [sys.executable, "-m", "heartloop.cli"]
_SCORE = "import sys, pathlib; from heartloop.evaluation.store import write_scores; write_scores(pathlib.Path(sys.argv[1]))"
_RESUME = (
    "import sys; from pathlib import Path; from heartloop.evaluation.store import RunDirectory, played_settings\n"
    "with RunDirectory(run := Path(sys.argv[1]), played_settings(run)) as directory: print(len(directory.finished))"
)


def make_run(folder: Path, dialogues: int) -> float:
    """Makes `run` in a folder, with copies of really played dialogues; returns the mean number of turns."""
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
    run = folder / "run"
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


def measured(words: list[str]) -> tuple[str, str, str]:
    """Seconds of wall and processor time and MiB of a command; exits if it fails."""
    started = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(words)}")
    return f"{time.monotonic() - started:.1f}", f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 1024:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dialogues", type=int, default=len(MODELS) * 1000 * REPEATS)
    arguments = parser.parse_args()
    run = arguments.folder / "run"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:  # a child's memory includes what its parent had
        turns = other.submit(make_run, arguments.folder, arguments.dialogues).result()
    commands = {
        "resume: read what is finished": [sys.executable, "-c", _RESUME, str(run)],
        "scores": [sys.executable, "-c", _SCORE, str(run)],
        "compare two models": [*_CLI, "compare", str(run), "--model-a", MODELS[0], "--model-b", MODELS[1]],
        "report": [*_CLI, "report", str(run), "--out", str(arguments.folder / "report")],
    }
    rows: list[tuple[str, ...]] = []
    for form in ("JSON lines", "Parquet"):
        if form == "Parquet":
            rows.append(("compact", "JSON lines", *measured([*_CLI, "compact", str(run)])))
        size = sum(path.stat().st_size for path in transcript_files(run)) / 1e6
        print(f"{form}: {size:,.0f} MB", flush=True)
        rows += [(name, form, *measured(words)) for name, words in commands.items()]
    print(f"\n{arguments.dialogues:,} dialogues of {turns:.1f} turns; {processor()}, load {os.getloadavg()[2]:.1f}\n")
    print(table(["", "read", "wall, s", "processor, s", "memory, MiB"], rows))


if __name__ == "__main__":
    main()
