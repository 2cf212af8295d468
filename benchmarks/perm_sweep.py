"""What does the bystander's weight do? `python -m benchmarks.perm_sweep` (extra `train`; hours)

Runs `heartloop train perm_grpo_tiny` with lambda_bys of 0.1, 0.5 and 1.0 (PERM Table 6), three seeds each, and a control that
learns nothing, one run after the other; all begin with one warm start. A run that is there is not made again, one that was cut
off goes on; after each run `benchmarks/results/perm_sweep.json` and the tables of its page are written from
what is there, and say what is missing. `--tables` only writes them, `--steps N` makes short runs, for a try. Held-out people are
measured by the whole reward, with the published weight of 0.5, whatever is learned from. Does not read answers: people do that.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.learning import SEEDS, Job, Made, changes_of, found_of, made_on, made_with, make, with_interval
from benchmarks.machine import versions
from benchmarks.page import PAGES, rewrite
from heartloop.core.system import read_steps

__all__ = ["JOBS", "PAGE", "PARTS", "RESULTS", "jobs_of", "parts_of", "table", "write"]

RESULTS = Path(__file__).parent / "results" / "perm_sweep.json"
PAGE = PAGES / "perm_learning.md"
STEPS = 20
PARTS = {
    "resonation": ("resonation", "{:.2f}"),
    "expression": ("expression", "{:.2f}"),
    "reception": ("reception", "{:.2f}"),
    "bystander": ("bystander", "{:.1f}"),
    "form": ("valid form", "{:.0%}"),
    "response_tokens": ("tokens", "{:.1f}"),
}
"""Of the held-out answers, by the name in the metrics: a heading, and how it is written."""
LEARNED = {"bystander_0.1": "0.1", "bystander_0.5": "0.5", "bystander_1.0": "1.0", "control": "control"}
"""The bystander's weight in the training reward, by variant."""


def jobs_of(steps: int) -> tuple[Job, ...]:
    """The runs, in the order in which they are made: a seed of each before the next seed."""
    settings = (f"batch.steps={steps}", f"watching.validate_every={steps}", f"watching.save_every={steps}",
                f"watching.transcripts_every={steps}")  # fmt: skip
    return tuple(Job("perm", variant, "perm_grpo_tiny", variant, seed, settings) for seed in SEEDS for variant in LEARNED)


JOBS = jobs_of(STEPS)


def parts_of(run: Path) -> list[dict[str, float]]:
    """The held-out parts of a run's evaluations, in order."""
    found = []
    for line in read_steps(run / "metrics.jsonl"):
        data = line["data"]
        if data.get("held_out/score") is not None:
            named = {name: data.get(f"held_out/parts/{name}") for name in PARTS}
            found.append({name: round(value, 4) for name, value in named.items() if value is not None})
    return found


def table(results: Mapping[str, Any]) -> str:
    """The page's tables: whole runs only; what is missing is said."""
    runs = results["runs"]
    by_variant: dict[str, list[dict[str, Any]]] = defaultdict(list)
    missing = []
    for job in JOBS:
        if runs.get(job.name, {}).get("whole"):
            by_variant[job.what].append(runs[job.name])
        else:
            missing.append(f"{LEARNED[job.what]} seed {job.seed}")
    said = [made_with(results)]
    if by_variant:
        whole = [run for found in by_variant.values() for run in found]
        said += [made_on(whole), _rewards(by_variant), _parts(by_variant)]
    if missing:
        said.append(f"Missing: {', '.join(missing)}.")
    return "\n\n".join(said)


def _rewards(by_variant: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    lines = ["| bystander_weight | seeds | steps | reward before | after | change | min, max | minutes |"]
    lines.append("|:---|---:|---:|---:|---:|---:|---:|---:|")
    for variant, runs in by_variant.items():
        first, last = ([run["held_out"][place]["mean"] for run in runs] for place in (0, -1))
        changes = changes_of(runs)
        minutes = [run["seconds"] / 60 for run in runs if run["seconds"] is not None]
        cells = [
            LEARNED[variant],
            str(len(runs)),
            str(runs[0]["held_out"][-1]["step"]),
            f"{statistics.fmean(first):+.3f}",
            f"{statistics.fmean(last):+.3f}",
            with_interval(changes),
            f"{min(changes):+.3f}, {max(changes):+.3f}",
            f"{statistics.fmean(minutes):.0f}" if minutes else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _parts(by_variant: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    lines = [f"| bystander_weight | {' | '.join(heading for heading, _ in PARTS.values())} |"]
    lines.append(f"|:---{'|---:' * len(PARTS)}|")
    for variant, runs in by_variant.items():
        cells = [LEARNED[variant]]
        for name, (_, form) in PARTS.items():
            ends = [[run["parts"][place][name] for run in runs if name in run["parts"][place]] for place in (0, -1)]
            if not all(ends):
                cells.append("")
                continue
            before, after = (form.format(statistics.fmean(values)) for values in ends)
            spread = f" ({form.format(min(ends[1]))} to {form.format(max(ends[1]))})" if len(runs) > 1 else ""
            cells.append(f"{before} → {after}{spread}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(folder: Path, made: Made, *, jobs: Sequence[Job] = JOBS) -> None:
    """The results of what is there, and the page."""
    before = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"] if RESULTS.is_file() else {}
    runs = {}
    for job in jobs:
        found = found_of(folder / job.name, made.get(job.name, {}))
        if found is not None:
            runs[job.name] = {**found, "parts": parts_of(folder / job.name)}
        elif job.name in before:
            runs[job.name] = before[job.name]
    results = {**versions("torch", "verl", "ray", "transformers"), "runs": runs}  # each run has its own machine
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "perm_sweep", table(results))


def main() -> None:
    """Makes what is missing, one run after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/perm_sweep"), help="where the runs lie")
    parser.add_argument("--tables", action="store_true", help="make no run, write what is there")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run; another number is a try, and writes no results")
    arguments = parser.parse_args()
    jobs = jobs_of(arguments.steps)
    tried = arguments.steps != STEPS
    make([] if arguments.tables else jobs, arguments.folder, _shown if tried else partial(write, jobs=jobs))


def _shown(folder: Path, made: Made) -> None:
    """What a try came to, printed."""
    for run in sorted(path.parent for path in folder.glob("*/metrics.jsonl")):
        print(f"{run.name}: {made.get(run.name, {}).get('seconds', 0.0):.0f} s, {json.dumps(parts_of(run))}", flush=True)


if __name__ == "__main__":
    main()
