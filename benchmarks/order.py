"""Shared parts of the benchmarks of the baselines' order: dialogues, arguments, claims, the record.

Covers one round per seed and its record. Does not cover the claims (each `*_order.py`, from its decision).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.spec import Ready
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import Baseline

__all__ = ["Claim", "Means", "Round", "by_baseline", "in_order", "measure", "talks"]

Means = Mapping[str, Mapping[str, float]]
"""By baseline and column."""


class Claim(NamedTuple):
    """One sentence of a decision, and whether it held."""

    text: str
    holds: bool


class Round(NamedTuple):
    """The results of one seed."""

    played: str
    """Number of dialogues or scenarios, in words."""
    table: Sequence[str]
    claims: Sequence[Claim]
    record: Mapping[str, Any]
    """Written to the record, besides seed, seconds and claims."""


def talks(environment: Ready, seed: int, names: Sequence[str]) -> list[Transcript]:
    """Dialogues of every named baseline with every scenario of the environment."""

    async def go() -> list[Transcript]:
        return [
            await play(environment, one, Baseline(name), seed=dialogue_seed(seed, one, 0))
            for one in environment.scenario_ids
            for name in names
        ]

    return asyncio.run(go())


def in_order(order: Mapping[str, Sequence[Sequence[str]]], means: Means) -> list[Claim]:
    """The claims that in each column every baseline of a group is above every one of the next."""
    return [
        Claim(f"{column}: {a} > {b}", means[a][column] > means[b][column])
        for column, ranks in order.items()
        for higher, lower in pairwise(ranks)
        for a in higher
        for b in lower
    ]


def by_baseline(dialogues: Sequence[Transcript], means: Means, claims: Sequence[Claim], digits: int) -> Round:
    """A round of one-turn dialogues: one row per baseline."""
    columns = list(next(iter(means.values())))
    people = len(dialogues) // len(means)
    table = [f"{'':10}" + "".join(f"{column:>12}" for column in columns)]
    table += [f"{name:10}" + "".join(f"{row[column]:12.{digits}f}" for column in columns) for name, row in means.items()]
    record = {
        "people": people,
        "dialogues": len(dialogues),
        "unscored": sum(not t.scored for t in dialogues),
        "means": {name: {column: round(x, 4) for column, x in row.items()} for name, row in means.items()},
    }
    return Round(f"{people} people", table, claims, record)


def measure(
    description: str | None,
    play: Callable[[argparse.Namespace, int], Round],
    more: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    written: Callable[[Path], object] = lambda path: None,
) -> None:
    """Reads the arguments, runs one round per seed, prints and records the results; exits 1 if a claim does not hold.

    Args:
        play: one round, from the arguments (including `half`) and a seed.
        more: adds arguments.
        written: called with the file of `--out` after it is written, for a page that shows it.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["tuning", "held-out", "all"], default="held-out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="write the tables as JSON, with the machine named")
    more(parser)
    arguments = parser.parse_args()
    broken, record = 0, []
    for seed in arguments.seeds:
        started = time.perf_counter()
        results = play(arguments, seed)
        seconds = time.perf_counter() - started
        holding = f"{sum(claim.holds for claim in results.claims)} of {len(results.claims)} claims hold"
        print(f"\nseed {seed}, {arguments.half} half, {results.played}; {holding}; {seconds:.0f} s")
        print("\n".join(results.table))
        for claim in results.claims:
            if not claim.holds:
                print("does not hold:", claim.text)
                broken += 1
        claims = {claim.text: claim.holds for claim in results.claims}
        record.append({"seed": seed, **results.record, "seconds": round(seconds, 1), "claims": claims})
    if arguments.out:
        whole = {**machine(), "half": arguments.half, "runs": record}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        written(arguments.out)
    sys.exit(1 if broken else 0)
