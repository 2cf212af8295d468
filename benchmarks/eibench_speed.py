"""How long do 10,000 embedded dialogues of EIBench take on one core? `python -m benchmarks.eibench_speed`

Plays the composed training set (2,009 scenarios) with baselines of different quality, one dialogue after the other, in
one process and one thread, without writing them anywhere; composing the set is not counted. Takes some minutes; `--dialogues 200`
for a look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import machine
from heartloop.environments.eibench.embedded_user import EmbeddedUser
from heartloop.environments.eibench.environment import EIBench
from heartloop.environments.eibench.listing import training
from heartloop.environments.eibench.scenario import Scenario
from heartloop.environments.episode import play
from heartloop.models.baselines import Baseline

RESULTS = Path(__file__).parent / "results" / "eibench_speed.json"
NAMES = ("listener", "diplomat", "owner", "light", "template")


async def played(scenarios: Sequence[Scenario], dialogues: int, names: Sequence[str]) -> int:
    """Turns played in so many dialogues."""
    bench = EIBench(scenarios, EmbeddedUser())
    policies = [Baseline(name) for name in names]
    turns = 0
    for number in range(dialogues):
        scenario = scenarios[number % len(scenarios)]
        transcript = await play(bench, scenario.id, policies[number % len(policies)], seed=number)
        turns += len(transcript.turns)
    return turns


def main() -> None:
    """Prints and writes what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=10_000)
    arguments = parser.parse_args()
    scenarios = training()
    wall, cpu = time.perf_counter(), time.process_time()
    turns = asyncio.run(played(scenarios, arguments.dialogues, NAMES))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = {
        **machine(),
        "dialogues": arguments.dialogues,
        "turns": turns,
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu, 1),
        "dialogues_per_cpu_s": round(arguments.dialogues / cpu, 1),
        "cpu_ms_per_turn": round(1000 * cpu / turns, 2),
    }
    print(json.dumps(found, indent=1))
    if arguments.dialogues >= 10_000:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
