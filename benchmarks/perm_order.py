"""Order of the baselines by PERM's embedded judges: `python -m benchmarks.perm_order --half held-out`

Plays the seven baselines on one half of the samples, under several seeds, and prints the reward, its parts, and which of the
claims of docs/decisions/0011 hold. With `--out benchmarks/results/perm_order_held_out.json` the page of results is
rewritten. Covers the embedded judges only, not language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.order import Claim, Means, Round, by_baseline, in_order, means_by_baseline, measure, transcripts, verdicts
from benchmarks.page import DOCS
from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.environment import JUDGES
from heartloop.models.baselines import RANKED

ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0011; within a group no order is claimed
    "reward": (("listener",), ("coach",), ("fixer", "template"), ("flatterer", "lecturer"), ("silent",)),
    "resonation": (("listener",), ("coach",), ("template", "lecturer", "flatterer"), ("silent",)),
    "expression": (("listener", "coach"), ("flatterer",), ("template", "lecturer", "silent")),
    "reception": (("listener",), ("coach",), ("fixer", "template", "flatterer"), ("lecturer",)),
    "bystander": (("listener", "coach", "fixer", "template", "lecturer"), ("flatterer",)),
}
COLUMNS = ("reward", *JUDGES, "alone")
"""`alone`: the reward with the bystander's weight at 0."""


RESULTS = Path(__file__).parent / "results" / "perm_order_held_out.json"
PAGE = DOCS / "results" / "perm.md"


def values(dialogue: Transcript) -> dict[str, float]:
    """The reward, its parts, and the reward without the bystander."""
    evidence = dialogue.turns[0].evidence
    alone = evidence["reward"]["empathy"] + evidence["reward"]["length"]
    return {"reward": dialogue.score or 0.0, **{judge: evidence["scores"][judge] for judge in JUDGES}, "alone": alone}


def claims(means: Means) -> list[Claim]:
    """The claims of docs/decisions/0011 on these dialogues."""
    held = in_order(ORDER, means)
    flatterer = means["flatterer"]
    highest = max(JUDGES[:3], key=lambda part: flatterer[part])
    held.append(Claim("flatterer: expression is the highest of its parts", highest == "expression"))
    for other in ("fixer", "template"):
        held.append(Claim(f"without the bystander flatterer > {other}", flatterer["alone"] > means[other]["alone"]))
    return held


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: means by baseline."""
    dialogues = transcripts("perm", arguments.half, seed, RANKED)
    means = means_by_baseline(dialogues, values)
    return by_baseline(dialogues, means, claims(means), 3)


def table(results: Mapping[str, Any]) -> str:
    """The page's part: what held under each seed, and the means under the first."""
    runs = results["runs"]
    first = runs[0]
    held, failed = verdicts(runs)
    by_seed = ", ".join(f"{count} under seed {run['seed']}" for count, run in zip(held, runs, strict=True))
    told = f"{held[0]} under each of {len(runs)} seeds" if len(set(held)) == 1 else by_seed
    lines = [
        f"Means under preset `released`, {results['half']} half ({first['people']} of the 640 samples), seed {first['seed']}; "
        "`alone` is the reward with the bystander's weight at 0.",
        f"Of the comparisons that [decision 11](../decisions/0011-order-in-perm.md) claims hold {told}"
        + (f"; not: {'; '.join(failed)}." if failed else "."),
        f"({results['machine']}, Python {results['python']}; `benchmarks/results/{RESULTS.name}`.)",
        "",
        f"| | {' | '.join(COLUMNS)} |",
        "|:---|" + "---:|" * len(COLUMNS),
    ]
    digits = dict.fromkeys(COLUMNS, 2) | {"reward": 3, "alone": 3, "bystander": 1}
    for name, row in first["means"].items():
        lines.append(f"| {name} | {' | '.join(f'{row[column]:.{digits[column]}f}' for column in COLUMNS)} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played, committed=RESULTS, page=PAGE, text=table)


if __name__ == "__main__":
    main()
