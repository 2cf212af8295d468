"""Learning curves of the laptop recipes: `python -m benchmarks.learning` (extra `train`; hours)

Runs `heartloop train` with the laptop recipes: CTC-GRPO with three seeds and a control with learning rate 0; its ablations
(EIBench Table 7); GRPO against PPO in SAGE. All start from one warm start. A finished run is not made again and an interrupted
one resumes, so the programme can be stopped and started at any time. After each run it writes
`benchmarks/results/learning.json`, the tables and charts of its page, and names what is missing. `--tables`
only writes, `--only` makes some runs, such as `--only control` or `--only ablations`, `--at-once 2` makes two at a time. Does
not read dialogues.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import t as student_t

from benchmarks.learning_picture import picture
from benchmarks.learning_replies import replies_of, replies_table
from benchmarks.machine import processor, versions
from benchmarks.page import PAGES, rewrite

RESULTS = Path(__file__).parent / "results" / "learning.json"
PAGE = PAGES / "learning.md"
SEEDS = (0, 1, 2)
CONFIDENCE = 0.95
Made = Mapping[str, Mapping[str, Any]]
"""How each run was made, by its name: `seconds` of all attempts, `machine`, and how many were made `at_once`."""


class Job(NamedTuple):
    """One training run."""

    group: str
    what: str
    recipe: str
    variant: str | None
    seed: int
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.group}-{self.what}-{self.seed}"

    def words(self, out: Path) -> list[str]:
        """The command line after `heartloop`."""
        found = ["train", self.recipe, "--allow-embedded", "--seed", str(self.seed), "--out", str(out)]
        if self.variant is not None:
            found += ["--variant", self.variant]
        for setting in self.settings:
            found += ["--set", setting]
        return found


SHORT = ("batch.steps=20", "watching.validate_every=20", "watching.save_every=20")
"""Of the runs that are compared."""

JOBS: tuple[Job, ...] = (
    *(Job("ctc_grpo", "learning", "ctc_grpo_tiny", None, seed) for seed in SEEDS),
    *(Job("ctc_grpo", "control", "ctc_grpo_tiny", "control", seed, SHORT) for seed in SEEDS),
    *(
        Job("ablations", what, "ctc_grpo_tiny", variant, seed, SHORT)
        for seed in SEEDS
        for what, variant in (
            ("full", None), ("no_process", "no_process"), ("no_centring", "no_centring"), ("no_floor", "no_floor"),
        )
    ),
    *(Job("sage", what, f"rlver_{what}_tiny", None, seed, SHORT) for seed in SEEDS for what in ("grpo", "ppo")),
)  # fmt: skip
"""In the order in which they are made."""

COMPARED = ("ablations", "sage")
"""Groups whose rows are compared seed by seed: as many steps each, from one warm start."""
COUNTED = ("ctc_grpo", "sage")
"""Groups whose replies are counted."""
MOST_SCENES = 4
"""With more scenes, each has too few held-out scenarios for a column."""
HEADINGS = {
    "ctc_grpo": "CTC-GRPO in EIBench",
    "ablations": "Ablations of CTC-GRPO, short runs",
    "sage": "GRPO and PPO in SAGE, short runs",
}


def found_of(run: Path, made: Mapping[str, Any]) -> dict[str, Any] | None:
    """The results of a run, from its metrics, and how it was `made`; `None` if there is no evaluation yet."""
    metrics = run / "metrics.jsonl"
    if not metrics.is_file():
        return None
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    held_out = [
        {"step": line["step"], **{_short(name): round(value, 4) for name, value in line["data"].items() if _is_held_out(name)}}
        for line in lines
        if line["data"].get("held_out/score") is not None
    ]
    if not held_out:
        return None
    steps = [line for line in lines if "dialogue/score" in line["data"]]
    recipe = json.loads((run / "settings.json").read_text(encoding="utf-8"))["recipe"]
    return {
        "whole": held_out[-1]["step"] >= recipe["batch"]["steps"],
        "seconds": round(made["seconds"]) if "seconds" in made else None,
        "machine": made.get("machine"),
        "at_once": made.get("at_once"),
        "seconds_a_step": round(statistics.median(line["data"]["timing_s/step"] for line in steps), 2) if steps else None,
        "held_out": held_out,
        "training": [round(line["data"]["dialogue/score"], 4) for line in steps],
        "reply_tokens": [round(line["data"]["dialogue/reply_tokens"], 1) for line in steps],
        "failed": int(sum(line["data"].get("dialogue/failed") or 0 for line in steps)),
    }


def _is_held_out(name: str) -> bool:
    return name.startswith("held_out/score")


def _short(name: str) -> str:
    return name.removeprefix("held_out/score").removeprefix("/") or "mean"


def interval(values: Sequence[float]) -> float | None:
    """Half the width of Student's interval of a mean over seeds; `None` below two.

    >>> round(interval([0.1, 0.2, 0.3]), 3)  # 4.303 x 0.1 / sqrt(3)
    0.248
    """
    if len(values) < 2:
        return None
    width = float(student_t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    return width * statistics.stdev(values) / math.sqrt(len(values))


def table(results: Mapping[str, Any]) -> str:
    """The page's tables: finished runs only; missing ones are named.

    Runs that were made elsewhere with a warm start of their own (another processor sums in another order) are a row apart.
    """
    runs = results["runs"]
    parts = [made_with(results)]
    for group, heading in HEADINGS.items():
        by_what = _whole(runs, group)
        missing = [f"{job.what} seed {job.seed}" for job in JOBS if job.group == group and not _is_whole(runs, job)]
        parts.append(f"### {heading}")
        for name, run in results.get("elsewhere", {}).items():
            if name.startswith(f"{group}-"):
                by_what["another warm start"].append(run)
        if by_what:
            whole = [run for found in by_what.values() for run in found]
            parts += [_rows(by_what, paired=group in COMPARED), made_on(whole), f"![{heading}]({picture_of(group).name})"]
            if group in COUNTED and (counted := replies_table(by_what)):
                parts += ["#### Replies on held-out scenarios", counted]
        if missing:
            parts.append(f"Missing: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _whole(runs: Mapping[str, Any], group: str) -> dict[str, list[dict[str, Any]]]:
    """The whole runs of a group, by what they are, in the order of their seeds."""
    by_what: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for job in JOBS:
        if job.group == group and _is_whole(runs, job):
            by_what[job.what].append(runs[job.name])
    return by_what


def _is_whole(runs: Mapping[str, Any], job: Job) -> bool:
    return bool(runs.get(job.name, {}).get("whole"))


def picture_of(group: str) -> Path:
    """Where the curves of a group are drawn."""
    return PAGE.with_name(f"learning-{group}.svg")


def made_with(results: Mapping[str, Any]) -> str:
    """The versions that all runs of a page were made with."""
    return f"{results['system']}, Python {results['python']}, torch {results.get('torch', 'unknown')}."


def made_on(runs: Sequence[Mapping[str, Any]]) -> str:
    """On which machines, and how many at a time.

    >>> made_on([{"machine": "2 cores of A", "at_once": n} for n in (2, 1, 2)] + [{"machine": "2 cores of B", "at_once": 1}])
    'Made on 2 cores of A (2 runs two at a time, 1 run alone) and on 2 cores of B (1 run alone).'
    """
    by_machine: dict[str, Counter[int]] = defaultdict(Counter)
    for run in runs:
        by_machine[run["machine"]][run["at_once"]] += 1
    how = {1: "alone", 2: "two at a time", 3: "three at a time", 4: "four at a time"}

    def told(counts: Counter[int]) -> str:
        return ", ".join(f"{n} run{'s' * (n != 1)} {how[at_once]}" for at_once, n in counts.most_common())

    return f"Made {' and '.join(f'on {machine} ({told(counts)})' for machine, counts in by_machine.items())}."


def _rows(by_what: Mapping[str, Sequence[dict[str, Any]]], *, paired: bool) -> str:
    """A row for each of what is compared.

    Args:
        paired: the first row's change is taken from that of the same seed in each other row.
    """
    scenes = sorted({*next(iter(by_what.values()))[0]["held_out"][0]} - {"step", "mean"})
    if len(scenes) > MOST_SCENES:
        scenes = []
    against = next(iter(by_what))
    difference = [f"difference to {against}"] if paired else []
    head = ["", "seeds", "steps", "before", "after", "change", *difference, *scenes, "minutes"]
    lines = [f"| {' | '.join(head)} |", f"|:---{'|---:' * (len(head) - 1)}|"]
    for what, runs in by_what.items():
        first, last = [run["held_out"][0] for run in runs], [run["held_out"][-1] for run in runs]
        places = 3 if max(abs(row["mean"]) for row in (*first, *last)) <= 1 else 1  # of -1 to 1, or of 0 to 100
        minutes = [run["seconds"] / 60 for run in runs if run["seconds"] is not None]
        more = [""] if paired else []
        if paired and what != against and len(runs) == len(by_what[against]):
            of_seed = zip(changes_of(runs), changes_of(by_what[against]), strict=True)
            more = [with_interval([one - other for one, other in of_seed], places)]
        cells = [
            what,
            str(len(runs)),
            str(last[0]["step"]),
            f"{_mean(first, 'mean'):+.{places}f}",
            f"{_mean(last, 'mean'):+.{places}f}",
            with_interval(changes_of(runs), places),
            *more,
            *(f"{_mean(first, scene):+.2f} → {_mean(last, scene):+.2f}" for scene in scenes),
            f"{statistics.fmean(minutes):.0f}" if minutes else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def changes_of(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """Change of the held-out score from the first evaluation to the last, run by run."""
    return [run["held_out"][-1]["mean"] - run["held_out"][0]["mean"] for run in runs]


def with_interval(values: Sequence[float], places: int = 3) -> str:
    """A mean over seeds in words, with its interval where there are two."""
    half = interval(values)
    return f"{statistics.fmean(values):+.{places}f}" + (f" ± {half:.{places}f}" if half is not None else "")


def _mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def write(folder: Path, made: Made) -> None:
    """The results of what is there, the page and its pictures."""
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {"runs": {}}
    runs = {}
    for job in JOBS:
        found = found_of(folder / job.name, made.get(job.name, {}))
        if found is not None:
            counted = replies_of(folder / job.name) if job.group in COUNTED else None
            runs[job.name] = found if counted is None else {**found, "replies": counted}
        elif job.name in before["runs"]:
            runs[job.name] = before["runs"][job.name]
    results = {**versions("torch", "verl", "ray", "transformers"), "runs": runs}  # each run has its own machine
    if "elsewhere" in before:
        results["elsewhere"] = before["elsewhere"]
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "learning", table(results))
    for group, drawn in pictures(results).items():
        picture_of(group).write_text(drawn, encoding="utf-8")


def pictures(results: Mapping[str, Any]) -> dict[str, str]:
    """The curves of every group that has whole runs, as SVG."""
    by_group = {group: _whole(results["runs"], group) for group in HEADINGS}
    return {group: picture(HEADINGS[group], by_what) for group, by_what in by_group.items() if by_what}


def make(jobs: Sequence[Job], folder: Path, write: Callable[[Path, Made], None], *, at_once: int = 1) -> None:
    """Makes the runs that are missing; a run that was cut off goes on. Writes what there is after each.

    Args:
        at_once: so many at a time; while the first makes the warm start, the others wait for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "made.json"
    made: dict[str, dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    starting, writing = threading.Lock(), threading.Lock()

    def run(job: Job) -> None:
        out = folder / job.name
        if (found_of(out, {}) or {}).get("whole"):
            return
        with starting:
            print(f"{job.name}: heartloop {' '.join(job.words(out))}", flush=True)
            started = time.monotonic()
            process = subprocess.Popen([sys.executable, "-m", "heartloop.cli", *job.words(out)])
            while process.poll() is None and not any(folder.glob("policies/*/curve.jsonl")):  # written last
                time.sleep(1)
        code = process.wait()
        with writing:
            spent = made.get(job.name, {}).get("seconds", 0.0) + time.monotonic() - started  # of all attempts
            made[job.name] = {"seconds": spent, "machine": processor(), "at_once": at_once}
            kept.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
            if code:
                print(f"{job.name} ended with {code}; the next one follows", flush=True)
            write(folder, made)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run, jobs))
    write(folder, made)


def main() -> None:
    """Makes what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/learning"), help="where the runs lie")
    parser.add_argument(
        "--only", nargs="+", choices=sorted({name for job in JOBS for name in job[:2]}), help="groups or rows of a table"
    )
    parser.add_argument("--at-once", type=int, default=1, choices=(1, 2, 3, 4), help="runs at a time; minutes are longer then")
    parser.add_argument("--tables", action="store_true", help="make no run, write what is there")
    arguments = parser.parse_args()
    chosen = [job for job in JOBS if arguments.only is None or {job.group, job.what} & {*arguments.only}]
    make([] if arguments.tables else chosen, arguments.folder, write, at_once=arguments.at_once)


if __name__ == "__main__":
    main()
