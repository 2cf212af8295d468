"""How fast does the embedded user play? `python -m benchmarks.embedded_speed`

Every baseline that talks plays with shipped scenarios, one dialogue after the other on one core, without a model, a network or a
file: dialogues a second and milliseconds a turn, the median of several rounds over different scenarios after one to warm up, the
baselines' own time left out. Measures also the CPU seconds that scores and report of 1,000
dialogues take. `--busy` prints only what 192 dialogues take while a busy loop runs on each core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from benchmarks.report_opening import make_run
from heartloop.core.chat import Reply
from heartloop.environments.episode import play
from heartloop.environments.registry import stratified
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import SageScenario, load_scenarios
from heartloop.environments.sage.users import SageEmbeddedUser
from heartloop.evaluation.settings import dialogue_seed
from heartloop.evaluation.store import read_run, write_scores
from heartloop.models.baselines import BASELINES, Baseline
from heartloop.report.site import write_site

RESULTS = Path(__file__).parent / "results" / "embedded_speed.json"
PAGE = PAGES / "embedded_speed.md"
REPORTED = 1_000
"""Dialogues of the reports."""
NAMES = tuple(name for name in BASELINES if name != "silent")


class Timed(Baseline):
    """A baseline that adds up the seconds it takes."""

    seconds = 0.0

    async def complete(self, *given: Any, **more: Any) -> Reply:
        started = time.perf_counter()
        reply = await super().complete(*given, **more)
        Timed.seconds += time.perf_counter() - started
        return reply


async def a_round(scenarios: Sequence[SageScenario]) -> dict[str, float]:
    """Plays all pairs: seconds without and with the baselines' own, dialogues and turns."""
    sage = Sage(scenarios, SageEmbeddedUser())
    Timed.seconds, started = 0.0, time.perf_counter()
    played = [await play(sage, s.id, Timed(name), seed=dialogue_seed(0, s.id, 0)) for s in scenarios for name in NAMES]
    whole = time.perf_counter() - started
    return {
        "wall": whole - Timed.seconds,
        "whole": whole,
        "dialogues": len(played),
        "turns": sum(len(d.turns) for d in played),
    }


def reported(run: Path) -> dict[str, float]:
    """CPU seconds from a run directory to its report, whole and in parts."""
    moments = [time.process_time()]
    read = read_run(run)
    write_scores(read)
    moments.append(time.process_time())
    write_site([read], run / "report")
    moments.append(time.process_time())
    scores, report = (after - before for before, after in pairwise(moments))
    return {"scores": scores, "report": report, "whole": moments[-1] - moments[0]}


def reports(rounds: int) -> dict[str, Any]:
    """Medians of `reported`, and the load of the machine."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        make_run(run, REPORTED)
        measured = [reported(run) for _ in range(rounds + 1)][1:]
    medians = {key: round(median(one[key] for one in measured), 1) for key in measured[0]}
    return {"rounds": rounds, "load": round(os.getloadavg()[0], 1), **medians}


def busy(rounds: int) -> dict[str, Any]:
    """Seconds that 192 dialogues take in a process of their own while a busy loop runs on each core, and their CPU seconds."""
    code = (
        "import asyncio, sys, time; from benchmarks.embedded_speed import *; people = stratified(load_scenarios('support'), 24);"
        "asyncio.run(a_round(people[:1])); c = time.process_time(); one = asyncio.run(a_round(people));"
        "print(one['whole'] * 192 / one['dialogues'], (time.process_time() - c) * 192 / one['dialogues'])"
    )
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        lines = [subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout for _ in range(rounds)]
    finally:
        for loop in loops:
            loop.kill()
    seconds = [[round(float(part), 1) for part in line.split()] for line in lines]
    return {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "wall_and_cpu_s": seconds}


def main() -> None:
    """Prints and writes the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--people", type=int, default=12, help="a round; 12 are some 80 dialogues")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--busy", action="store_true")
    arguments = parser.parse_args()
    if arguments.busy:
        print(json.dumps(busy(arguments.rounds)))
        return
    where = machine("pydantic")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    people = stratified(load_scenarios("support"), arguments.people * (arguments.rounds + 1))
    groups = [people[number :: arguments.rounds + 1] for number in range(arguments.rounds + 1)]
    rounds = [asyncio.run(a_round(group)) for group in groups][1:]
    found = {
        **where,
        "cores_used": 1,
        "rounds": len(rounds),
        "dialogues": sum(one["dialogues"] for one in rounds),
        "turns": sum(one["turns"] for one in rounds),
        "dialogues_per_s": round(median(one["dialogues"] / one["wall"] for one in rounds), 1),
        "ms_per_turn": round(median(1000 * one["wall"] / one["turns"] for one in rounds), 2),
        "with_baselines_per_s": round(median(one["dialogues"] / one["whole"] for one in rounds), 1),
        "slowest_ms_per_turn": round(max(1000 * one["wall"] / one["turns"] for one in rounds), 2),
        "reported_dialogues": REPORTED,
        "reports_s": reports(arguments.rounds),
    }
    print(json.dumps(found, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.out == RESULTS:
        rewrite(PAGE, "embedded_speed", table(found))


def table(found: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    reports_s = found["reports_s"]
    return (
        f"One of the {found['machine']}, {found['system']}, Python {found['python']}; "
        f"{found['dialogues']} dialogues, {found['turns']} replies.\n\n"
        "| dialogues / s | with the baselines' own time | a reply and its answer | slowest round |\n"
        "|---:|---:|---:|---:|\n"
        f"| {found['dialogues_per_s']} | {found['with_baselines_per_s']} | {found['ms_per_turn']} ms | "
        f"{found['slowest_ms_per_turn']} ms |\n\n"
        f"| {found['reported_dialogues']:,} dialogues | read and scored | report written | whole |\n"
        "|:---|---:|---:|---:|\n"
        f"| seconds | {reports_s['scores']} | {reports_s['report']} | {reports_s['whole']} |\n\n"
        f"CPU time, median of {reports_s['rounds']} rounds; other work on the machine: a load of "
        f"{reports_s['load']} on its cores, which makes CPU time longer.\n"
    )


if __name__ == "__main__":
    main()
