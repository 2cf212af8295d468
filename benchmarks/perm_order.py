"""In which order do PERM's embedded judges put the scripted supporters? `python -m benchmarks.perm_order --half held-out`

Plays the seven supporters on one half of the samples, under several seeds, and prints the reward, its parts, and which of the
claims of docs/decisions/0011 hold. Covers the embedded judges only; says nothing about language models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.machine import machine
from heartloop.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.perm import SETS, EmbeddedUser, Perm, load_scenarios
from heartloop.environments.perm.environment import JUDGES
from heartloop.environments.records import half_of
from heartloop.evaluation.settings import dialogue_seed
from heartloop.supporters import RANKED, Supporter

ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0011; within a group no order is claimed
    "reward": (("listener",), ("coach",), ("fixer", "template"), ("flatterer", "lecturer"), ("silent",)),
    "resonation": (("listener",), ("coach",), ("template", "lecturer", "flatterer"), ("silent",)),
    "expression": (("listener", "coach"), ("flatterer",), ("template", "lecturer", "silent")),
    "reception": (("listener",), ("coach",), ("fixer", "template", "flatterer"), ("lecturer",)),
    "bystander": (("listener", "coach", "fixer", "template", "lecturer"), ("flatterer",)),
}
COLUMNS = ("reward", *JUDGES, "alone")
"""`alone`: the reward with the bystander's weight at 0."""


class Claim(NamedTuple):
    """One sentence of the decision, and whether it held."""

    text: str
    holds: bool


Means = Mapping[str, Mapping[str, float]]
"""By supporter and column."""


def transcripts(half: str, seed: int) -> list[Transcript]:
    """Every supporter on one half (`tuning`, `held-out`, `all`) of the samples."""
    samples = [s for s in load_scenarios(SETS[0]) if half in ("all", half_of(s.id))]
    perm = Perm(samples, EmbeddedUser())

    async def go() -> list[Transcript]:
        return [await play(perm, s.id, Supporter(name), seed=dialogue_seed(seed, s.id, 0)) for s in samples for name in RANKED]

    return asyncio.run(go())


def means_of(played: Sequence[Transcript]) -> Means:
    """Mean reward and parts by supporter."""
    found: dict[str, dict[str, float]] = {}
    for name in RANKED:
        mine = [t for t in played if t.model == f"heartloop/{name}"]
        rows = [t.turns[0].evidence for t in mine]
        found[name] = {
            "reward": fmean(t.score for t in mine if t.score is not None),
            **{judge: fmean(row["scores"][judge] for row in rows) for judge in JUDGES},
            "alone": fmean(row["reward"]["empathy"] + row["reward"]["length"] for row in rows),
        }
    return found


def claims(means: Means) -> list[Claim]:
    """The claims of docs/decisions/0011 on these dialogues."""
    held: list[Claim] = []
    for column, ranks in ORDER.items():
        for higher, lower in pairwise(ranks):
            held += [Claim(f"{column}: {a} > {b}", means[a][column] > means[b][column]) for a in higher for b in lower]
    flatterer = means["flatterer"]
    highest = max(JUDGES[:3], key=lambda part: flatterer[part])
    held.append(Claim("flatterer: expression is the highest of its parts", highest == "expression"))
    for other in ("fixer", "template"):
        held.append(Claim(f"without the bystander flatterer > {other}", flatterer["alone"] > means[other]["alone"]))
    return held


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["tuning", "held-out", "all"], default="held-out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="write the tables as JSON, with the machine named")
    arguments = parser.parse_args()
    broken, record = 0, []
    for seed in arguments.seeds:
        started = time.perf_counter()
        played = transcripts(arguments.half, seed)
        seconds = time.perf_counter() - started
        means = means_of(played)
        held = claims(means)
        people = len(played) // len(RANKED)
        kept = f"{sum(claim.holds for claim in held)} of {len(held)} claims hold"
        print(f"\nseed {seed}, {arguments.half} half, {people} people; {kept}; {seconds:.0f} s")
        print(f"{'':10}" + "".join(f"{column:>12}" for column in COLUMNS))
        for name, row in means.items():
            print(f"{name:10}" + "".join(f"{row[column]:12.3f}" for column in COLUMNS))
        for claim in held:
            if not claim.holds:
                print("does not hold:", claim.text)
                broken += 1
        record.append(
            {
                "seed": seed,
                "people": people,
                "dialogues": len(played),
                "unscored": sum(not t.scored for t in played),
                "seconds": round(seconds, 1),
                "means": {name: {column: round(x, 4) for column, x in row.items()} for name, row in means.items()},
                "claims": {claim.text: claim.holds for claim in held},
            }
        )
    if arguments.out:
        whole = {**machine(), "half": arguments.half, "runs": record}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
