"""Attacks on the embedded user: `python -m benchmarks.gate [--budget small|large] [--environment NAME ...] [--out FILE]`

In every environment with a learned reader: the order of the tiers, a search for texts that score like good replies, policies that
should not score above middling ones, the floors, paraphrases. Only the tuning part of data/judged_replies is read; dialogues are
played on the held-out half of the scenarios. The same weights give the same results. Each finished part is kept in a file beside
the results (`NAME.parts.jsonl`) until all are done, so that the same command resumes; parts of other weights are made anew.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from benchmarks.gate.jobs import BUDGETS, run
from benchmarks.gate.page import table
from benchmarks.gate.target import environments
from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite

RESULTS = Path(__file__).parents[1] / "results" / "gate.json"
SMALL = RESULTS.with_name("gate_small.json")
PAGE = PAGES / "gate.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", choices=list(BUDGETS), default="large")
    parser.add_argument("--environment", nargs="+", choices=environments(), default=environments())
    parser.add_argument("--out", type=Path, help="default with all environments: the committed results of this budget")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    whole = chosen.environment == environments()
    out = chosen.out or ({"large": RESULTS, "small": SMALL}[chosen.budget] if whole else None)
    parts = out.with_suffix(".parts.jsonl") if out is not None else None
    started = time.perf_counter()
    results = run(BUDGETS[chosen.budget], chosen.environment, parts, processes=chosen.processes, say=print)
    results = {**machine(), "seconds": round(time.perf_counter() - started), **results}
    print(table(results))
    if out is not None and parts is not None:
        out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        parts.unlink(missing_ok=True)
        if out.resolve() == RESULTS:
            rewrite(PAGE, "gate/__main__", table(results))


if __name__ == "__main__":
    main()
