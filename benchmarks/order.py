"""The order of the baselines that decision 13 claims: `python -m benchmarks.order [ENVIRONMENT ...]`

Plays every baseline with the embedded user on the held-out scenarios for which `counsellor` has written replies, under three
seeds, and writes mean scores in points, 95 % intervals over scenarios and the claims that do not hold into its page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import BASELINES, GENERAL, Baseline
from heartloop.models.baselines.scripted import written_scenarios
from heartloop.reader.reader import embedded_reader
from heartloop.scoring.statistics import mean_interval

RESULTS = Path(__file__).parent / "results" / "order.json"
PAGE = PAGES / "order.md"
ENVIRONMENTS = ("sage", "eibench", "empa", "perm", "daily")
SEEDS = (0, 1, 2)
LOW = ("fixer", "lecturer", "flatterer", "garbage", "silent")
ORDER: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    (("counsellor",), ("reflector",)),
    (("reflector",), LOW),
    (LOW, ("hostile",)),
    (("counsellor",), ("assistant", "template")),
    (("assistant", "template"), ("lecturer", "garbage", "silent")),
)
"""Decision 13: each of the first above each of the second."""
SCENES: Mapping[str, Sequence[tuple[str, str]]] = {
    "defense": (("counsellor", "pushover"), ("counsellor", "rigid"), ("rigid", "hostile")),
    "repair": (("counsellor", "excuser"), ("excuser", "hostile")),
    "charm": (("counsellor", "interviewer"), ("interviewer", "hostile")),
}


class Cell(NamedTuple):
    """One baseline in one environment under one seed."""

    environment: str
    baseline: str
    seed: int


def scores_of(cell: Cell) -> dict[str, tuple[str, float]]:
    """By scenario: its stratum and the score in points."""
    spec = load_environment(cell.environment)
    sets = [name for name in spec.scenarios.sets if name != "train"]
    scenarios = {s.id: s for name in sets for s in spec.load(name) if s.id in written_scenarios()}
    ready = spec.make(list(scenarios.values()), spec.players())

    async def go() -> dict[str, tuple[str, float]]:
        found: dict[str, tuple[str, float]] = {}
        for name, scenario in scenarios.items():
            played = await play(ready, name, Baseline(cell.baseline), seed=dialogue_seed(cell.seed, name, 0))
            if played.score is not None:
                found[name] = (str(scenario.stratum), spec.scale.points * played.score)
        return found

    return asyncio.run(go())


def interval(values: Sequence[float], within: tuple[float, float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over scenarios."""
    mean, low, high, _ = mean_interval(values, within=within)
    return round(mean, 2), round(low, 2), round(high, 2)


def claims_of(environment: str, means: Mapping[str, float], scenes: Mapping[str, Mapping[str, float]]) -> dict[str, bool]:
    """Whether each claim of the decision holds for these means."""
    found = {f"{a} > {b}": means[a] > means[b] for above, below in ORDER for a, b in product(above, below)}
    if environment == "eibench":
        found |= {f"{scene}: {a} > {b}": scenes[scene][a] > scenes[scene][b] for scene, rows in SCENES.items() for a, b in rows}
    return found


def measure(environments: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    names = {name: tuple(BASELINES if name == "eibench" else GENERAL) for name in environments}
    cells = [Cell(name, baseline, seed) for name in environments for baseline in names[name] for seed in seeds]
    with ProcessPoolExecutor() as pool:
        played = dict(zip(cells, pool.map(scores_of, cells), strict=True))
    results: dict[str, Any] = {**machine("numpy"), "weights": embedded_reader().hash, "seeds": list(seeds), "environments": {}}
    for name in environments:
        claims: dict[str, list[bool]] = {}
        for seed in seeds:
            mine = {baseline: played[Cell(name, baseline, seed)] for baseline in names[name]}
            means = {baseline: float(np.mean([score for _, score in rows.values()])) for baseline, rows in mine.items()}
            scenes = {
                scene: {b: float(np.mean([x for s, x in rows.values() if s == scene] or [np.nan])) for b, rows in mine.items()}
                for scene in {stratum for rows in mine.values() for stratum, _ in rows.values()}
            }
            for claim, holds in claims_of(name, means, scenes).items():
                claims.setdefault(claim, []).append(holds)
        over = {
            baseline: {
                scenario: float(np.mean([played[Cell(name, baseline, seed)][scenario][1] for seed in seeds]))
                for scenario in played[Cell(name, baseline, seeds[0])]
            }
            for baseline in names[name]
        }
        scale = load_environment(name).scale
        within = (scale.low, scale.high)
        results["environments"][name] = {
            "scenarios": len(over["counsellor"]),
            "means": {baseline: interval(list(rows.values()), within) for baseline, rows in over.items()},
            "claims": claims,
        }
    return results


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    found = results["environments"]
    names = [name for name in BASELINES if any(name in one["means"] for one in found.values())]

    def cell(environment: str, baseline: str) -> str:
        row = found[environment]["means"].get(baseline)
        return f"{row[0]:.1f} ({row[1]:.1f} to {row[2]:.1f})" if row else "–"

    lines = [
        f"Mean score in points (95 % interval over scenarios), mean of seeds {', '.join(map(str, results['seeds']))}. "
        f"{results['machine']}, Python {results['python']}, weights {results['weights']}.",
        "",
        "| baseline | " + " | ".join(f"{name} ({one['scenarios']})" for name, one in found.items()) + " |",
        f"|---|{'---|' * len(found)}",
        *(f"| `{name}` | {' | '.join(cell(environment, name) for environment in found)} |" for name in names),
        "",
    ]
    for name, one in found.items():
        broken = [f"{claim} ({sum(holds)} of {len(holds)} seeds)" for claim, holds in one["claims"].items() if not all(holds)]
        holding = len(one["claims"]) - len(broken)
        lines.append(f"- **{name}**: {holding} of {len(one['claims'])} claims hold under every seed.")
        lines += [f"  Not: {', '.join(broken)}."] if broken else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", default=list(ENVIRONMENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    chosen = parser.parse_args()
    results = measure(chosen.environments, chosen.seeds)
    if not chosen.dry_run:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        rewrite(PAGE, "order", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
