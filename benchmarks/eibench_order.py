"""Order of the baselines by EIBench's embedded user: `python -m benchmarks.eibench_order --half held-out`

Plays every baseline on one half of the test scenarios, under several seeds, and prints mean outcomes (times 100) by
scene, intervals of first and last, and which of the claims of docs/decisions/0005 hold. Covers the embedded user only, not
language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from benchmarks.order import Claim, Round, measure, talks
from heartloop.core.dialogue import Transcript
from heartloop.environments.eibench.embedded_user import EmbeddedUser
from heartloop.environments.eibench.environment import EIBench
from heartloop.environments.eibench.scenario import SCENES, load_scenarios
from heartloop.environments.records import half_of
from heartloop.models.baselines import BASELINES
from heartloop.scoring.statistics import bootstrap_interval

NAMES = tuple(name for name in BASELINES if name != "garbage")
ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0005; within a group no order is claimed
    "support": (("listener", "coach"), ("template", "lecturer"), ("silent",)),
    "defense": (("diplomat",), ("listener",), ("pushover", "rigid"), ("silent",)),
    "repair": (("owner",), ("listener",), ("excuser", "template"), ("silent",)),
    "charm": (("light",), ("interviewer", "flatterer"), ("silent",)),
}


def transcripts(half: str, seed: int, names: Sequence[str] = NAMES) -> list[Transcript]:
    """Dialogues of every named baseline with one half (`tuning`, `held-out`, `all`) of the test set."""
    scenarios = [s for s in load_scenarios("test") if half in ("all", half_of(s.id))]
    return talks(EIBench(scenarios, EmbeddedUser()), seed, names)


def outcomes(played: Sequence[Transcript]) -> dict[tuple[str, str], list[float]]:
    """Outcomes times 100 by (scene, baseline)."""
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


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: mean outcomes by scene."""
    found = outcomes(transcripts(arguments.half, seed))
    people = {scene: len(found[scene, "listener"]) for scene in SCENES}
    table = [
        f"{'':12}" + "".join(f"{scene:>10}" for scene in SCENES),
        f"{'people':12}" + "".join(f"{people[scene]:10}" for scene in SCENES),
        *(f"{name:12}" + "".join(f"{fmean(found[scene, name]):10.1f}" for scene in SCENES) for name in NAMES),
    ]
    means = {f"{scene}/{name}": round(fmean(values), 2) for (scene, name), values in found.items()}
    return Round(f"{sum(people.values())} people", table, claims(found), {"people": people, "means": means})


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played)


if __name__ == "__main__":
    main()
