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

_FATES = ("retried", "re-asked", "used", "unscored", "farewell")
_HEAD = """# What happens when everything fails

Four programmes, each repeatable with one command and no network (extra `dev`: `pip install -e ".[dev]"`). Numbers are those of
the JSON files in `benchmarks/results/`, and `python benchmarks/fault_page.py` writes this page from them.
"""
_CALLS = """## Ten thousand calls, three in ten faulty

`python benchmarks/faults.py` plays whole dialogues of `heartloop eval` against a local server whose faults are drawn from a
seed. How the person feels follows from the seed sent with the question and from nothing else, so the right score of every
dialogue is worked out beforehand, and each scored dialogue is held against it, mood by mood.

*Retried*: the same request came again. *Re-asked*: the question came again with what was wrong about the answer. *Used*: the
answer was good all the same. *Unscored*: the dialogue ended by it, is named with its cause and is in no mean. *Farewell*: only
parting words after the last measurement were lost.
"""
_KILLS = """## A hundred kills

`python benchmarks/kills.py` starts one run again and again and ends each process with SIGKILL at a random moment; some kills
leave half lines and half files behind, some strike while a second process wants the same directory. At the end the run's
transcripts, scores and settings are held against those of a run that nobody killed.
"""
_FUZZ = """## A hundred thousand inputs

`python benchmarks/fuzz.py` gives every parser of what comes from outside generated inputs: whole, mutated and broken ones. Each
gives a value in which no number and no word is made up, or one of our own errors; never another exception. `make test`
tries some hundred of the same.
"""
_CANARY = """## The key

`python benchmarks/canary.py` runs `heartloop eval` with a canary for a key through every fault of the server, which repeats
the key wherever it can: in answers, errors, headers and redirects, whole, URL-encoded and in base64. Further runs end by
SIGKILL, Ctrl-C, SIGABRT with stacks shown and an exception that nobody expected, log everything, or hold the key in the
address. Every file and all output is searched for the key and for `Authorization`.
"""
_FOUND = """## What these programmes found, and is mended

- An answer of any size was read whole. Now it is no answer beyond 4 MiB, and no more than that is held.
- A server that complained at great length kept the whole run waiting while its words were searched for the name of a
  parameter, in time that grew with their square.
- Errors of the wrong types (422 with a number for a place), a token count of 10^400, a finish reason of half an emoji and a
  `Retry-After` in the year 10^20 ended the run with a traceback. Finished dialogues were kept, but the run stood still.
- The key came through in a finish reason, in base64, and in an error that repeated an address with `?api-key=`.
- A half line in `log.jsonl`, left by a kill, made the next line unreadable, and hid the run's date and what it had spent.
- A transcript could hold a score of NaN or infinity, which no mean survives.
- A price of four hundred digits, and settings edited to hold half an emoji, ended in a traceback.
- `"change": "1_0"` was read as ten.

## What is known and left

- What a process spent since its last finished dialogue is forgotten when it is killed by `kill -9`.
- A 400 for what a content filter refuses leaves a dialogue unscored.
- A secret said back in another form than whole, cut, URL-encoded or base64 is not recognised; neither is one of fewer than
  twelve characters, except whole.
"""


def _promises(found: dict[str, Any]) -> str:
    return "\n".join(f"- {'Kept' if kept else '**Broken**'}: {promise}." for promise, kept in found["promises"].items())


def page() -> str:
    """The page's text."""
    faults, kills, fuzz, canary = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in ("faults", "kills", "fuzz", "canary")
    )
    rows = [[fault, one["met"], *(one.get(fate, "") or "" for fate in _FATES)] for fault, one in faults["faults"].items()]
    sums = [sum(one.get(fate, 0) for one in faults["faults"].values()) for fate in _FATES]
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
            f"Measured on {faults['machine']}, both sides on it: {faults['calls']} calls, {faults['faulty']} of them faulty; "
            f"{faults['dialogues']} dialogues, {faults['unscored']} unscored; {faults['seconds']} s and at most "
            f"{faults['peak MB']} MB, without faults {calm['calls']} calls, {calm['seconds']} s and {calm['peak MB']} MB. "
            "Seconds are those of a machine with other work to do.\n",
            table(["fault", "met", *_FATES], [*rows, ["all", faults["faulty"], *sums]]),
            "\n" + _promises(faults) + "\n",
            _KILLS,
            f"Measured on {kills['machine']}: {kills['kills']} kills of a run of {kills['dialogues']} dialogues; half lines and "
            f"files left on purpose {sum(kills['torn'].values())} times.\n",
            table(["killed while", "times"], list(kills["moments"].items())),
            "\n" + _promises(kills) + "\n",
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
