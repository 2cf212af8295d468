"""Order of the baselines by EMPA's embedded roles: `python -m benchmarks.empa_order --half held-out`

Plays the seven baselines on one half of the cases, under several seeds, and prints EPM-Q by dominant axis, the size and the
alignment of their steps, and which of the claims of docs/decisions/0009 hold. Covers the embedded roles only, not
language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.order import Claim, Round, measure, talks
from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import Empa, case_of
from heartloop.environments.empa.scenario import load_scenarios
from heartloop.environments.empa.scoring import AXES, trace
from heartloop.environments.records import half_of
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


def transcripts(half: str, seed: int, names: Sequence[str] = RANKED) -> list[Transcript]:
    """Dialogues of every named baseline with one half (`tuning`, `held-out`, `all`) of the cases."""
    cases = [s for s in load_scenarios() if half in ("all", half_of(s.id))]
    return talks(Empa(cases, EmbeddedUser()), seed, names)


def short(played: Transcript) -> str:
    """The baseline's name."""
    return played.model.removeprefix("heartloop/")


def scores(played: Sequence[Transcript]) -> dict[tuple[str, str], list[float]]:
    """EPM-Q by (dominant axis or "all", baseline)."""
    found: dict[tuple[str, str], list[float]] = {}
    for t in played:
        if t.score is not None:
            for group in ("all", t.facts["axis"]):
                found.setdefault((group, short(t)), []).append(t.score)
    return found


def steps(played: Sequence[Transcript]) -> dict[str, Steps]:
    """Size and alignment of each baseline's steps."""
    paths: dict[str, list[tuple[list[float], list[float]]]] = {}
    for t in played:
        path = trace(case_of(t), preset=t.preset)
        sizes: list[float] = np.linalg.norm(path.increment, axis=1).tolist()
        paths.setdefault(short(t), []).append((sizes, path.alignment.tolist()))
    return {
        name: Steps(fmean(x for sizes, _ in rows for x in sizes), fmean(x for _, cos in rows for x in cos))
        for name, rows in paths.items()
    }


def claims(found: dict[tuple[str, str], list[float]], did: dict[str, Steps]) -> list[Claim]:
    """The claims of docs/decisions/0009 on these dialogues."""
    means = {key: fmean(values) for key, values in found.items()}
    held: list[Claim] = []
    for group, ranks in ORDER.items():
        for higher, lower in pairwise(ranks):
            held += [Claim(f"{group}: {a} > {b}", means[group, a] > means[group, b]) for a in higher for b in lower]
    held.append(Claim("P: coach > fixer", means["P", "coach"] > means["P", "fixer"]))
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
    dialogues = transcripts(arguments.half, seed)
    found, did = scores(dialogues), steps(dialogues)
    people = {group: len(found[group, "listener"]) for group in ("all", *AXES)}
    table = [
        f"{'':12}" + "".join(f"{group:>9}" for group in people) + f"{'|v|':>9}{'cos':>9}",
        f"{'people':12}" + "".join(f"{n:9}" for n in people.values()),
    ]
    for name in RANKED:
        row = "".join(f"{fmean(found[group, name]):9.1f}" for group in people)
        table.append(f"{name:12}{row}{did[name].size:9.2f}{did[name].alignment:9.2f}")
    record = {
        "people": people,
        "dialogues": len(dialogues),
        "turns": sum(len(t.turns) for t in dialogues),
        "means": {f"{group}/{name}": round(fmean(values), 2) for (group, name), values in found.items()},
        "steps": {name: [round(x, 3) for x in step] for name, step in did.items()},
        "success": {name: sum(t.stop == "success" for t in dialogues if short(t) == name) for name in RANKED},
    }
    return Round(f"{people['all']} cases", table, claims(found, did), record)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played)


if __name__ == "__main__":
    main()
