"""What the programmes that ask for the order of the scripted supporters have in common: arguments, seeds, claims, the record.

Covers one round a seed and what is kept of it. Does not cover which claims there are (each `*_order.py`, from its decision).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine

__all__ = ["Claim", "Round", "measure"]


class Claim(NamedTuple):
    """One sentence of a decision, and whether it held."""

    text: str
    holds: bool


class Round(NamedTuple):
    """What one seed came to."""

    played: str
    """How many were played, in words."""
    table: Sequence[str]
    claims: Sequence[Claim]
    record: Mapping[str, Any]
    """What is kept of it besides seed, seconds and claims."""


def measure(
    description: str | None,
    play: Callable[[argparse.Namespace, int], Round],
    more: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    kept: Callable[[Path], object] = lambda path: None,
) -> None:
    """Reads the arguments, plays a round a seed, prints and keeps what was found; exits 1 if a claim does not hold.

    Args:
        play: one round, from the arguments (`half` among them) and a seed.
        more: adds arguments of its own.
        kept: called with the file of `--out` once it is written, for a page that shows it.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["tuning", "held-out", "all"], default="held-out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="write the tables as JSON, with the machine named")
    more(parser)
    arguments = parser.parse_args()
    broken, record = 0, []
    for seed in arguments.seeds:
        started = time.perf_counter()
        found = play(arguments, seed)
        seconds = time.perf_counter() - started
        holding = f"{sum(claim.holds for claim in found.claims)} of {len(found.claims)} claims hold"
        print(f"\nseed {seed}, {arguments.half} half, {found.played}; {holding}; {seconds:.0f} s")
        print("\n".join(found.table))
        for claim in found.claims:
            if not claim.holds:
                print("does not hold:", claim.text)
                broken += 1
        claims = {claim.text: claim.holds for claim in found.claims}
        record.append({"seed": seed, **found.record, "seconds": round(seconds, 1), "claims": claims})
    if arguments.out:
        whole = {**machine(), "half": arguments.half, "runs": record}
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        kept(arguments.out)
    sys.exit(1 if broken else 0)
