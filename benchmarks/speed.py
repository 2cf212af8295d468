"""How long do embedded dialogues of an environment take on one core? `python -m benchmarks.speed eibench`

Plays dialogues one after the other, in one process and one thread, and writes no dialogue; making the scenarios is not counted.
EIBench: 10,000 dialogues of the composed training set with baselines of different quality, some minutes. EMPA: every case with
the ten general baselines, some minutes. `--dialogues 200` plays fewer and writes nothing. Does not cover models over a network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import machine
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.models.baselines import GENERAL, Baseline

RESULTS = Path(__file__).parent / "results"


class Job(NamedTuple):
    """One dialogue."""

    baseline: str
    scenario: str
    seed: int


def jobs_of(environment: str, scenarios: Sequence[str]) -> list[Job]:
    """Every dialogue, in order."""
    if environment == "empa":
        return [Job(name, scenario, 0) for name, scenario in product(GENERAL, scenarios)]
    names = ("reflector", "assistant", "fixer", "rigid", "template")
    return [Job(names[number % len(names)], scenarios[number % len(scenarios)], number) for number in range(10_000)]


def main() -> None:
    """Prints and writes what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", choices=["eibench", "empa"])
    parser.add_argument("--dialogues", type=int, help="only the first so many")
    arguments = parser.parse_args()
    spec = load_environment(arguments.environment)
    ready = spec.make(spec.load(spec.scenarios.sets[-1]), spec.players())
    jobs = jobs_of(spec.name, list(ready.scenario_ids))[: arguments.dialogues]

    async def turns_played() -> int:
        return sum([len((await play(ready, job.scenario, Baseline(job.baseline), seed=job.seed)).turns) for job in jobs])

    wall, cpu = time.perf_counter(), time.process_time()
    turns = asyncio.run(turns_played())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = {
        **machine(), "dialogues": len(jobs), "turns": turns, "wall_s": round(wall, 1), "cpu_s": round(cpu, 1),
        "dialogues_per_cpu_s": round(len(jobs) / cpu, 1), "cpu_ms_per_turn": round(1000 * cpu / turns, 2),
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if arguments.dialogues is None:
        (RESULTS / f"{spec.name}_speed.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
