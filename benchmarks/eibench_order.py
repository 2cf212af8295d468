"""In which order does EIBench's embedded user put the scripted supporters? `python -m benchmarks.eibench_order --half held-out`

Plays every scripted supporter on one half of the test scenarios, under several seeds, and prints mean outcomes (times 100) by
scene, intervals of first and last, and which of the claims of docs/decisions/0005 hold. Covers the embedded user only; says
nothing about language models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.machine import machine
from heartloop.dialogue import Transcript
from heartloop.environments.eibench import SCENES, EIBench, EmbeddedUser, load_scenarios
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.evaluation.settings import dialogue_seed
from heartloop.scoring.statistics import bootstrap_interval
from heartloop.supporters import SUPPORTERS, Supporter

NAMES = tuple(name for name in SUPPORTERS if name != "garbage")
ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0005; within a group no order is claimed
    "support": (("listener", "coach"), ("template", "lecturer"), ("silent",)),
    "defense": (("diplomat",), ("listener",), ("pushover", "rigid"), ("silent",)),
    "repair": (("owner",), ("listener",), ("excuser", "template"), ("silent",)),
    "charm": (("light",), ("interviewer", "flatterer"), ("silent",)),
}


class Claim(NamedTuple):
    """One sentence of the decision, and whether it held."""

    text: str
    holds: bool


def transcripts(half: str, seed: int, names: Sequence[str] = NAMES) -> list[Transcript]:
    """Every named supporter on one half (`tuning`, `held-out`, `all`) of the test set."""
    scenarios = [s for s in load_scenarios("test") if half in ("all", half_of(s.id))]
    bench = EIBench(scenarios, EmbeddedUser())

    async def go() -> list[Transcript]:
        return [await play(bench, s.id, Supporter(name), seed=dialogue_seed(seed, s.id, 0)) for s in scenarios for name in names]

    return asyncio.run(go())


def outcomes(played: Sequence[Transcript]) -> dict[tuple[str, str], list[float]]:
    """Outcomes times 100 by (scene, supporter)."""
    found: dict[tuple[str, str], list[float]] = {}
    for t in played:
        if t.score is not None:
            found.setdefault((t.facts["scene"], t.model.removeprefix("heartloop/")), []).append(100.0 * t.score)
    return found


def claims(found: dict[tuple[str, str], list[float]]) -> list[Claim]:
    """The claims of docs/decisions/0005 on these outcomes."""
    means = {key: fmean(values) for key, values in found.items()}
    held: list[Claim] = []
    for scene, groups in ORDER.items():
        for higher, lower in pairwise(groups):
            held += [Claim(f"{scene}: {a} > {b}", means[scene, a] > means[scene, b]) for a in higher for b in lower]
        ranked = sorted((name for s, name in means if s == scene), key=lambda name: means[scene, name])
        last, first = (bootstrap_interval(found[scene, name]) for name in (ranked[0], ranked[-1]))
        held.append(Claim(f"{scene}: the intervals of {ranked[-1]} and {ranked[0]} lie apart", first.low > last.high))
    best = {scene: max(means[s, name] for s, name in means if s == scene) for scene in SCENES}
    held.append(Claim("defense is the hardest scene", min(best, key=lambda scene: best[scene]) == "defense"))
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
        found = outcomes(transcripts(arguments.half, seed))
        held = claims(found)
        people = {scene: len(found[scene, "listener"]) for scene in SCENES}
        print(f"\nseed {seed}, {arguments.half} half; {sum(c.holds for c in held)} of {len(held)} claims hold")
        print(f"{'':12}" + "".join(f"{scene:>10}" for scene in SCENES))
        print(f"{'people':12}" + "".join(f"{people[scene]:10}" for scene in SCENES))
        for name in NAMES:
            print(f"{name:12}" + "".join(f"{fmean(found[scene, name]):10.1f}" for scene in SCENES))
        for claim in held:
            if not claim.holds:
                print("does not hold:", claim.text)
                broken += 1
        means = {f"{scene}/{name}": round(fmean(values), 2) for (scene, name), values in found.items()}
        record.append({"seed": seed, "people": people, "means": means, "claims": {c.text: c.holds for c in held}})
    if arguments.out:
        whole = {**machine(), "half": arguments.half, "runs": record}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
