"""Coverage of the intervals: `python -m benchmarks.coverage`

Plays every general baseline with the embedded user, twice on each scenario, and takes the scenarios' mean scores as populations
from which studies of 10, 30 and 100 scenarios are drawn. Writes how often the 95 % intervals contain the population's mean, how
often the product marks one as skewed, and the same for shares, ranks and means over judges, into benchmarks/results/coverage.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment, stratified
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import GENERAL, Baseline
from heartloop.reader.reader import embedded_reader
from heartloop.scoring.ranks import paired_p, ranks
from heartloop.scoring.statistics import Shape, mean_interval, share_interval
from heartloop.scoring.variance import mean_over_judges

PAGE = PAGES / "coverage.md"
RESULTS = Path(__file__).parent / "results" / "coverage.json"
ENVIRONMENTS = ("sage", "eibench", "empa", "perm", "daily")
SIZES = (10, 30, 100)
STUDIES = 4_000
RESAMPLES = 1_000
NEAR_NORMAL = 0.5
"""Largest skewness of a population that is called near normal."""
MOST_SCENARIOS = 150

Floats = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """One baseline in one environment."""

    environment: str
    baseline: str


def scores_of(cell: Cell) -> list[float]:
    """Mean points of two dialogues with each scenario; scenarios with an unscored one are left out."""
    spec = load_environment(cell.environment)
    scenarios = stratified(spec.load(), MOST_SCENARIOS)
    ready = spec.make(scenarios, spec.players())

    async def go() -> list[float]:
        means = []
        for scenario in scenarios:
            policy = Baseline(cell.baseline)
            both = [
                await play(ready, scenario.id, policy, seed=dialogue_seed(0, scenario.id, repeat), repeat=repeat)
                for repeat in (0, 1)
            ]
            scores = [one.score for one in both if one.score is not None]
            if len(scores) == 2:
                means.append(spec.scale.points * sum(scores) / 2)
        return means

    return asyncio.run(go())


def skewness(population: Floats) -> float:
    """0 for a population without spread."""
    deviations = population - population.mean()
    spread = float(np.sqrt(np.mean(deviations**2)))
    return float(np.mean(deviations**3)) / spread**3 if spread > 1e-9 else 0.0


def covered_by_the_product(studies: Floats, mean: float) -> dict[str, float]:
    """Shares in percent: covered, marked, covered where not marked."""
    found = [mean_interval(study) for study in studies.tolist()]
    covered = np.array([one.low - 1e-9 <= mean <= one.high + 1e-9 for one in found])
    marked = np.array([one.shape is not Shape.NEAR_NORMAL for one in found])
    unmarked = float(covered[~marked].mean()) if not marked.all() else float("nan")
    return {name: round(100 * value, 1) for name, value in (
        ("covered", float(covered.mean())), ("marked", float(marked.mean())), ("unmarked", unmarked),
    )}  # fmt: skip


def covered_by_bootstraps(studies: Floats, mean: float, random: np.random.Generator) -> dict[str, float]:
    """Coverage in percent of the percentile bootstrap, BCa and bootstrap-t."""
    m, n = studies.shape
    means, spreads = studies.mean(1), studies.std(1, ddof=1)
    errors = spreads / np.sqrt(n)
    weights = random.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).T / n
    drawn = studies @ weights
    variances = np.maximum((studies**2) @ weights - drawn**2, 0.0) * n / (n - 1)
    low, high = np.quantile(drawn, (0.025, 0.975), axis=1)
    found = {"percentile": (low, high)}
    drawn_errors = np.sqrt(variances / n)
    t = np.where(drawn_errors > 1e-9, (drawn - means[:, None]) / np.where(drawn_errors > 1e-9, drawn_errors, 1.0), 0.0)
    t_low, t_high = np.quantile(t, (0.025, 0.975), axis=1)
    found["bootstrap-t"] = (means - t_high * errors, means - t_low * errors)
    below = (drawn < means[:, None]).mean(1) + 0.5 * (drawn == means[:, None]).mean(1)
    shift = ndtri(np.clip(below, 1e-3, 1 - 1e-3))
    deviations = studies - means[:, None]
    square = np.where(spreads > 1e-9, (deviations**2).sum(1), 1.0)
    acceleration = (deviations**3).sum(1) / (6 * square**1.5)
    order = np.sort(drawn, axis=1)
    ends = []
    for z in (-1.959964, 1.959964):
        share = ndtr(shift + (shift + z) / (1 - acceleration * (shift + z)))
        place = np.clip((share * RESAMPLES).astype(int), 0, RESAMPLES - 1)
        ends.append(order[np.arange(m), place])
    found["BCa"] = (ends[0], ends[1])
    return {name: round(100 * float(np.mean((a - 1e-9 <= mean) & (mean <= b + 1e-9))), 1) for name, (a, b) in found.items()}


def interval_coverage(populations: Mapping[str, Floats | None]) -> dict[str, Any]:
    """By population: skewness, and by size the coverage of the product's interval and of the bootstraps."""
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, population in populations.items():
        mean = 0.0 if population is None else float(population.mean())
        rows: dict[str, Any] = {}
        for n in SIZES:
            shape = (STUDIES, n)
            studies = random.normal(size=shape) if population is None else population[random.integers(0, len(population), shape)]
            rows[str(n)] = {
                "t": covered_by_the_product(studies, mean),
                **covered_by_bootstraps(studies[: STUDIES // 2], mean, random),
            }
        skew = 0.0 if population is None else round(skewness(population), 2)
        found[name] = {"skewness": skew, "scenarios": None if population is None else len(population), "sizes": rows}
    return found


def share_coverage() -> dict[str, Any]:
    """Exact coverage in percent of Wilson's and the t interval, by share of successes and number of scenarios."""
    from scipy.stats import binom

    found: dict[str, Any] = {}
    for share in (0.5, 0.85, 0.95):
        for n in SIZES:
            chance = binom.pmf(np.arange(n + 1), n, share)
            wilson = [share_interval(k, n) for k in range(n + 1)]
            t = [mean_interval([1.0] * k + [0.0] * (n - k)) for k in range(n + 1)]
            found[f"{share:.0%} of {n}"] = {
                name: round(100 * float(sum(p for p, one in zip(chance, ends, strict=True) if one.low <= share <= one.high)), 1)
                for name, ends in (("wilson", wilson), ("t", t))
            }
    return found


def bootstrap_ranks(rows: Floats, random: np.random.Generator) -> list[tuple[float, float]]:
    """The middle 95 % of each model's rank over resampled scenarios."""
    drawn = rows[:, random.integers(0, rows.shape[1], (400, rows.shape[1]))].mean(2)
    places = 1 + (drawn[None] > drawn[:, None]).sum(1)
    low, high = np.quantile(places, (0.025, 0.975), axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def rank_coverage(studies: int = 600) -> dict[str, Any]:
    """Six models on the same scenarios: in percent, how often all rank intervals hold and equal models are told apart."""
    random = np.random.default_rng(1)
    cases: dict[str, Sequence[float]] = {
        "six equal models": [0.0] * 6,
        "two groups of three nearly equal ones": [10.0, 9.9, 9.8, 0.2, 0.1, 0.0],
        "six models, 4 points apart": [20.0, 16.0, 12.0, 8.0, 4.0, 0.0],
    }
    found: dict[str, Any] = {}
    for name, means in cases.items():
        equal = len(set(means)) == 1
        for n in (10, 30, 100):
            corrected = resampled = told = uncorrected = 0
            for _ in range(studies):
                rows = random.normal(0, 10, n) + random.normal(0, 6, (6, n)) + np.array(means)[:, None]
                places = ranks(rows.tolist())
                truth = [1] * 6 if equal else range(1, 7)  # any rank is true of equal models; an interval has to span all
                corrected += all(
                    (one.best == 1 and one.worst == 6) if equal else one.best <= rank <= one.worst
                    for rank, one in zip(truth, places, strict=True)
                )
                resampled += all(
                    (low == 1 and high == 6) if equal else low <= rank <= high
                    for rank, (low, high) in zip(truth, bootstrap_ranks(rows, random), strict=True)
                )
                told += len({one.group for one in places}) > 1
                if equal:
                    uncorrected += any(paired_p((rows[a] - rows[b]).tolist()) < 0.05 for a in range(6) for b in range(a))
            found[f"{name}, {n} scenarios"] = {
                "corrected": round(100 * corrected / studies, 1),
                "bootstrap": round(100 * resampled / studies, 1),
                "told": round(100 * told / studies, 1),
                "uncorrected": round(100 * uncorrected / studies, 1) if equal else None,
            }
    return found


def judge_coverage(studies: int = 2_000) -> dict[str, Any]:
    """30 scenarios (sd 10), judges (sd as named), interaction (sd 4): coverage in percent of the mean over all judges."""
    random = np.random.default_rng(2)
    found: dict[str, Any] = {}
    for sd in (0.0, 2.0, 5.0):
        for judges in (2, 3, 5, 10):
            labels, scenarios = [j for _ in range(30) for j in range(judges)], [s for s in range(30) for _ in range(judges)]
            both = alone = 0
            for _ in range(studies):
                table = random.normal(0, 10, (30, 1)) + random.normal(0, sd, judges) + random.normal(0, 4, (30, judges))
                values = table.ravel().tolist()
                with_judges, over_scenarios = (
                    mean_over_judges(values, scenarios, labels),
                    mean_interval(values, clusters=scenarios),
                )
                both += with_judges.low <= 0 <= with_judges.high
                alone += over_scenarios.low <= 0 <= over_scenarios.high
            found[f"{judges} judges, sd {sd:g}"] = {
                "with judges": round(100 * both / studies, 1), "scenarios alone": round(100 * alone / studies, 1),
            }  # fmt: skip
    return found


def measure() -> dict[str, Any]:
    cells = [Cell(environment, baseline) for environment in ENVIRONMENTS for baseline in GENERAL]
    with ProcessPoolExecutor() as pool:
        played = dict(zip(cells, pool.map(scores_of, cells), strict=True))
    populations: dict[str, Floats | None] = {"normal": None, "85 % successes": np.array([100.0] * 85 + [0.0] * 15)}
    for cell, scores in played.items():
        if len(scores) > 1 and float(np.ptp(scores)) > 1e-9:
            populations[f"{cell.environment}, {cell.baseline}"] = np.array(scores)
    return {
        **machine("numpy", "scipy"),
        "weights": embedded_reader().hash,
        "studies": STUDIES,
        "constant": [
            f"{c.environment}, {c.baseline}" for c, scores in played.items() if len(scores) > 1 and np.ptp(scores) <= 1e-9
        ],
        "intervals": interval_coverage(populations),
        "shares": share_coverage(),
        "ranks": rank_coverage(),
        "judges": judge_coverage(),
    }


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    rows = results["intervals"]
    near = [one for one in rows.values() if abs(one["skewness"]) <= NEAR_NORMAL]

    def range_of(value: Callable[[Any], float], of: Sequence[Any]) -> str:
        found = [value(one) for one in of]
        return f"{np.mean(found):.1f} ({min(found):.1f} to {max(found):.1f})"

    def of_product(n: int) -> Callable[[Any], float]:
        return lambda one: float(one["sizes"][str(n)]["t"]["covered"])

    def of_bootstrap(name: str, n: int) -> Callable[[Any], float]:
        return lambda one: float(one["sizes"][str(n)][name])

    lines = [
        f"{results['studies']:,} studies of each size, {results['studies'] // 2:,} for the bootstraps. {results['machine']}, "
        f"Python {results['python']}, numpy {results['numpy']}, weights {results['weights']}.",
        "",
        f"**Which interval.** Coverage in percent of a 95 % interval over the {len(near)} near normal populations (skewness at "
        f"most {NEAR_NORMAL:g}): mean, lowest and highest.",
        "",
        f"| interval | {' | '.join(f'{n} scenarios' for n in SIZES)} |",
        f"|---|{'---|' * len(SIZES)}",
        f"| t (used) | {' | '.join(range_of(of_product(n), near) for n in SIZES)} |",
    ]
    for name, words in (
        ("percentile", "percentile bootstrap (used before)"),
        ("BCa", "BCa bootstrap"),
        ("bootstrap-t", "bootstrap-t"),
    ):
        lines.append(f"| {words} | {' | '.join(range_of(of_bootstrap(name, n), near) for n in SIZES)} |")
    lines += [
        "",
        "**Each population.** Coverage of the t interval in percent; in brackets the share of studies that are marked as skewed "
        "or without spread, and the coverage of the others.",
        "",
        f"| population | skewness | {' | '.join(f'{n} scenarios' for n in SIZES)} |",
        f"|---|---|{'---|' * len(SIZES)}",
    ]

    def cell(one: Any, n: int) -> str:
        seen = one["sizes"][str(n)]["t"]
        others = f", else {seen['unmarked']:.1f}" if seen["marked"] and seen["unmarked"] == seen["unmarked"] else ""
        return f"{seen['covered']:.1f} ({seen['marked']:.0f} %{others})"

    lines += [f"| {name} | {one['skewness']:.1f} | {' | '.join(cell(one, n) for n in SIZES)} |" for name, one in rows.items()]
    if results["constant"]:
        lines += ["", f"Left out, because every scenario has the same score: {'; '.join(results['constant'])}."]
    lines += [
        "",
        "**Shares of successes.** Exact coverage in percent.",
        "",
        "| successes | Wilson | t |",
        "|---|---|---|",
        *(f"| {name} | {one['wilson']:.1f} | {one['t']:.1f} |" for name, one in results["shares"].items()),
        "",
        "**Ranks of six models.** How often all rank intervals together hold, and how often the models are in more than one "
        "group. Of equal models an interval holds if it spans all ranks. In percent.",
        "",
        "| models | corrected tests (used) | bootstrap of ranks | more than one group | some pair apart without correction |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {one['corrected']:.1f} | {one['bootstrap']:.1f} | {one['told']:.1f} | "
            f"{'–' if one['uncorrected'] is None else format(one['uncorrected'], '.1f')} |"
            for name, one in results["ranks"].items()
        ),
        "",
        "**Means over judges.** 30 scenarios with a standard deviation of 10, judges with the one named, an interaction of 4. "
        "Coverage in percent of the mean over all judges that might have been asked.",
        "",
        "| design | judges random (used) | scenarios alone |",
        "|---|---|---|",
        *(f"| {name} | {one['with judges']:.1f} | {one['scenarios alone']:.1f} |" for name, one in results["judges"].items()),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    chosen = parser.parse_args()
    results = json.loads(json.dumps(measure()))
    if not chosen.dry_run:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        rewrite(PAGE, "coverage", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
