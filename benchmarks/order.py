"""Shared parts of the benchmarks of the baselines' order: dialogues, arguments, claims, the record.

Covers one round per seed and its record. Does not cover the claims (each `*_order.py`, from its decision).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.machine import machine
from benchmarks.page import rewrite
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import Baseline

__all__ = [
    "Claim", "Means", "Round", "baseline_of", "by_baseline", "by_group", "grouped", "in_order", "means_by_baseline", "means_of",
    "measure", "transcripts", "verdicts",
]  # fmt: skip

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


def transcripts(environment: str, half: str, seed: int, names: Sequence[str], *, sets: Sequence[str] = ()) -> list[Transcript]:
    """Dialogues of every named baseline with one half (`tuning`, `held-out`, `all`) of the scenarios, with the embedded user.

    Args:
        sets: of scenarios; by default the environment's first.
    """
    spec = load_environment(environment)
    loaded = [scenario for name in sets or (spec.set_of(None),) for scenario in spec.load(name)]
    ready = spec.make([scenario for scenario in loaded if half in ("all", half_of(scenario.id))], spec.players())

    async def go() -> list[Transcript]:
        return [
            await play(ready, one, Baseline(name), seed=dialogue_seed(seed, one, 0))
            for one in ready.scenario_ids
            for name in names
        ]

    return asyncio.run(go())


def baseline_of(dialogue: Transcript) -> str:
    """The baseline's name."""
    return dialogue.model.removeprefix("heartloop/")


def grouped(
    dialogues: Sequence[Transcript], groups: Callable[[Transcript], Iterable[str]], *, points: float = 1.0
) -> dict[str, dict[str, list[float]]]:
    """Scores by baseline and group of scenarios, times `points`; unscored dialogues are left out."""
    found: dict[str, dict[str, list[float]]] = {}
    for dialogue in dialogues:
        if dialogue.score is not None:
            for group in groups(dialogue):
                found.setdefault(baseline_of(dialogue), {}).setdefault(group, []).append(points * dialogue.score)
    return found


def means_of(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> Means:
    """The mean of each baseline and group."""
    return {name: {group: fmean(values) for group, values in mine.items()} for name, mine in scores.items()}


def by_group(scores: Mapping[str, Mapping[str, Sequence[float]]], columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """A table of means: the number of scenarios of each group, then a row per baseline."""
    means = means_of(scores)
    return [
        f"{'':12}" + "".join(f"{column:>10}" for column in columns),
        f"{'scenarios':12}" + "".join(f"{len(scores[names[0]][column]):10}" for column in columns),
        *(f"{name:12}" + "".join(f"{means[name][column]:10.1f}" for column in columns) for name in names),
    ]


def means_by_baseline(dialogues: Sequence[Transcript], values: Callable[[Transcript], Mapping[str, float]]) -> Means:
    """The mean of each value of a dialogue, by baseline."""
    rows: dict[str, list[Mapping[str, float]]] = {}
    for dialogue in dialogues:
        rows.setdefault(baseline_of(dialogue), []).append(values(dialogue))
    return {name: {column: fmean(row[column] for row in mine) for column in mine[0]} for name, mine in rows.items()}


def in_order(order: Mapping[str, Sequence[Sequence[str]]], means: Means) -> list[Claim]:
    """The claims that in each column every baseline of a group is above every one of the next."""
    return [
        Claim(f"{column}: {a} > {b}", means[a][column] > means[b][column])
        for column, ranks in order.items()
        for higher, lower in pairwise(ranks)
        for a in higher
        for b in lower
    ]


def verdicts(runs: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """By seed, how many claims of a record hold; and the claims that do not hold under every seed."""
    failed = sorted({text for run in runs for text, holds in run["claims"].items() if not holds})
    return [f"{sum(run['claims'].values())} of {len(run['claims'])}" for run in runs], failed


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
    committed: Path | None = None,
    page: Path | None = None,
    text: Callable[[Mapping[str, Any]], str] = str,
) -> None:
    """Reads the arguments, runs one round per seed, prints and records the results; exits 1 if a claim does not hold.

    Args:
        play: one round, from the arguments (including `half`) and a seed.
        more: adds arguments.
        committed: the record, NAME_held_out.json; where `--out` is this file, `text` of it goes into NAME's part of `page`.
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
        if page is not None and committed is not None and committed == arguments.out.resolve():
            rewrite(page, committed.stem.removesuffix("_held_out"), text(whole))
    sys.exit(1 if broken else 0)
