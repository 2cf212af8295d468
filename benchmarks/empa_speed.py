"""How long does EMPA take with the embedded roles? `python -m benchmarks.empa_speed`

Plays the 30 cases with the seven baselines, one dialogue after the other, in one process and one thread, and writes no
dialogue. Covers playing and scoring; says nothing of models over a network. Takes a minute; `--cases 3` for a look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import machine
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import Empa
from heartloop.environments.empa.scenario import Scenario, load_scenarios
from heartloop.environments.episode import play
from heartloop.models.baselines import Baseline

RESULTS = Path(__file__).parent / "results" / "empa_speed.json"
NAMES = ("listener", "coach", "fixer", "template", "lecturer", "flatterer", "silent")


async def played(cases: Sequence[Scenario], names: Sequence[str]) -> int:
    """Turns played with every case by every baseline."""
    empa, turns = Empa(cases, EmbeddedUser()), 0
    for name in names:
        for case in cases:
            turns += len((await play(empa, case.id, Baseline(name), seed=0)).turns)
    return turns


def main() -> None:
    """Prints and writes what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=30)
    arguments = parser.parse_args()
    cases = load_scenarios()[: arguments.cases]
    wall, cpu = time.perf_counter(), time.process_time()
    turns = asyncio.run(played(cases, NAMES))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = {
        **machine(),
        "dialogues": len(cases) * len(NAMES),
        "turns": turns,
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu, 1),
        "cpu_ms_per_turn": round(1000 * cpu / turns, 2),
    }
    print(json.dumps(found, indent=1))
    if arguments.cases >= 30:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
