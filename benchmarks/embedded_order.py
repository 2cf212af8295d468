"""Order of the baselines by SAGE's embedded user: `python -m benchmarks.embedded_order --half held-out`

Plays every baseline on one half of the shipped scenarios and prints mean final emotions overall and by
intention, the distribution of changes, and which of the claims of docs/decisions/0002 hold. Covers the embedded
user only, not language models.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from benchmarks.order import Claim, Round, measure, talks
from heartloop.core.dialogue import Transcript
from heartloop.environments.records import half_of
from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.models.baselines import GENERAL


def transcripts(sets: Sequence[str], half: str, seed: int, names: Sequence[str] = tuple(GENERAL)) -> list[Transcript]:
    """Dialogues of every named baseline with one half (`tuning`, `held-out`, `all`) of the sets."""
    scenarios = [s for name in sets for s in load_scenarios(name) if half in ("all", half_of(s.id))]
    return talks(Sage(scenarios, EmbeddedUser()), seed, names)


def means(played: Sequence[Transcript], fact: str = "family") -> dict[tuple[str, str], float]:
    """Mean final emotion by (baseline, value of a fact)."""
    groups: dict[tuple[str, str], list[float]] = {}
    for t in played:
        groups.setdefault((t.model.removeprefix("heartloop/"), t.facts[fact]), []).append(t.score or 0.0)
    return {key: fmean(values) for key, values in groups.items()}


def claims(played: Sequence[Transcript]) -> list[Claim]:
    """The inequalities of docs/decisions/0002 on these dialogues."""
    family, intention = means(played), means(played, "intention")

    def above(higher: Sequence[str], lower: Sequence[str], where: str) -> list[Claim]:
        table = intention if (higher[0], where) in intention else family
        return [Claim(f"{where}: {a} > {b}", table[a, where] > table[b, where]) for a in higher for b in lower]

    found: list[Claim] = []
    weak = ["template", "lecturer", "flatterer"]
    if ("listener", "support") in family:
        found += above(["listener", "coach"], ["fixer"], "support")
        found += above(["fixer"], [*weak, "garbage"], "support")
        found += above(weak, ["silent"], "support")
        found += above(["coach"], ["listener"], "advice")
        found += above(["listener"], ["coach"], "listen")
        found += above(["listener"], ["coach"], "empathy")
    if ("listener", "chat") in family:
        found += above(["listener", "coach"], weak, "chat")
        found += above(weak, ["silent"], "chat")
    return found


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: mean final emotions by set and intention, and the distribution of changes."""
    dialogues = transcripts(arguments.sets, arguments.half, seed)
    by_family, by_intention = means(dialogues), means(dialogues, "intention")
    columns = [*dict.fromkeys(k for _, k in by_family), *dict.fromkeys(k for _, k in by_intention)]
    changes = Counter(
        int(turn.change["emotion"]) for t in dialogues if t.model != "heartloop/garbage" for turn in t.turns if turn.change
    )
    total = sum(changes.values())
    table = [f"{'':10}" + "".join(f"{c[:9]:>10}" for c in columns)]
    table += [f"{name:10}" + "".join(f"{ {**by_family, **by_intention}[name, c]:10.1f}" for c in columns) for name in GENERAL]
    table.append("changes " + "  ".join(f"{change:+d} {n / total:.0%}" for change, n in sorted(changes.items())))
    record = {
        "means": {f"{a}/{b}": round(v, 2) for (a, b), v in {**by_family, **by_intention}.items()},
        "changes": dict(sorted(changes.items())),
    }
    return Round(f"{len(dialogues)} dialogues", table, claims(dialogues), record)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played, lambda parser: parser.add_argument("--sets", nargs="+", default=["support", "chat"]))


if __name__ == "__main__":
    main()
