"""Writes the committed results of the four fault programmes into their page: `python -m benchmarks.fault_page`"""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.page import PAGES, rewrite
from benchmarks.programme import RESULTS, table

__all__ = ["PAGE", "parts"]

PAGE = PAGES / "faults.md"

_OUTCOMES = ("retried", "re-asked", "valid", "unscored", "final message")


def _checks(found: dict[str, Any]) -> str:
    return "\n\n" + "\n".join(f"- {'PASS' if passed else '**FAIL**'}: {check}." for check, passed in found["checks"].items())


def parts() -> dict[str, str]:
    """By programme, its part of the page."""
    faults, kills, fuzz, canary = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in ("faults", "kills", "fuzz", "canary")
    )
    rows = [[fault, one["met"], *(one.get(outcome) or "" for outcome in _OUTCOMES)] for fault, one in faults["faults"].items()]
    sums = [sum(one.get(outcome, 0) for one in faults["faults"].values()) for outcome in _OUTCOMES]
    calm = faults["faultless"]
    fuzzed = []
    for name, counts in fuzz["parsers"].items():
        values = sum(number for kind, number in counts.items() if kind[0].islower())
        kinds = ", ".join(sorted(kind for kind in counts if kind[0].isupper()))
        fuzzed.append([name, sum(counts.values()), values, sum(counts.values()) - values, kinds])
    return {
        "faults": f"Measured on {faults['machine']}, client and server: {faults['calls']} calls, {faults['faulty']} of them "
        f"faulty; {faults['dialogues']} dialogues, {faults['unscored']} unscored; {faults['seconds']} s and at most "
        f"{faults['peak MB']} MB, without faults {calm['calls']} calls, {calm['seconds']} s and {calm['peak MB']} MB. "
        "Other programs ran on the machine.\n\n"
        + table(["fault", "calls", *_OUTCOMES], [*rows, ["all", faults["faulty"], *sums]])
        + _checks(faults),
        "kills": f"Measured on {kills['machine']}: {kills['kills']} kills of a run of {kills['dialogues']} dialogues; torn lines "
        f"and files made on purpose {sum(kills['torn'].values())} times.\n\n"
        + table(["killed while", "times"], list(kills["moments"].items()))
        + _checks(kills),
        "fuzz": f"Measured on {fuzz['machine']}: {fuzz['inputs']} inputs, {len(fuzz['broken'])} parsers broken.\n\n"
        + table(["parser", "inputs", "values", "our errors", "which"], fuzzed),
        "canary": f"Measured on {canary['machine']}: {canary['runs']} runs, {canary['files']} files searched, "
        f"{canary['runs with traces']} runs with a trace of the key.",
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name, text in parts().items():
        rewrite(PAGE, name, text)
