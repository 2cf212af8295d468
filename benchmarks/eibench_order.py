"""Order of the baselines by EIBench's embedded user: `python -m benchmarks.eibench_order --half held-out`

Plays every baseline on one half of the test scenarios, under several seeds, and prints mean outcomes (times 100) by
scene, intervals of first and last, and which of the claims of docs/decisions/0005 hold. Covers the embedded user only, not
language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from benchmarks.order import Claim, Round, by_group, grouped, in_order, means_of, measure, transcripts
from heartloop.environments.eibench.scenario import SCENES
from heartloop.models.baselines import BASELINES
from heartloop.scoring.statistics import bootstrap_interval

NAMES = tuple(name for name in BASELINES if name != "garbage")
ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0005; within a group no order is claimed
    "support": (("listener", "coach"), ("template", "lecturer"), ("silent",)),
    "defense": (("diplomat",), ("listener",), ("pushover", "rigid"), ("silent",)),
    "repair": (("owner",), ("listener",), ("excuser", "template"), ("silent",)),
    "charm": (("light",), ("interviewer", "flatterer"), ("silent",)),
}


def claims(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Claim]:
    """The claims of docs/decisions/0005 on these outcomes."""
    means = means_of(scores)
    held = in_order(ORDER, means)
    best: dict[str, float] = {}
    for scene in SCENES:
        ranked = sorted(means, key=lambda name: means[name][scene])
        last, first = (bootstrap_interval(scores[name][scene]) for name in (ranked[0], ranked[-1]))
        held.append(Claim(f"{scene}: the intervals of {ranked[-1]} and {ranked[0]} lie apart", first.low > last.high))
        best[scene] = means[ranked[-1]][scene]
    held.append(Claim("defense is the hardest scene", min(best, key=lambda scene: best[scene]) == "defense"))
    return held


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: mean outcomes by scene."""
    scores = grouped(transcripts("eibench", arguments.half, seed, NAMES), lambda t: (t.facts["scene"],), points=100.0)
    people = {scene: len(values) for scene, values in scores["listener"].items()}
    means = {f"{scene}/{name}": round(mean, 2) for name, mine in means_of(scores).items() for scene, mean in mine.items()}
    record = {"people": people, "means": means}
    return Round(f"{sum(people.values())} scenarios", by_group(scores, SCENES, NAMES), claims(scores), record)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played)


if __name__ == "__main__":
    main()
