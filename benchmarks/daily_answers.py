"""Do daily's embedded judges tell good answers from bad ones? `python -m benchmarks.daily_answers --write`

The writers of the instances wrote answers to them: two or three good ones of different kinds for each, and a bad one for most.
Prints mean levels by half. They were written while the cues were, to try them, so this says that the rules do what they are meant
to, and nothing of answers by others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from heartloop.environments.daily.embedded_user import level
from heartloop.environments.daily.environment import JUDGES, View
from heartloop.environments.daily.scenario import SETS, load_scenarios
from heartloop.environments.daily.scoring import METRICS, average
from heartloop.environments.records import half_of

PAGE = DOCS / "results" / "daily.md"
RESULTS = Path(__file__).parent / "results" / "daily_answers.json"
ANSWERS = Path(__file__).parents[1] / "tests" / "data" / "daily_answers.jsonl"


def measured() -> dict[str, Any]:
    """Mean levels of the answers by half and kind, with how many there are."""
    people = {s.id: s for s in load_scenarios(SETS[0])}
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    found: dict[str, Any] = {}
    for half in ("tuning", "held-out"):
        for kind in ("good", "bad"):
            mine = [row for row in rows if row["kind"] == kind and half_of(row["id"]) == half]
            graded = [{judge: level(judge, View(people[row["id"]], row["answer"], 0)).score for judge in JUDGES} for row in mine]
            found[f"{kind}, {half}"] = {
                "answers": len(graded),
                "mean": round(fmean(map(average, graded)), 4),
                **{judge: round(fmean(levels[judge] for levels in graded), 4) for judge in JUDGES},
            }
    return found


def table(whole: Mapping[str, Any]) -> str:
    """The part of the page that this program writes."""
    lines = [
        "| answers | n | mean | " + " | ".join(METRICS[judge].lower() for judge in JUDGES) + " |",
        "|:---|" + "---:|" * (2 + len(JUDGES)),
    ]
    for name, row in whole["answers"].items():
        levels = " | ".join(f"{row[judge]:.2f}" for judge in JUDGES)
        lines.append(f"| {name} | {row['answers']} | {row['mean']:.2f} | {levels} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table; `--write` keeps it, and puts it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the record and the page")
    arguments = parser.parse_args()
    whole = {**machine(), "answers": measured()}
    print(table(whole))
    if arguments.write:
        RESULTS.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        rewrite(PAGE, "daily_answers", table(whole))


if __name__ == "__main__":
    main()
