"""Order of the baselines by SAGE's embedded user: `python -m benchmarks.embedded_order --half held-out`

Plays every baseline on one half of the shipped scenarios and prints mean final emotions overall and by
intention, the distribution of changes, and which of the claims of docs/decisions/0002 hold. Covers the embedded
user only, not language models.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from benchmarks.order import Claim, Means, Round, grouped, means_of, measure, transcripts
from heartloop.core.dialogue import Transcript
from heartloop.models.baselines import GENERAL


def means(played: Sequence[Transcript]) -> Means:
    """Mean final emotion by baseline and set, and by baseline and intention."""
    return means_of(grouped(played, lambda t: (t.facts["family"], t.facts["intention"])))


def claims(means: Means) -> list[Claim]:
    """The inequalities of docs/decisions/0002 on these means."""

    def above(higher: Sequence[str], lower: Sequence[str], where: str) -> list[Claim]:
        return [Claim(f"{where}: {a} > {b}", means[a][where] > means[b][where]) for a in higher for b in lower]

    found: list[Claim] = []
    weak = ["template", "lecturer", "flatterer"]
    if "support" in means["listener"]:
        found += above(["listener", "coach"], ["fixer"], "support")
        found += above(["fixer"], [*weak, "garbage"], "support")
        found += above(weak, ["silent"], "support")
        found += above(["coach"], ["listener"], "advice")
        found += above(["listener"], ["coach"], "listen")
        found += above(["listener"], ["coach"], "empathy")
    if "chat" in means["listener"]:
        found += above(["listener", "coach"], weak, "chat")
        found += above(weak, ["silent"], "chat")
    return found


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: mean final emotions by set and intention, and the distribution of changes."""
    dialogues = transcripts("sage", arguments.half, seed, tuple(GENERAL), sets=arguments.sets)
    by_group = means(dialogues)
    columns = list(dict.fromkeys(t.facts[name] for name in ("family", "intention") for t in dialogues))
    changes = Counter(
        int(turn.change["emotion"]) for t in dialogues if t.model != "heartloop/garbage" for turn in t.turns if turn.change
    )
    total = sum(changes.values())
    table = [f"{'':10}" + "".join(f"{c[:9]:>10}" for c in columns)]
    table += [f"{name:10}" + "".join(f"{by_group[name][c]:10.1f}" for c in columns) for name in GENERAL]
    table.append("changes " + "  ".join(f"{change:+d} {n / total:.0%}" for change, n in sorted(changes.items())))
    record = {
        "means": {f"{name}/{c}": round(by_group[name][c], 2) for c in columns for name in GENERAL},
        "changes": dict(sorted(changes.items())),
    }
    return Round(f"{len(dialogues)} dialogues", table, claims(by_group), record)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played, lambda parser: parser.add_argument("--sets", nargs="+", default=["support", "chat"]))


if __name__ == "__main__":
    main()
