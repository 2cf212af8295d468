"""Order of the baselines by daily's embedded judges: `python -m benchmarks.daily_order --half held-out`

Plays the seven baselines on one half of the instances, under several seeds, and prints the mean, the six metrics, and which of
the claims of docs/decisions/0012 hold. Covers the embedded judges only, not language models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.order import Claim, Means, Round, by_baseline, in_order, means_by_baseline, measure, transcripts, verdicts
from benchmarks.page import DOCS
from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.environment import JUDGES
from heartloop.environments.daily.scenario import SETS, load_scenarios
from heartloop.environments.daily.scoring import METRICS
from heartloop.models.baselines import RANKED

PAGE = DOCS / "results" / "daily.md"
RESULTS = Path(__file__).parent / "results" / "daily_order_held_out.json"
SPEAKERS = tuple(name for name in RANKED if name != "silent")

ORDER: dict[str, tuple[tuple[str, ...], ...]] = {  # docs/decisions/0012; within a group no order is claimed
    "mean": (("listener",), ("coach",), ("fixer", "template", "flatterer"), ("lecturer",), ("silent",)),
    "topic": (("listener", "coach"), ("fixer", "template", "flatterer", "lecturer"), ("silent",)),
    "value": (tuple(name for name in SPEAKERS if name != "lecturer"), ("lecturer",)),
    "colloquial": (("listener", "coach"), ("template", "lecturer")),
}
COLUMNS = ("mean", *JUDGES)


def values(dialogue: Transcript) -> dict[str, float]:
    """The mean of the six, and each metric."""
    return {"mean": dialogue.score or 0.0, **{judge: dialogue.turns[0].evidence["scores"][judge] for judge in JUDGES}}


def claims(means: Means) -> list[Claim]:
    """The claims of docs/decisions/0012 on these dialogues."""
    held = in_order(ORDER, means)
    held.append(Claim("colloquial: flatterer > lecturer", means["flatterer"]["colloquial"] > means["lecturer"]["colloquial"]))
    return held


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: means by baseline."""
    dialogues = transcripts("daily", arguments.half, seed, RANKED)
    means = means_by_baseline(dialogues, values)
    return by_baseline(dialogues, means, claims(means), 2)


def table(whole: Mapping[str, Any]) -> str:
    """The part of docs/results/daily.md that this program writes."""
    runs = whole["runs"]
    first = runs[0]
    held, broken = verdicts(runs)
    kept = [f"{count} (seed {run['seed']})" for count, run in zip(held, runs, strict=True)]
    heads = ("mean", *(METRICS[judge].lower() for judge in JUDGES))
    lines = [
        f"Means, {whole['half']} half ({first['people']} of the {len(load_scenarios(SETS[0]))} instances), seed {first['seed']}; "
        f"{whole['machine']}. Claims that hold: {', '.join(kept)}.",
        "",
        "| | " + " | ".join(heads) + " |",
        "|:---|" + "---:|" * len(heads),
        *(f"| {name} | " + " | ".join(f"{row[column]:.2f}" for column in COLUMNS) + " |" for name, row in first["means"].items()),
    ]
    lines += ["", "Do not hold under every seed: " + "; ".join(broken) + "."] if broken else []
    return "\n".join(lines)


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played, committed=RESULTS, page=PAGE, text=table)


if __name__ == "__main__":
    main()
