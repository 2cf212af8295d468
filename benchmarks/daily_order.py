"""Order of the baselines by daily's embedded judges: `python -m benchmarks.daily_order --half held-out`

Plays the seven baselines on one half of the instances, under several seeds, and prints the mean, the six metrics, and which of
the claims of docs/decisions/0012 hold. Covers the embedded judges only, not language models.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.order import Claim, Means, Round, by_baseline, in_order, measure, talks
from benchmarks.page import DOCS, rewrite
from heartloop.core.dialogue import Transcript
from heartloop.environments.daily.embedded_user import EmbeddedUser
from heartloop.environments.daily.environment import JUDGES, Daily
from heartloop.environments.daily.scenario import SETS, load_scenarios
from heartloop.environments.daily.scoring import METRICS
from heartloop.environments.records import half_of
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


def transcripts(half: str, seed: int) -> list[Transcript]:
    """Dialogues of every baseline with one half (`tuning`, `held-out`, `all`) of the instances."""
    instances = [s for s in load_scenarios(SETS[0]) if half in ("all", half_of(s.id))]
    return talks(Daily(instances, EmbeddedUser()), seed, RANKED)


def means_of(played: Sequence[Transcript]) -> Means:
    """The mean of the six and each metric, by baseline."""
    found: dict[str, dict[str, float]] = {}
    for name in RANKED:
        mine = [t for t in played if t.model == f"heartloop/{name}"]
        found[name] = {
            "mean": fmean(t.score for t in mine if t.score is not None),
            **{judge: fmean(t.turns[0].evidence["scores"][judge] for t in mine) for judge in JUDGES},
        }
    return found


def claims(means: Means) -> list[Claim]:
    """The claims of docs/decisions/0012 on these dialogues."""
    held = in_order(ORDER, means)
    held.append(Claim("colloquial: flatterer > lecturer", means["flatterer"]["colloquial"] > means["lecturer"]["colloquial"]))
    return held


def played(arguments: argparse.Namespace, seed: int) -> Round:
    """One seed: means by baseline."""
    dialogues = transcripts(arguments.half, seed)
    means = means_of(dialogues)
    return by_baseline(dialogues, means, claims(means), 2)


def table(whole: Mapping[str, Any]) -> str:
    """The part of docs/results/daily.md that this program writes."""
    runs = whole["runs"]
    first = runs[0]
    kept = [f"{sum(run['claims'].values())} of {len(run['claims'])} (seed {run['seed']})" for run in runs]
    broken = sorted({text for run in runs for text, holds in run["claims"].items() if not holds})
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
    """Prints the tables; exits 1 if a claim does not hold. `--write` instead puts the committed record into the page."""
    if "--write" in sys.argv[1:]:
        rewrite(PAGE, "daily_order", table(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    measure(__doc__, played)


if __name__ == "__main__":
    main()
