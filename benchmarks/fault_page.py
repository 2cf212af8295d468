"""Writes `docs/results/faults.md` from the committed results: `python benchmarks/fault_page.py`

The page holds numbers of the four fault programmes only as their JSON files have them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.programme import RESULTS, table

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "results" / "faults.md"

_OUTCOMES = ("retried", "re-asked", "valid", "unscored", "final message")
_HEAD = """# Fault tolerance

Four programmes, each repeatable with one command and without network (extra `dev`: `pip install -e ".[dev]"`). The numbers are
those of the JSON files in `benchmarks/results/`; `python benchmarks/fault_page.py` writes this page from them.
"""
_CALLS = """## 10,000 calls with faults

`python benchmarks/faults.py` plays whole dialogues with `heartloop eval` against a local server whose faults are drawn from a
seed. About three calls in ten are faulty. The person's emotion follows from the seed of the request alone, so the right score
of every dialogue is computed beforehand, and each scored dialogue is compared with it, emotion by emotion.

Outcomes of a fault: *retried*, the same request was sent again. *Re-asked*, the question was sent again with the error in the
answer. *Valid*, the answer was accepted all the same. *Unscored*, the dialogue ended; its cause is named, and it enters no
mean. *Final message*, only a message after the last measurement was lost.
"""
_KILLS = """## 100 kills

`python benchmarks/kills.py` starts one run repeatedly and ends each process with SIGKILL at a random moment. Some kills leave
torn lines and files; some happen while a second process opens the same directory. At the end transcripts, scores and settings
are compared with those of an uninterrupted run.
"""
_FUZZ = """## 100,000 generated inputs

`python benchmarks/fuzz.py` gives generated inputs to every parser of external data: valid, mutated and broken ones. Each parser
returns a value that contains nothing invented, or raises one of our own errors, and never another exception. `make test` tries
some hundred of the same inputs.
"""
_CANARY = """## The API key

`python benchmarks/canary.py` runs `heartloop eval` with a canary as its key through every fault of the server. The server
repeats the key wherever it can: in answers, errors, headers and redirects; whole, URL-encoded and in base64. Further runs end
by SIGKILL, Ctrl-C, SIGABRT with printed stacks and an unexpected exception, log everything, or hold the key in the address.
Every file and all output is searched for the key and for `Authorization`.
"""
_FOUND = """## Found by these programmes, and fixed

- An answer of any size was read whole. Now an answer beyond 4 MiB is refused, and no more than that is held in memory.
- A server with a very long error message stopped the whole run while the message was searched for the name of a parameter, in
  quadratic time.
- Errors of the wrong types (422 with a number for a place), a token count of 10^400, a finish reason of half an emoji and a
  `Retry-After` in the year 10^20 ended the run with a traceback. Finished dialogues were not lost, but the run stopped.
- The key was visible in a finish reason, in base64, and in an error that repeated an address with `?api-key=`.
- A torn line in `log.jsonl`, left by a kill, made the next line unreadable, and hid the run's date and its spending.
- A transcript could hold a score of NaN or infinity, which breaks every mean.
- A price of four hundred digits, and settings edited to hold half an emoji, ended in a traceback.
- `"change": "1_0"` was read as ten.

## Known limits

- What a process spent since its last finished dialogue is not counted after `kill -9`.
- A 400 for text that a content filter refuses leaves a dialogue unscored.
- A secret that a server returns in another form than whole, cut, URL-encoded or base64 is not recognised; nor is one of fewer
  than twelve characters, except whole.
"""


def _checks(found: dict[str, Any]) -> str:
    return "\n".join(f"- {'PASS' if passed else '**FAIL**'}: {check}." for check, passed in found["checks"].items())


def page() -> str:
    """The page's text."""
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
    return "\n".join(
        (
            _HEAD,
            _CALLS,
            f"Measured on {faults['machine']}, client and server: {faults['calls']} calls, {faults['faulty']} of them faulty; "
            f"{faults['dialogues']} dialogues, {faults['unscored']} unscored; {faults['seconds']} s and at most "
            f"{faults['peak MB']} MB, without faults {calm['calls']} calls, {calm['seconds']} s and {calm['peak MB']} MB. "
            "Other programs ran on the machine.\n",
            table(["fault", "calls", *_OUTCOMES], [*rows, ["all", faults["faulty"], *sums]]),
            "\n" + _checks(faults) + "\n",
            _KILLS,
            f"Measured on {kills['machine']}: {kills['kills']} kills of a run of {kills['dialogues']} dialogues; torn lines and "
            f"files made on purpose {sum(kills['torn'].values())} times.\n",
            table(["killed while", "times"], list(kills["moments"].items())),
            "\n" + _checks(kills) + "\n",
            _FUZZ,
            f"Measured on {fuzz['machine']}: {fuzz['inputs']} inputs, {len(fuzz['broken'])} parsers broken.\n",
            table(["parser", "inputs", "values", "our errors", "which"], fuzzed),
            "\n" + _CANARY,
            f"Measured on {canary['machine']}: {canary['runs']} runs, {canary['files']} files searched, "
            f"{canary['runs with traces']} runs with a trace of the key.\n",
            _FOUND,
        )
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
