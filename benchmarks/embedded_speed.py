"""How fast does the embedded user play? `python -m benchmarks.embedded_speed`

Every baseline that talks plays with shipped scenarios, one dialogue after the other on one core, without a model, a network or a
file: dialogues a second and milliseconds a turn, the median of several rounds over different scenarios after one to warm up, the
baselines' own time left out. Measures also what labelling a reply costs afterwards where a user simulator model played.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from heartloop.core.chat import Reply
from heartloop.environments.episode import play
from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.labels import label
from heartloop.environments.sage.scenario import Scenario, load_scenarios
from heartloop.evaluation.settings import dialogue_seed, stratified
from heartloop.models.baselines import BASELINES, Baseline
from heartloop.report.labels import talk_of

RESULTS = Path(__file__).parent / "results" / "embedded_speed.json"
PAGE = DOCS / "results" / "embedded_speed.md"
NAMES = tuple(name for name in BASELINES if name != "silent")


class Timed(Baseline):
    """A baseline that adds up the seconds it takes."""

    seconds = 0.0

    async def complete(self, *given: Any, **more: Any) -> Reply:
        started = time.perf_counter()
        reply = await super().complete(*given, **more)
        Timed.seconds += time.perf_counter() - started
        return reply


async def a_round(scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Plays all pairs: seconds without and with the baselines' own, dialogues, turns, and seconds to label the same anew."""
    sage = Sage(scenarios, EmbeddedUser())
    Timed.seconds, started = 0.0, time.perf_counter()
    played = [await play(sage, s.id, Timed(name), seed=dialogue_seed(0, s.id, 0)) for s in scenarios for name in NAMES]
    whole = time.perf_counter() - started
    by_id = {scenario.id: scenario for scenario in scenarios}
    started = time.perf_counter()
    for dialogue in played:
        label(by_id[dialogue.scenario], *talk_of(dialogue))
    labelling = time.perf_counter() - started
    return {
        "wall": whole - Timed.seconds,
        "whole": whole,
        "dialogues": len(played),
        "turns": sum(len(d.turns) for d in played),
        "labelling": labelling,
    }


def main() -> None:
    """Prints and writes the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--people", type=int, default=12, help="a round; 12 are some 80 dialogues")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
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
        "label_ms_per_reply": round(median(1000 * one["labelling"] / one["turns"] for one in rounds), 2),
    }
    print(json.dumps(found, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.out == RESULTS:
        rewrite(PAGE, "embedded_speed", table(found))


def table(found: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    return (
        f"One of the {found['machine']}, {found['system']}, Python {found['python']}; {found['dialogues']} dialogues, "
        f"{found['turns']} replies.\n\n"
        "| dialogues / s | with the baselines' own time | a reply and its answer | slowest round | labelling a reply |\n"
        "|---:|---:|---:|---:|---:|\n"
        f"| {found['dialogues_per_s']} | {found['with_baselines_per_s']} | {found['ms_per_turn']} ms | "
        f"{found['slowest_ms_per_turn']} ms | {found['label_ms_per_reply']} ms |\n"
    )


if __name__ == "__main__":
    main()
