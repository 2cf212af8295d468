"""The sweep of alpha, the weight of the turn credit (EIBench Figure 3): `python -m benchmarks.alpha_sweep` (extra `train`; hours)

Trains the laptop recipe with alpha 0, 5, 10, 15 and 20 and draws the last held-out score, of all scenarios and by scene, over
alpha. A finished run is not made again and an interrupted one resumes. `--recipe ctc_grpo_qwen3_8b` with a key and 8 GPUs is the
paper's sweep. `--runs RUN ...` only draws runs that are there; of several seeds the mean, and a band from lowest to highest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.learning import SHORT, Job, Made, found_of, make
from benchmarks.learning_picture import panels
from heartloop.report.training import band_of

ALPHAS = (0, 5, 10, 15, 20)
"""EIBench section 5.5.1."""


def jobs_of(recipe: str, seeds: Sequence[int], settings: Sequence[str]) -> list[Job]:
    """The runs of a sweep, all alphas of a seed before the next seed."""
    return [
        Job("alpha", str(alpha), recipe, None, seed, (f"algorithm.alpha={alpha}", *settings))
        for seed in seeds
        for alpha in ALPHAS
    ]


def scores_of(runs: Sequence[Path]) -> dict[str, dict[int, dict[float, float]]]:
    """Last held-out scores of whole runs, by group ("mean": all scenarios), seed and alpha."""
    found: dict[str, dict[int, dict[float, float]]] = {}
    for run in runs:
        results = found_of(run, {})
        if results is None or not results["whole"]:
            continue
        recipe: dict[str, Any] = json.loads((run / "settings.json").read_text(encoding="utf-8"))["recipe"]
        last = {name: score for name, score in results["held_out"][-1].items() if name != "step"}
        for group, score in last.items():
            found.setdefault(group, {}).setdefault(recipe["seed"], {})[recipe["algorithm"]["alpha"]] = score
    return dict(sorted(found.items(), key=lambda one: (one[0] != "mean", one[0])))


def table(found: dict[str, dict[int, dict[float, float]]]) -> str:
    """A row for each alpha, means over the seeds."""
    alphas = sorted({alpha for scores in found["mean"].values() for alpha in scores})
    rows = [["alpha", "seeds", *found], ["---:"] * (2 + len(found))]
    for alpha in alphas:
        of = {group: [scores[alpha] for scores in by_seed.values() if alpha in scores] for group, by_seed in found.items()}
        cells = [f"{sum(values) / len(values):+.3f}" for values in of.values()]
        rows.append([f"{alpha:g}", str(len(next(iter(of.values())))), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def picture(found: dict[str, dict[int, dict[float, float]]]) -> str:
    """Curves over alpha, as SVG; a seed without every alpha narrows its curves to those that all seeds have."""
    bands = [
        band_of(
            [{round(alpha): score for alpha, score in sorted(scores.items())} for scores in by_seed.values()], unsmoothed=True
        )
        for by_seed in found.values()
    ]
    last = max(round(alpha) for scores in found["mean"].values() for alpha in scores)
    return panels("Held-out score by alpha", list(found), [("Held-out score, by alpha", bands)], last)


def main() -> None:
    """Makes what is missing and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="ctc_grpo_tiny")
    parser.add_argument("--folder", type=Path, default=Path("build/alpha"), help="where the runs and the picture lie")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--set", nargs="*", default=list(SHORT), help="settings of every run; default: the short runs of learning"
    )
    parser.add_argument("--at-once", type=int, default=1, choices=(1, 2, 3, 4), help="runs at a time")
    parser.add_argument("--runs", type=Path, nargs="+", help="draw these runs, make none")
    arguments = parser.parse_args()
    jobs = jobs_of(arguments.recipe, arguments.seeds, arguments.set)

    def write(folder: Path, made: Made) -> None:
        found = scores_of(arguments.runs or [folder / job.name for job in jobs])
        if not found:
            print("no whole run yet")
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alpha.svg").write_text(picture(found), encoding="utf-8")
        print(f"{table(found)}\n{folder / 'alpha.svg'} written", flush=True)

    if arguments.runs:
        write(arguments.folder, {})
    else:
        make(jobs, arguments.folder, write, at_once=arguments.at_once)


if __name__ == "__main__":
    main()
