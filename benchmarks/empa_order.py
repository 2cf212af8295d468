"""Order of the baselines by EMPA's embedded roles: `python -m benchmarks.empa_order --half held-out`

Plays the seven baselines on one half of the cases, under several seeds, and prints EPM-Q by dominant axis, the size and the
alignment of their steps, and which of the claims of docs/decisions/0009 hold. Covers the embedded roles only, not
language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.order import Claim, Means, Round, baseline_of, by_group, grouped, in_order, means_of, measure, transcripts
from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.scoring import AXES, trace
from heartloop.models.baselines import RANKED

LOW = ("template", "lecturer", "flatterer", "silent")
ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0009; within a group no order is claimed
    "all": (("listener", "coach"), ("fixer",), LOW),
    "C": (("listener",), ("fixer",), LOW),
    "A": (("listener",), ("coach", "fixer"), LOW),
    "P": (("coach",), ("listener",), LOW),
}


class Steps(NamedTuple):
    """A baseline's mean |v| and mean alignment over all windows."""

    size: float
    alignment: float


def steps(played: Sequence[Transcript]) -> dict[str, Steps]:
    """Size and alignment of each baseline's steps."""
    paths: dict[str, list[tuple[list[float], list[float]]]] = {}
    for t in played:
        path = trace(judged_dialogue(t), preset=t.preset)
        sizes: list[float] = np.linalg.norm(path.increment, axis=1).tolist()
        paths.setdefault(baseline_of(t), []).append((sizes, path.alignment.tolist()))
    return {
        name: Steps(fmean(x for sizes, _ in rows for x in sizes), fmean(x for _, cos in rows for x in cos))
        for name, rows in paths.items()
    }


def claims(means: Means, did: Mapping[str, Steps]) -> list[Claim]:
    """The claims of docs/decisions/0009 on these dialogues."""
    held = in_order(ORDER, means)
    held.append(Claim("P: coach > fixer", means["coach"]["P"] > means["fixer"]["P"]))
    best = max(did["listener"].size, did["coach"].size)
    good = min(did[name].alignment for name in ("listener", "coach", "fixer"))
    for name in ("flatterer", "template"):
        held.append(Claim(f"{name} steps further than silent", did[name].size > did["silent"].size))
        held.append(Claim(f"{name} steps at least two thirds as far as the best", did[name].size >= 2 / 3 * best))
        held.append(Claim(f"{name} steps away, more than listener, coach and fixer", did[name].alignment < min(0.0, good)))
    aligned = {name for name, step in did.items() if step.alignment > 0.3}
    held.append(Claim("only listener and coach are aligned above 0.3", aligned == {"listener", "coach"}))
    return held


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: EPM-Q by dominant axis, and the steps."""
    dialogues = transcripts("empa", arguments.half, seed, RANKED)
    scores, did = grouped(dialogues, lambda t: ("all", t.facts["axis"])), steps(dialogues)
    head, counts, *rows = by_group(scores, ("all", *AXES), RANKED)
    table = [f"{head}{'|v|':>9}{'cos':>9}", counts]
    table += [f"{row}{did[name].size:9.2f}{did[name].alignment:9.2f}" for name, row in zip(RANKED, rows, strict=True)]
    means = means_of(scores)
    record = {
        "people": {group: len(values) for group, values in scores["listener"].items()},
        "dialogues": len(dialogues),
        "turns": sum(len(t.turns) for t in dialogues),
        "means": {f"{group}/{name}": round(mean, 2) for name, mine in means.items() for group, mean in mine.items()},
        "steps": {name: [round(x, 3) for x in step] for name, step in did.items()},
        "success": {name: sum(t.stop == "success" for t in dialogues if baseline_of(t) == name) for name in RANKED},
    }
    return Round(f"{len(scores['listener']['all'])} cases", table, claims(means, did), record)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played)


if __name__ == "__main__":
    main()
