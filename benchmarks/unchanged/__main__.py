"""Records or compares; exits with 1 where something differs."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks import unchanged
from benchmarks.unchanged.items import ENVIRONMENTS, QUICK, Recorder
from benchmarks.unchanged.reference import REFERENCE, Items, differences, report, write_reference


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.unchanged", description=unchanged.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("--dump", type=Path, help="directory for the canonical JSON of every item")
    parser.add_argument("--only", choices=ENVIRONMENTS, help="one environment")
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK} items of a kind and environment")
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    arguments = parser.parse_args()
    if arguments.what == "record" and (arguments.only or arguments.quick):
        parser.error("--only and --quick are for compare: a reference holds every item")
    started = time.perf_counter()
    items = Items(arguments.dump, QUICK if arguments.quick else None)
    asyncio.run(Recorder(items, arguments.only).everything())
    kinds = Counter(key.split("/")[0] for key in items.hashes)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    print(f"{len(items.hashes)} items ({counts}); {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if arguments.what == "record":
        if items.raised:
            sys.exit(f"nothing is recorded: {len(items.raised)} items could not be made, such as {items.raised[0]}")
        write_reference(items, arguments.reference)
        return
    differ = differences(arguments.reference, items, only=arguments.only, quick=arguments.quick)
    for line in report(differ):
        print(line)
    print(f"{len(differ)} of {len(items.hashes)} items differ" if differ else "PASS")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
