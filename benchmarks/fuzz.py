"""A hundred thousand generated inputs for the parsers: `python -m benchmarks.fuzz`

The parsers, their inputs and what must hold stand in `tests/fuzzing.py`; the test suite tries a few hundred of the same.
Prints what came of the inputs: values and errors by name. Exits with 1 at the first input that breaks a property, and shows
it as small as hypothesis could make it. Takes about six minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from benchmarks.programme import RESULTS, table, write
from tests.fuzzing import PARSERS


def outcomes(name: str, examples: int, number: int) -> Counter[str]:
    """What came of so many inputs of a parser, by name."""
    parser = next(one for one in PARSERS if one.name == name)
    found: Counter[str] = Counter()

    @seed(number)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(parser.inputs)
    def tried(given_: Any) -> None:
        found[parser.read(given_)] += 1

    tried()
    return found


def main() -> None:
    """Tries every parser and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--only", help="one parser, by name; replaces its line in the results")
    parser.add_argument("--out", type=Path, default=RESULTS / "fuzz.json")
    arguments = parser.parse_args()
    chosen = [one for one in PARSERS if arguments.only in (None, one.name)]
    weights = sum(one.weight for one in PARSERS)
    started = time.monotonic()
    results: dict[str, Counter[str]] = {}
    broken: list[str] = []
    # spawned, not forked: each process writes its files into a folder of its own
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        order = sorted(chosen, key=lambda one: -one.weight)
        shares = {one.name: -(-arguments.inputs * one.weight // weights) for one in order}
        running = {name: pool.submit(outcomes, name, share, arguments.seed) for name, share in shares.items()}
        for one in chosen:
            try:
                results[one.name] = running[one.name].result()
            except Exception:
                traceback.print_exc()
                broken.append(one.name)
                continue
            print(f"{one.name}: {dict(results[one.name])}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    total = sum(counts.total() for counts in results.values())
    rows = []
    for name, counts in results.items():
        values = sum(n for kind, n in counts.items() if kind[0].islower())
        rows.append(
            [name, counts.total(), values, counts.total() - values, ", ".join(sorted(k for k in counts if k[0].isupper()))]
        )
    print(table(["parser", "inputs", "values", "our errors", "which"], rows))
    print(f"\n{total} inputs, {len(broken)} parsers broken, {time.monotonic() - started:.0f} s")
    if arguments.only is not None and arguments.out.exists():  # takes the place of what was there for this parser
        before = json.loads(arguments.out.read_text(encoding="utf-8"))
        results = {one.name: results.get(one.name) or Counter(before["parsers"].get(one.name, {})) for one in PARSERS}
        broken = sorted({*before["broken"], *broken} - {arguments.only if not broken else ""})
        total = sum(counts.total() for counts in results.values())
    write(arguments.out, {"inputs": total, "seed": arguments.seed, "broken": broken, "parsers": results})
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
