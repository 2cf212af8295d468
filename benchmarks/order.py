"""What the programmes that ask for the order of the scripted supporters have in common: dialogues, arguments, claims, the record.

Covers one round a seed and what is kept of it. Does not cover which claims there are (each `*_order.py`, from its decision).
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
from heartloop.environments.catalogue import Ready
from heartloop.environments.episode import play
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import Baseline

__all__ = ["Claim", "Means", "Round", "by_supporter", "in_order", "measure", "talks"]

Means = Mapping[str, Mapping[str, float]]
"""By supporter and column."""


class Claim(NamedTuple):
    """One sentence of a decision, and whether it held."""

    text: str
    holds: bool


class Round(NamedTuple):
    """What one seed came to."""

    played: str
    """How many were played, in words."""
    table: Sequence[str]
    claims: Sequence[Claim]
    record: Mapping[str, Any]
    """What is kept of it besides seed, seconds and claims."""


def talks(environment: Ready, seed: int, names: Sequence[str]) -> list[Transcript]:
    """Every named supporter with every person of the environment."""

    async def go() -> list[Transcript]:
        return [
            await play(environment, one, Baseline(name), seed=dialogue_seed(seed, one, 0))
            for one in environment.scenario_ids
            for name in names
        ]

    return asyncio.run(go())


def in_order(order: Mapping[str, Sequence[Sequence[str]]], means: Means) -> list[Claim]:
    """The claims that each column puts every supporter of a group above every one of the next."""
    return [
        Claim(f"{column}: {a} > {b}", means[a][column] > means[b][column])
        for column, ranks in order.items()
        for higher, lower in pairwise(ranks)
        for a in higher
        for b in lower
    ]


def by_supporter(dialogues: Sequence[Transcript], means: Means, claims: Sequence[Claim], digits: int) -> Round:
    """A round of one-turn dialogues: a row a supporter."""
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
    kept: Callable[[Path], object] = lambda path: None,
) -> None:
    """Reads the arguments, plays a round a seed, prints and keeps what was found; exits 1 if a claim does not hold.

    Args:
        play: one round, from the arguments (`half` among them) and a seed.
        more: adds arguments of its own.
        kept: called with the file of `--out` once it is written, for a page that shows it.
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
        found = play(arguments, seed)
        seconds = time.perf_counter() - started
        holding = f"{sum(claim.holds for claim in found.claims)} of {len(found.claims)} claims hold"
        print(f"\nseed {seed}, {arguments.half} half, {found.played}; {holding}; {seconds:.0f} s")
        print("\n".join(found.table))
        for claim in found.claims:
            if not claim.holds:
                print("does not hold:", claim.text)
                broken += 1
        claims = {claim.text: claim.holds for claim in found.claims}
        record.append({"seed": seed, **found.record, "seconds": round(seconds, 1), "claims": claims})
    if arguments.out:
        whole = {**machine(), "half": arguments.half, "runs": record}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        kept(arguments.out)
    sys.exit(1 if broken else 0)
