"""Order of the baselines by PERM's embedded judges: `python -m benchmarks.perm_order --half held-out`

Plays the seven baselines on one half of the samples, under several seeds, and prints the reward, its parts, and which of the
claims of docs/decisions/0011 hold. With `--out benchmarks/results/perm_order_held_out.json` the page of results is
rewritten. Covers the embedded judges only, not language models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.order import Claim, Means, Round, by_baseline, in_order, measure, talks
from benchmarks.page import DOCS, rewrite
from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.embedded_user import EmbeddedUser
from heartloop.environments.perm.environment import JUDGES, Perm
from heartloop.environments.perm.scenario import SETS, load_scenarios
from heartloop.environments.records import half_of
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


def transcripts(half: str, seed: int) -> list[Transcript]:
    """Dialogues of every baseline with one half (`tuning`, `held-out`, `all`) of the samples."""
    samples = [s for s in load_scenarios(SETS[0]) if half in ("all", half_of(s.id))]
    return talks(Perm(samples, EmbeddedUser()), seed, RANKED)


def means_of(played: Sequence[Transcript]) -> Means:
    """Mean reward and parts by baseline."""
    found: dict[str, dict[str, float]] = {}
    for name in RANKED:
        mine = [t for t in played if t.model == f"heartloop/{name}"]
        rows = [t.turns[0].evidence for t in mine]
        found[name] = {
            "reward": fmean(t.score for t in mine if t.score is not None),
            **{judge: fmean(row["scores"][judge] for row in rows) for judge in JUDGES},
            "alone": fmean(row["reward"]["empathy"] + row["reward"]["length"] for row in rows),
        }
    return found


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
    dialogues = transcripts(arguments.half, seed)
    means = means_of(dialogues)
    return by_baseline(dialogues, means, claims(means), 3)


def table(results: Mapping[str, Any]) -> str:
    """The page's part: what held under each seed, and the means under the first."""
    runs = results["runs"]
    held = [f"{sum(run['claims'].values())} of {len(run['claims'])} under seed {run['seed']}" for run in runs]
    failed = sorted({claim for run in runs for claim, holds in run["claims"].items() if not holds})
    first = runs[0]
    same = len({one.partition(" under ")[0] for one in held}) == 1
    told = f"{held[0].partition(' under ')[0]} under each of {len(runs)} seeds" if same else ", ".join(held)
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


def _rewritten(out: Path) -> None:
    """The page, where the numbers went to their place."""
    if out.resolve() == RESULTS:
        rewrite(PAGE, "perm_order", table(json.loads(out.read_text(encoding="utf-8"))))


def main() -> None:
    """Prints the tables; exits 1 if a claim does not hold."""
    measure(__doc__, played, written=_rewritten)


if __name__ == "__main__":
    main()
